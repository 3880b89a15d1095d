"""A Gaussian of its own width on every coordinate: on a box, unbounded, or on the sphere."""

from dataclasses import dataclass

import numpy as np

from ..errors import above_zero, choose
from ..spaces import Box, Space, Sphere, number
from ._directional import draw_fisher_bingham, draw_shell
from ._truncated import in_box, truncated_normal
from .conditional import SHARPEST, Conditional

_SPHERE = {"exact": draw_fisher_bingham, "shell": draw_shell}


@dataclass(frozen=True)
class Anisotropic(Conditional):
    """Density proportional to exp(-(z+ - z)' L (z+ - z)), L = diag(concentrations).

    On a box this is a truncated normal with standard deviations 1 / sqrt(2 L); on the sphere a
    Fisher-Bingham distribution, drawn exactly. `method="shell"` is the released approximation on
    the sphere: N(z, 1 / L), kept when its norm is within 0.1 of 1, then projected.
    """

    concentrations: tuple[float, ...]
    method: str = "exact"

    def __post_init__(self) -> None:
        object.__setattr__(self, "concentrations", tuple(map(float, self.concentrations)))
        if not self.concentrations:
            raise ValueError("`concentrations` must hold one number for each dimension, got none.")
        for value in self.concentrations:
            if above_zero(value, "concentrations") > SHARPEST:
                raise ValueError(f"`concentrations` must be at most {SHARPEST:g}, got {value}.")
        choose(_SPHERE, self.method, "method")

    def __str__(self) -> str:
        name = "anisotropic" if self.method == "exact" else "anisotropic-shell"
        return f"{name}:{','.join(map(number, self.concentrations))}"

    def check(self, dim: int) -> None:
        """Raise ValueError unless there is one concentration for each dimension."""
        if len(self.concentrations) != dim:
            raise ValueError(
                f"`concentrations` must hold one number for each of the {dim} dimensions, "
                f"got {len(self.concentrations)}."
            )

    def why_not(self, space: Space, density: bool) -> str | None:
        """Say where the shell method does not work."""
        if self.method == "shell" and not isinstance(space, Sphere):
            return f"{self} lives on the sphere, not on {space}; use anisotropic there."
        if self.method == "shell" and density:
            return f"{self} has no closed density; use anisotropic, which is exact."
        return None

    def _sample(self, anchors: np.ndarray, rng: np.random.Generator, space: Space) -> np.ndarray:
        precision = np.array(self.concentrations)
        if isinstance(space, Sphere):
            return _SPHERE[self.method](anchors, precision, rng)
        scale = np.sqrt(0.5 / precision)
        if isinstance(space, Box):
            return in_box(truncated_normal, anchors, scale, space, rng)
        return anchors + scale * rng.standard_normal(anchors.shape)

    def _log_density(self, positives: np.ndarray, anchors: np.ndarray, space: Space) -> np.ndarray:
        return -np.square(positives - anchors) @ np.array(self.concentrations)
