"""The von Mises-Fisher conditional on the sphere."""

from dataclasses import dataclass

import numpy as np

from ..spaces import Space, Sphere, number, project
from ._rejection import accept, first_accepted
from .conditional import SHARPEST, Conditional


@dataclass(frozen=True)
class VMF(Conditional):
    """Von Mises-Fisher on the sphere, density proportional to exp(concentration z'z+)."""

    concentration: float

    def __post_init__(self) -> None:
        if not 0 <= self.concentration <= SHARPEST:
            raise ValueError(
                f"`concentration` must be between 0 and {SHARPEST:g}, got {self.concentration}."
            )

    def __str__(self) -> str:
        return f"vmf:{number(self.concentration)}"

    def check(self, dim: int) -> None:
        """Raise ValueError unless there are two dimensions or more, as a sphere needs."""
        if dim < 2:
            raise ValueError(
                f"{self} lives on a sphere, so it needs 2 dimensions or more, not {dim}."
            )

    def why_not(self, space: Space, density: bool) -> str | None:
        """Say that there is none but on the sphere."""
        if isinstance(space, Sphere):
            return None
        return f"{self} lives on the sphere, not on {space}; use normal there."

    def _sample(self, anchors: np.ndarray, rng: np.random.Generator, space: Space) -> np.ndarray:
        """Draw the height w = z'z+ by rejection from a transformed Beta (Ulrich 1984, Wood 1994).

        It is kept as 1 - w and 1 + w, so that large concentrations, with w near 1, lose no digits.
        The direction across the anchor is uniform.
        """
        n, dim = anchors.shape
        free = dim - 1
        b = free / (2 * self.concentration + np.hypot(2 * self.concentration, free))
        x0 = (1 - b) / (1 + b)  # the height that is always accepted
        bound = free * np.log1p(-(x0**2))

        def heights(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            beta = rng.beta(free / 2, free / 2, rows.shape)
            scale = 2 / (1 - (1 - b) * beta)
            below, above = scale * b * beta, scale * (1 - beta)  # 1 - w, 1 + w
            exponent = self.concentration * (1 - x0 - below)
            exponent += free * np.log1p(-x0 * (1 - below)) - bound
            return np.stack([below, above], 1), accept(exponent, rng)

        below, above = first_accepted(n, heights).T
        noise = rng.standard_normal((n, dim))
        tangent = project(noise - np.einsum("ij,ij->i", noise, anchors)[:, None] * anchors)
        # The tangent's length is sqrt(1 - w^2) = sqrt((1 - w)(1 + w)).
        return project((1 - below)[:, None] * anchors + np.sqrt(below * above)[:, None] * tangent)

    def _log_density(self, positives: np.ndarray, anchors: np.ndarray, space: Space) -> np.ndarray:
        return self.concentration * np.einsum("ij,ij->i", positives, anchors)
