"""PNG images. Those from outside: checksums checked, size known before a pixel is decoded."""

import io
import os
import struct
import zlib
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import Image

from ..errors import DataError
from ..shards.manifest import MAX_SIDE

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
THREADS = min(4, os.cpu_count() or 1)  # Pillow packs and unpacks outside the interpreter's lock


def write_png(image: np.ndarray, target: Path | BinaryIO) -> None:
    """Write an image, uint8 (H, W, 3)."""
    Image.fromarray(image).save(target, "PNG", compress_level=3)  # a third of the default's time


def png_shape(data: bytes, name: str) -> tuple[int, int, int]:
    """Read height, width and channels off the header."""
    if data[:8] != _SIGNATURE or len(data) < 24:
        raise DataError(f"{name} is not a PNG image.")
    width, height = struct.unpack_from(">II", data, 16)
    if not (0 < width <= MAX_SIDE and 0 < height <= MAX_SIDE):
        raise DataError(f"{name} is {width} x {height} pixels; up to {MAX_SIDE} are read.")
    return height, width, 3


def check_chunks(data: bytes) -> None:
    """Check that every chunk of a PNG is there with its checksum, the last one included.

    Decoding passes over those that do not matter to it. Raises `ValueError`.
    """
    position, kind = len(_SIGNATURE), b""
    while kind != b"IEND":
        length, kind = struct.unpack_from(">I4s", data.ljust(position + 8, b"\0"), position)
        end = position + 12 + length
        if end > len(data):
            raise ValueError("it is cut off")
        if zlib.crc32(data[position + 4 : end - 4]) != int.from_bytes(data[end - 4 : end], "big"):
            raise ValueError("a checksum disagrees")
        position = end


def decode_png(data: bytes, name: str, shape: tuple[int, int, int]) -> np.ndarray:
    """Decode an RGB image that must have the given shape, uint8 (H, W, 3).

    An alpha channel is dropped if it is opaque all over: Blender writes one unless told not to.
    """
    height, width, _ = png_shape(data, name)
    if (height, width) != shape[:2]:
        raise DataError(
            f"{name} is {width} x {height} pixels, the first image {shape[1]} x {shape[0]}."
        )
    try:
        check_chunks(data)
        with Image.open(io.BytesIO(data), formats=["PNG"]) as image:
            mode, pixels = image.mode, np.asarray(image)
    except (OSError, SyntaxError, ValueError, EOFError, MemoryError) as error:
        reason = str(error) if "BytesIO" not in str(error) else "no readable PNG"
        raise DataError(f"{name} is damaged ({reason}); unpack or download it again.") from None
    if mode not in ("RGB", "RGBA") or data[24] != 8:
        mode = f"{mode} of {data[24]} bits"  # Pillow halves 16 bits in silence
        raise DataError(f"{name} must be an RGB image, got mode {mode}.")
    if pixels.shape[2] == 4 and (pixels[..., 3] != 255).any():
        raise DataError(f"{name} is partly transparent; published images are opaque.")
    return np.ascontiguousarray(pixels[..., :3])
