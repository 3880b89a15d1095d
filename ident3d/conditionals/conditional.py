"""What every conditional p(z+ | z) offers, and the checks that they share."""

import numpy as np

from ..spaces import UNIT_BOX, Space, as_pairs, as_points

SHARPEST = 1e10  # of concentrations: rejection hardly ends beyond, and float32 latents see no width


class Conditional:
    """A law of positives given their anchors.

    A subclass provides `_sample` and, where it has a density, `_log_density`; both get points that
    were checked, float64 (n, d). It may say where it does not exist (`why_not`) and how many
    dimensions it fits (`check`).
    """

    def sample(
        self, anchors: np.ndarray, rng: np.random.Generator, space: Space = UNIT_BOX
    ) -> np.ndarray:
        """Draw one positive for each anchor, shape (n, d), float64."""
        if reason := self.why_not(space, density=False):
            raise ValueError(reason)
        anchors = as_points(anchors, space, "anchors")
        self.check(anchors.shape[1])
        return self._sample(anchors, rng, space)

    def log_density(
        self, positives: np.ndarray, anchors: np.ndarray, space: Space = UNIT_BOX
    ) -> np.ndarray:
        """Log-density of each positive given its anchor, shape (n,), up to a term in the anchor."""
        if reason := self.why_not(space, density=True):
            raise ValueError(reason)
        positives, anchors = as_pairs(positives, anchors, space)
        self.check(anchors.shape[1])
        inside = space.contains(positives)
        return np.where(inside, self._log_density(positives, anchors, space), -np.inf)

    def check(self, dim: int) -> None:
        """Raise ValueError unless the conditional fits latents of `dim` dimensions."""

    def why_not(self, space: Space, density: bool) -> str | None:
        """Say why there is no such law on `space`, or no `density` of it; None where there is."""
        return None

    def _sample(self, anchors: np.ndarray, rng: np.random.Generator, space: Space) -> np.ndarray:
        raise NotImplementedError

    def _log_density(self, positives: np.ndarray, anchors: np.ndarray, space: Space) -> np.ndarray:
        raise NotImplementedError
