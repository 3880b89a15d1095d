"""Noise that is independent on every coordinate: normal, Laplace, generalised normal."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np

from ..errors import above_zero
from ..spaces import Box, Space, Sphere, number, project
from . import _truncated as draws
from .conditional import Conditional


class Law(NamedTuple):
    """A law on the line with mode 0 and scale 1."""

    plain: Callable[[tuple[int, ...], np.random.Generator], np.ndarray]  # shape -> draws
    truncated: draws.Truncated  # ends of intervals that hold 0 -> draws inside
    energy: Callable[[np.ndarray], np.ndarray]  # minus the log-density, up to a constant


class Coordinatewise(Conditional):
    """Independent noise of one scale on every coordinate.

    On a box the noise is truncated exactly. On the sphere it is drawn in R^d and projected, as in
    the released code; that distribution has no density in closed form.
    """

    name: ClassVar[str]  # in its text form
    scale: float

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            above_zero(value, name)

    def __str__(self) -> str:
        return ":".join([self.name, *map(number, vars(self).values())])

    def why_not(self, space: Space, density: bool) -> str | None:
        """Say that there is no density on the sphere."""
        if not density or not isinstance(space, Sphere):
            return None
        return (
            f"{self} on the sphere is drawn in R^d and projected, so it has no closed density; "
            "use vmf or anisotropic."
        )

    def _sample(self, anchors: np.ndarray, rng: np.random.Generator, space: Space) -> np.ndarray:
        if isinstance(space, Box):
            return draws.in_box(self._law().truncated, anchors, self.scale, space, rng)
        drawn = anchors + self.scale * self._law().plain(anchors.shape, rng)
        return project(drawn) if isinstance(space, Sphere) else drawn

    def _log_density(self, positives: np.ndarray, anchors: np.ndarray, space: Space) -> np.ndarray:
        return -self._law().energy((positives - anchors) / self.scale).sum(1)

    def _law(self) -> Law:
        raise NotImplementedError


@dataclass(frozen=True)
class Normal(Coordinatewise):
    """Normal noise of standard deviation `scale`."""

    scale: float
    name = "normal"

    def _law(self) -> Law:
        return Law(
            lambda n, rng: rng.standard_normal(n), draws.truncated_normal, lambda x: x * x / 2
        )


@dataclass(frozen=True)
class Laplace(Coordinatewise):
    """Laplace noise, density proportional to exp(-|x / scale|)."""

    scale: float
    name = "laplace"

    def _law(self) -> Law:
        return Law(lambda n, rng: rng.laplace(size=n), draws.truncated_laplace, np.abs)


@dataclass(frozen=True)
class GenNorm(Coordinatewise):
    """Generalised normal noise, density proportional to exp(-|x / scale|^exponent)."""

    exponent: float
    scale: float
    name = "gennorm"

    def _law(self) -> Law:
        power = self.exponent
        plain, truncated = partial(draws.gennorm, power), partial(draws.truncated_gennorm, power)
        return Law(plain, truncated, lambda x: np.abs(x) ** power)
