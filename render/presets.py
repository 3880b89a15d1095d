"""How carefully an image is rendered: the named presets and their settings."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Quality:
    """Cycles settings that trade time for noise; none of them changes what is converged to."""

    samples: int  # per pixel
    teapot_samples: int  # per pixel of the teapot's bounding box; no more than `samples`: as there
    light_tree: bool  # choose lights by what they may contribute, not evenly
    prefilter: str  # of the denoiser's albedo and normal: ACCURATE, FAST or NONE
    denoiser: str  # size of the denoiser's network: HIGH, BALANCED or FAST


PRESETS = {
    "published": Quality(512, 0, light_tree=False, prefilter="ACCURATE", denoiser="HIGH"),
    "standard": Quality(4, 24, light_tree=True, prefilter="NONE", denoiser="HIGH"),
    "draft": Quality(2, 8, light_tree=True, prefilter="NONE", denoiser="HIGH"),
}
