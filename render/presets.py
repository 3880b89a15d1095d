"""How carefully an image is rendered: the named presets, what they promise, and their settings.

A preset promises a PSNR to the converged image, at every size from 32 to 512 pixels; what it takes
differs with the size. Settings were found by trying: docs/render.md has what was tried, and
`python -m tests.speed.render` measures them.
"""

from dataclasses import dataclass

from ident3d.errors import choose

SHARED = "SHARED"  # a denoiser of ours, kept for all images: see denoiser.py
# The same, and the pass over the teapot, with noise of its own, is averaged with what the first
# pass saw there instead of replacing it.
MERGED = "MERGED"
TEAPOT = "teapot"


@dataclass(frozen=True)
class Quality:
    """Cycles settings that trade time for noise; none of them changes what is converged to."""

    samples: int  # per pixel
    teapot_samples: int  # per pixel of the teapot's bounding box; no more than `samples`: as there
    light_tree: bool | str  # choose lights by what they may contribute; TEAPOT: only in that box
    # Of the denoiser's albedo and normal: ACCURATE; NONE takes them as clean, which needs a larger
    # network of ours; FAST denoises them together with the colour.
    prefilter: str
    denoiser: str  # SHARED, MERGED, or how large a network Blender uses: HIGH, BALANCED or FAST

    @property
    def ours(self) -> bool:
        """Whether Blender leaves denoising to us."""
        return self.denoiser in (SHARED, MERGED)


@dataclass(frozen=True)
class Preset:
    """What a name stands for.

    Args:
        promise: PSNR in dB to the converged image, mean over rows, from 32 to 512 pixels; None: it
            is what was released, however good that is.
        sizes: Pixels along a side up to which a quality is used, smallest first.
    """

    promise: float | None
    sizes: tuple[tuple[float, Quality], ...]


ANY = float("inf")
PRESETS = {
    "published": Preset(None, ((ANY, Quality(512, 0, False, "ACCURATE", "HIGH")),)),
    "standard": Preset(
        40,
        (
            (63, Quality(16, 64, True, "FAST", SHARED)),
            (96, Quality(4, 20, True, "NONE", MERGED)),
            (ANY, Quality(4, 24, True, "NONE", MERGED)),
        ),
    ),
    "draft": Preset(
        37,
        (
            (63, Quality(8, 32, TEAPOT, "FAST", SHARED)),
            (96, Quality(2, 12, True, "FAST", SHARED)),
            (ANY, Quality(2, 8, True, "NONE", SHARED)),
        ),
    ),
}


def quality(preset: str, resolution: int) -> Quality:
    """Return the settings with which a preset keeps its promise at a size."""
    sizes = choose(PRESETS, preset, "preset").sizes
    return next(settings for limit, settings in sizes if resolution <= limit)
