"""The spaces latents live in, and the marginals they are drawn from."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from .errors import choose

# float32 unit vectors have norms within about 1e-7 of 1; anything past this is not a unit vector.
_NORM_TOLERANCE = 1e-5


@dataclass(frozen=True)
class Box:
    """The box [low, high]^d."""

    low: float = -1.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if not (np.isfinite([self.low, self.high]).all() and self.low < self.high):
            raise ValueError(
                f"`low` must be finite and below `high`, got {self.low} and {self.high}."
            )

    def __str__(self) -> str:
        return "box" if self == Box() else f"box:{number(self.low)}:{number(self.high)}"

    def centre(self, dim: int) -> np.ndarray:
        """Return the middle of the box, shape (dim,)."""
        return np.full(dim, (self.low + self.high) / 2)

    def contains(self, points: np.ndarray) -> np.ndarray:
        """Tell which rows of `points` lie in the box, shape (n,)."""
        points = np.asarray(points)
        return ((points >= self.low) & (points <= self.high)).all(axis=-1)

    def uniform(self, n: int, dim: int, rng: np.random.Generator) -> np.ndarray:
        """Draw uniformly from the box, shape (n, dim)."""
        return rng.uniform(self.low, self.high, (n, dim))


@dataclass(frozen=True)
class Sphere:
    """The unit sphere in R^d, d at least 2."""

    def __str__(self) -> str:
        return "sphere"

    def centre(self, dim: int) -> np.ndarray:
        """Return the pole e1 (the released code's choice), shape (dim,)."""
        return np.eye(1, dim)[0]

    def contains(self, points: np.ndarray) -> np.ndarray:
        """Tell which rows of `points` have norm 1, up to float32's rounding, shape (n,)."""
        norms = np.linalg.norm(np.asarray(points, dtype=np.float64), axis=-1)
        return np.abs(norms - 1) <= _NORM_TOLERANCE

    def uniform(self, n: int, dim: int, rng: np.random.Generator) -> np.ndarray:
        """Draw uniformly from the sphere, shape (n, dim)."""
        return project(rng.standard_normal((n, dim)))


@dataclass(frozen=True)
class Unbounded:
    """All of R^d."""

    def __str__(self) -> str:
        return "unbounded"

    def centre(self, dim: int) -> np.ndarray:
        """Return the origin, shape (dim,)."""
        return np.zeros(dim)

    def contains(self, points: np.ndarray) -> np.ndarray:
        """Tell which rows of `points` are finite, shape (n,)."""
        return np.isfinite(points).all(axis=-1)

    def uniform(self, n: int, dim: int, rng: np.random.Generator) -> np.ndarray:
        """Refuse: R^d has no uniform distribution."""
        raise ValueError("An unbounded space has no uniform marginal; use normal or laplace.")


Space = Box | Sphere | Unbounded
UNIT_BOX = Box()
SPACES: dict[str, type[Space]] = {"box": Box, "sphere": Sphere, "unbounded": Unbounded}


def parse_space(text: str) -> Space:
    """Read `box`, `box:0:1`, `sphere` or `unbounded`; `str(space)` writes it back."""
    name, *bounds = text.strip().split(":")
    space = choose(SPACES, name, "space")
    if not bounds:
        return space()
    wrong = ValueError(f"`space` is written box, box:LOW:HIGH, sphere or unbounded; got {text!r}.")
    if space is not Box:
        raise wrong
    try:
        low, high = map(float, bounds)
    except ValueError:
        raise wrong from None
    return Box(low, high)


@dataclass(frozen=True)
class Uniform:
    """The uniform marginal of a box or a sphere."""

    def __str__(self) -> str:
        return "uniform"


class Noise(Protocol):
    """What a marginal other than `Uniform` must offer: every conditional does."""

    def sample(self, anchors: np.ndarray, rng: np.random.Generator, space: Space) -> np.ndarray:
        """Draw one point around each anchor."""


def sample_marginal(
    marginal: Uniform | Noise, space: Space, n: int, dim: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw `n` latents, shape (n, dim), float64.

    A marginal other than `Uniform` is a conditional taken around `space.centre(dim)`.
    """
    if isinstance(marginal, Uniform):
        return space.uniform(n, dim, rng)
    return marginal.sample(np.tile(space.centre(dim), (n, 1)), rng, space)


def as_points(values: np.ndarray, space: Space, name: str) -> np.ndarray:
    """Check points of `space`, shape (n, d), where they enter; float64, and exact unit vectors."""
    points = np.asarray(values, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] < (2 if isinstance(space, Sphere) else 1):
        raise ValueError(f"`{name}` must have shape (n, d) on {space}, got {points.shape}.")
    inside = space.contains(points)
    if not inside.all():
        row = int(np.flatnonzero(~inside)[0])
        raise ValueError(f"`{name}` must lie in the space {space}; row {row} is {points[row]}.")
    return project(points) if isinstance(space, Sphere) else points


def as_pairs(
    positives: np.ndarray, anchors: np.ndarray, space: Space
) -> tuple[np.ndarray, np.ndarray]:
    """Check positives, which may lie outside `space`, against anchors, which may not."""
    anchors = as_points(anchors, space, "anchors")
    positives = as_points(positives, Unbounded(), "positives")
    if positives.shape != anchors.shape:
        raise ValueError(
            f"`positives` must have the shape of `anchors`, {anchors.shape}, got {positives.shape}."
        )
    return positives, anchors


def project(points: np.ndarray) -> np.ndarray:
    """Scale every row to norm 1."""
    return points / np.sqrt(np.einsum("ij,ij->i", points, points))[:, None]


def number(value: float) -> str:
    """Write a number so that reading it back gives the same one: 5, 0.1, 1e-05."""
    return repr(float(value)).removesuffix(".0")
