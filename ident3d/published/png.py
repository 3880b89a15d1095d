"""PNG images from outside: checksums checked, size known before a pixel is decoded."""

import io
import struct

import numpy as np
from PIL import Image

from ..errors import DataError

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_LARGEST = 4096  # pixels per side


def png_shape(data: bytes, name: str) -> tuple[int, int, int]:
    """Read height, width and channels off the header."""
    if data[:8] != _SIGNATURE or len(data) < 24:
        raise DataError(f"{name} is not a PNG image.")
    width, height = struct.unpack_from(">II", data, 16)
    if not (0 < width <= _LARGEST and 0 < height <= _LARGEST):
        raise DataError(f"{name} is {width} x {height} pixels; up to {_LARGEST} are read.")
    return height, width, 3


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
        with Image.open(io.BytesIO(data), formats=["PNG"]) as image:
            image.verify()  # every chunk's checksum, which decoding alone passes over
        with Image.open(io.BytesIO(data), formats=["PNG"]) as image:
            mode, pixels = image.mode, np.asarray(image)
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        reason = str(error) if "BytesIO" not in str(error) else "no readable PNG"
        raise DataError(f"{name} is damaged ({reason}); unpack or download it again.") from None
    if mode not in ("RGB", "RGBA"):
        raise DataError(f"{name} must be an RGB image, got mode {mode}.")
    if pixels.shape[2] == 4 and (pixels[..., 3] != 255).any():
        raise DataError(f"{name} is partly transparent; published images are opaque.")
    return np.ascontiguousarray(pixels[..., :3])
