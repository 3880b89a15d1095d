"""Arrays that come from strangers: .npy files of plain numbers, never a pickle.

Python's own parser, which numpy hands a header to, recurses and raises almost anything. Headers of
plain numbers are so simple that three patterns read them.
"""

import io
import math
import re
import struct
from pathlib import Path
from typing import BinaryIO

import numpy as np

from ..errors import DataError
from ..files import atomic, open_plain

_LONGEST = 10_000  # bytes of a header, numpy's own limit
_MOST_AXES = 8
_DTYPE = re.compile(rb"'descr'\s*:\s*'([<>|=]?[a-zA-Z?]\d{0,4})'")
_ORDER = re.compile(rb"'fortran_order'\s*:\s*(True|False)")
_SHAPE = re.compile(rb"'shape'\s*:\s*\(((?:\s*\d{1,18}\s*,)*\s*(?:\d{1,18})?\s*)\)")


def read_npy(path: Path) -> np.ndarray:
    """Read an array of real numbers from a file; its size is known before memory is asked for."""
    with open_plain(path) as stream:
        return _read(stream, str(path))


def parse_npy(content: bytes, name: str) -> np.ndarray:
    """Read an array of real numbers from the bytes of a .npy file."""
    return _read(io.BytesIO(content), name)


def write_npy(path: Path, values: np.ndarray) -> None:
    """Write an array of plain numbers atomically.

    `np.save` hands small arrays to C's buffers, and a full disk is then found by nobody.
    """
    array = np.ascontiguousarray(values)
    header = np.lib.format.header_data_from_array_1_0(array)
    with atomic(path) as partial, open(partial, "wb") as stream:
        np.lib.format.write_array_header_1_0(stream, header)
        stream.write(array.reshape(-1).view(np.uint8).data)


def _read(stream: BinaryIO, name: str) -> np.ndarray:
    header = _header(stream)
    found = [pattern.search(header) for pattern in (_DTYPE, _ORDER, _SHAPE)]
    if not all(found):
        raise DataError(f"{name} is damaged, or not an array of numbers in a .npy file.")
    kind, order, lengths = (match[1].decode() for match in found if match)
    shape = tuple(int(length) for length in lengths.split(",") if length.strip())
    dtype = _dtype(kind)
    if dtype is None or dtype.kind not in "fiu" or len(shape) > _MOST_AXES:
        raise DataError(f"{name} must hold real numbers, got {dtype or kind} {shape!s:.80}.")
    start, end = stream.tell(), stream.seek(0, io.SEEK_END)
    size = math.prod(shape) * dtype.itemsize
    if end - start < size:
        raise DataError(f"{name} is damaged or truncated: it holds fewer numbers than it says.")
    stream.seek(start)
    numbers = np.frombuffer(stream.read(size), dtype)
    return numbers.reshape(shape, order="F" if order == "True" else "C").copy()


def _header(stream: BinaryIO) -> bytes:
    """Read the text that describes an array; empty if the stream does not begin with one."""
    magic = stream.read(8)
    if magic[:6] != b"\x93NUMPY" or magic[6:] not in (b"\1\0", b"\2\0", b"\3\0"):
        return b""
    width = "<H" if magic[6] == 1 else "<I"
    length = stream.read(struct.calcsize(width))
    if len(length) < struct.calcsize(width) or struct.unpack(width, length)[0] > _LONGEST:
        return b""
    return stream.read(struct.unpack(width, length)[0])


def _dtype(kind: str) -> np.dtype | None:
    try:
        return np.dtype(kind)
    except TypeError:
        return None
