"""Noise that is independent on every coordinate: normal, Laplace, generalised normal."""

from dataclasses import dataclass

import numpy as np

from ..spaces import UNIT_BOX, Box, Space, Sphere, as_pairs, as_points, log_inside, number, project
from ._truncated import gennorm, truncated_gennorm, truncated_laplace, truncated_normal


class Coordinatewise:
    """Independent noise of one scale on every coordinate, density exp(-|x / width|^power).

    On a box the noise is truncated exactly. On the sphere it is drawn in R^d and projected, as in
    the released code; that distribution has no density in closed form.
    """

    def sample(
        self, anchors: np.ndarray, rng: np.random.Generator, space: Space = UNIT_BOX
    ) -> np.ndarray:
        """Draw one positive for each anchor."""
        anchors = as_points(anchors, space, "anchors")
        if isinstance(space, Box):
            low, high = (space.low - anchors) / self.scale, (space.high - anchors) / self.scale
            # Rounding may leave the box by one digit.
            return (anchors + self.scale * self._truncated(low, high, rng)).clip(
                space.low, space.high
            )
        drawn = anchors + self.scale * self._plain(anchors.shape, rng)
        return project(drawn) if isinstance(space, Sphere) else drawn

    def log_density(
        self, positives: np.ndarray, anchors: np.ndarray, space: Space = UNIT_BOX
    ) -> np.ndarray:
        """Log-density up to a term in the anchor; none exists on the sphere."""
        if isinstance(space, Sphere):
            raise ValueError(
                f"{self} on the sphere is drawn in R^d and projected, so it has no closed density; "
                "use vmf or anisotropic."
            )
        power, width = self._shape
        positives, anchors = as_pairs(positives, anchors, space)
        return log_inside(
            -(np.abs((positives - anchors) / width) ** power).sum(1), positives, space
        )

    def check(self, dim: int) -> None:
        """Fits any number of dimensions."""


@dataclass(frozen=True)
class Normal(Coordinatewise):
    """Normal noise of standard deviation `scale`."""

    scale: float

    def __post_init__(self) -> None:
        check_positive(self.scale, "scale")

    def __str__(self) -> str:
        return f"normal:{number(self.scale)}"

    @property
    def _shape(self) -> tuple[float, float]:
        return 2, self.scale * np.sqrt(2)

    def _plain(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        return rng.standard_normal(shape)

    def _truncated(self, low: np.ndarray, high: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return truncated_normal(low, high, rng)


@dataclass(frozen=True)
class Laplace(Coordinatewise):
    """Laplace noise, density proportional to exp(-|x / scale|)."""

    scale: float

    def __post_init__(self) -> None:
        check_positive(self.scale, "scale")

    def __str__(self) -> str:
        return f"laplace:{number(self.scale)}"

    @property
    def _shape(self) -> tuple[float, float]:
        return 1, self.scale

    def _plain(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        return rng.laplace(size=shape)

    def _truncated(self, low: np.ndarray, high: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return truncated_laplace(low, high, rng)


@dataclass(frozen=True)
class GenNorm(Coordinatewise):
    """Generalised normal noise, density proportional to exp(-|x / scale|^exponent)."""

    exponent: float
    scale: float

    def __post_init__(self) -> None:
        check_positive(self.exponent, "exponent")
        check_positive(self.scale, "scale")

    def __str__(self) -> str:
        return f"gennorm:{number(self.exponent)}:{number(self.scale)}"

    @property
    def _shape(self) -> tuple[float, float]:
        return self.exponent, self.scale

    def _plain(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        return gennorm(self.exponent, shape, rng)

    def _truncated(self, low: np.ndarray, high: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return truncated_gennorm(self.exponent, low, high, rng)


def check_positive(value: float, name: str) -> None:
    """Raise ValueError unless `value` is a finite number above 0."""
    if not (np.isfinite(value) and value > 0):
        raise ValueError(f"`{name}` must be finite and above 0, got {value}.")
