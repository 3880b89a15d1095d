"""How carefully an image is rendered: the named presets and their settings."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Quality:
    """Cycles settings that trade time for noise; none of them changes what is converged to."""

    samples: int  # per pixel
    light_tree: bool  # choose lights by what they may contribute, not evenly
    prefilter: str  # of the denoiser's albedo and normal: ACCURATE, FAST or NONE
    denoiser: str  # size of the denoiser's network: HIGH, BALANCED or FAST


PRESETS = {
    "published": Quality(512, light_tree=False, prefilter="ACCURATE", denoiser="HIGH"),
    "standard": Quality(16, light_tree=True, prefilter="NONE", denoiser="HIGH"),
    "draft": Quality(4, light_tree=True, prefilter="NONE", denoiser="HIGH"),
}
