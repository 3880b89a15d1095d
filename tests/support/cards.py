"""A stand-in for a graphics card: one image at a time is sampled, preparation goes on beside it."""

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from ident3d.render.presets import Quality

from ident3d.files import Lock


@dataclass(frozen=True)
class CardSettings:
    """Takes the place of `RenderSettings` in a real worker process."""

    card: Path  # locked while it samples
    preparation: float  # seconds of an image
    sample: float  # seconds of one sample
    quality: Quality

    def renderer(self, threads, gpu):
        return self

    def state(self, latents):
        return latents

    def render(self, state):
        time.sleep(self.preparation)
        with Lock(self.card, wait=True):
            time.sleep(self.sample * self.quality.samples)
        return np.zeros((8, 8, 3), np.uint8)
