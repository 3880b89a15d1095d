"""Writing a shard's HDF5 file so that a disk that fails is an error, not a crash.

HDF5 ends the process when it cannot close a file. So it writes to a file of ours that never fails:
the first error is kept, all that follows is dropped, and the error is raised when HDF5 is done.
"""

import io
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ..files import append, step
from .contents import DIGEST, Columns

Read = Callable[[int], tuple[bytes, bytes]]


class _Output(io.RawIOBase):
    """A file for HDF5 that takes everything; `error` tells whether the disk did."""

    def __init__(self, path: Path) -> None:
        step("create", path)
        self._file = open(path, "w+b", buffering=0)  # noqa: SIM115 (closed by `close`)
        self.error: OSError | None = None

    def write(self, content: Any) -> int:
        self._attempt(lambda: append(self._file, memoryview(content)))
        return len(content)

    def truncate(self, size: int | None = None) -> int:
        self._attempt(lambda: self._file.truncate(size))
        return size or 0

    def readinto(self, buffer: Any) -> int:
        return self._file.readinto(buffer)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        self._file.close()
        super().close()

    def _attempt(self, change: Callable[[], Any]) -> None:
        if self.error is None:
            try:
                change()
            except OSError as error:
                self.error = error


def write_hdf5(
    path: Path,
    columns: Columns,
    attributes: Mapping[str, Any],
    compress: bool,
    read: Read,
) -> None:
    """Write one shard: its columns, and the pixels and digests that `read` gives by position."""
    with _Output(path) as output:
        try:
            with h5py.File(output, "w") as file:
                file.attrs.update(attributes)
                _fill(file, columns, compress, read, output)
        except (OSError, RuntimeError):
            if output.error is None:
                raise
        if output.error is not None:
            raise OSError(output.error.errno, output.error.strerror, str(path)) from None


def _fill(file: h5py.File, columns: Columns, compress: bool, read: Read, output: _Output) -> None:
    shape = columns.shape[1:]
    file["rows"], file["latents"] = columns.rows, columns.latents
    if columns.classes is not None:
        file["classes"] = columns.classes
    if columns.sequences is not None:
        file["sequences"] = columns.sequences
    images = file.create_dataset("images", columns.shape, np.uint8, **image_layout(shape, compress))
    digests = np.empty((len(columns.rows), DIGEST), np.uint8)
    for position in range(len(columns.rows)):
        if output.error is not None:
            return
        pixels, digest = read(position)
        images[position] = np.frombuffer(pixels, np.uint8).reshape(shape)
        digests[position] = np.frombuffer(digest, np.uint8)
    file["digests"] = digests


def image_layout(shape: tuple[int, ...], compress: bool) -> dict[str, Any]:
    """Tell h5py how to store images: in one contiguous block, or one zstd chunk per image."""
    if not compress:
        return {}
    import hdf5plugin

    return {"chunks": (1, *shape), **hdf5plugin.Zstd(clevel=3)}
