"""One denoiser for all images of a process: Open Image Denoise, the network that Blender uses.

Blender sets its own up for every image, and for every pass over it: at 64 px that takes longer than
denoising. This one is set up once, and sees the pass over the whole image and the one over the
teapot put together.

What it needs, colour, albedo and normal as floats, Blender's Python gives no access to. They come
through a file: OpenEXR, all layers, uncompressed, of which this reads what Blender writes.
"""

import struct

import numpy as np

LAYERS = ("Combined.RGB", "Denoising Albedo.RGB", "Denoising Normal.XYZ")
_HEADER = 8  # bytes of an OpenEXR file: magic number and version
_CHANNEL = 16  # bytes that follow a channel's name
_LINE = 8  # bytes before each line's pixels: its number and its size

# Positions of sRGB's curve; between two of them it is straight to a hundredth of a level.
_STEPS = 1 << 14
_LINEAR = np.linspace(0, 1, _STEPS + 1)
_CURVE = np.where(_LINEAR <= 0.0031308, 12.92 * _LINEAR, 1.055 * _LINEAR ** (1 / 2.4) - 0.055)
_LEVELS = np.rint(255 * _CURVE).astype(np.uint8)


class Denoiser:
    """Denoises images of one size.

    Args:
        resolution: Pixels along each side.
        clean: Take albedo and normal for free of noise: a larger network, sharper edges.
        threads: CPU threads; 0 takes all there are.
    """

    def __init__(self, resolution: int, clean: bool, threads: int = 0) -> None:
        import pyoidn

        self._device = pyoidn.Device()
        self._device.set_int("numThreads", threads)
        self._device.set_bool("setAffinity", False)  # or every worker would sit on the same core
        self._device.commit()
        shape = (resolution, resolution, 3)
        self._images = {
            name: np.zeros(shape, np.float32) for name in ("color", "albedo", "normal", "output")
        }
        self._filter = pyoidn.Filter(self._device, "RT")
        for name, image in self._images.items():
            self._filter.set_image(name, image, pyoidn.OIDN_FORMAT_FLOAT3)
        self._filter.set_bool("hdr", True)
        self._filter.set_bool("cleanAux", clean)
        self._filter.set_int("quality", pyoidn.OIDN_QUALITY_HIGH)
        self._filter.commit()
        self._check()

    def __call__(self, passes: np.ndarray) -> np.ndarray:
        """Denoise colour, albedo and normal, float32 (H, W, 9), to linear colour (H, W, 3)."""
        for number, name in enumerate(("color", "albedo", "normal")):
            self._images[name][:] = passes[..., 3 * number : 3 * number + 3]
        self._filter.execute()
        self._check()
        return self._images["output"]

    def _check(self) -> None:
        error = self._device.get_error()
        if error is not None:
            raise RuntimeError(f"The denoiser failed: {error}")


def to_display(linear: np.ndarray) -> np.ndarray:
    """Turn linear colour into sRGB, uint8, as Blender's view transform Standard does."""
    return _LEVELS[np.rint(linear.clip(0, 1) * _STEPS).astype(np.intp)]


def read_passes(file: bytes) -> np.ndarray:
    """Read the layers of a file that Blender saved, float32 (H, W, 9): colour, albedo, normal."""
    names, width, height, start = _header(file)
    stride = _LINE + 4 * width * len(names)
    start += 8 * height  # a table of where lines begin, which is one after the other
    lines = np.frombuffer(file, np.uint8, height * stride, start).reshape(height, stride)
    values = np.ascontiguousarray(lines[:, _LINE:]).view("<f4").reshape(height, -1, width)
    wanted = [
        names.index(f"{layer}.{letter}")
        for layer, letters in (text.split(".") for text in LAYERS)
        for letter in letters
    ]
    return np.ascontiguousarray(values[:, wanted].transpose(0, 2, 1))


def _header(file: bytes) -> tuple[list[str], int, int, int]:
    """Return the channels' names without their view layer, the size, and where the header ends."""
    names: list[str] = []
    width = height = 0
    at = _HEADER
    while file[at]:
        name, at = _text(file, at)
        _, at = _text(file, at)  # its type
        (size,) = struct.unpack_from("<i", file, at)
        at += 4
        if name == "channels":
            channel = at
            while file[channel]:
                text, channel = _text(file, channel)
                names.append(text.partition(".")[2])
                channel += _CHANNEL
        elif name == "dataWindow":
            left, top, right, bottom = struct.unpack_from("<4i", file, at)
            width, height = right - left + 1, bottom - top + 1
        at += size
    return names, width, height, at + 1


def _text(file: bytes, at: int) -> tuple[str, int]:
    end = file.index(0, at)
    return file[at:end].decode(), end + 1
