"""The conditional that changes nothing."""

from dataclasses import dataclass

import numpy as np

from ..spaces import Space
from .conditional import Conditional


@dataclass(frozen=True)
class Fixed(Conditional):
    """The positive equals the anchor."""

    def __str__(self) -> str:
        return "fixed"

    def why_not(self, space: Space, density: bool) -> str | None:
        """Say that a point mass has no density."""
        if density:
            return "fixed puts all its mass on the anchor, so it has no density."
        return None

    def _sample(self, anchors: np.ndarray, rng: np.random.Generator, space: Space) -> np.ndarray:
        return anchors.copy()
