"""Exact draws from distributions on the line, cut to an interval that holds their mode.

Each sampler has mode 0 and scale 1 and takes the interval's ends `low` <= 0 <= `high` as arrays.
"""

from collections.abc import Callable

import numpy as np
from scipy.special import erf, erfinv, gamma

from ..spaces import Box
from ._rejection import accept, first_accepted

Truncated = Callable[[np.ndarray, np.ndarray, np.random.Generator], np.ndarray]

_BELOW_ONE = np.nextafter(1.0, 0.0)
_ROOT_TWO = np.sqrt(2.0)


def in_box(
    draw: Truncated,
    anchors: np.ndarray,
    scale: float | np.ndarray,
    box: Box,
    rng: np.random.Generator,
) -> np.ndarray:
    """Draw around anchors (n, d), cut to the box; `scale` is one number or (d,)."""
    low, high = (box.low - anchors) / scale, (box.high - anchors) / scale
    drawn = anchors + scale * draw(low, high, rng)
    return drawn.clip(box.low, box.high)  # rounding may leave the box by one digit


def truncated_normal(low: np.ndarray, high: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw a standard normal on [low, high], by inverting its CDF.

    The CDF is measured from the mode outwards (erf is odd), so neither tail loses digits.
    """
    mass = _between(erf(low / _ROOT_TWO), erf(high / _ROOT_TWO), rng)
    return np.clip(_ROOT_TWO * erfinv(mass), low, high)  # guards the last digit only


def truncated_laplace(low: np.ndarray, high: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw a standard Laplace, density exp(-|x|)/2, on [low, high], by inverting its CDF."""
    mass = _between(np.expm1(low), -np.expm1(-high), rng)
    return np.clip(np.copysign(np.log1p(-np.abs(mass)), mass), low, high)


def truncated_gennorm(
    exponent: float, low: np.ndarray, high: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Draw from the density proportional to exp(-|x|^exponent) on [low, high].

    Either the untruncated draw is kept when it falls inside, or a uniform draw from the interval
    is kept with probability exp(-|x|^exponent): whichever accepts more with the mode at one end.
    """
    shape = np.broadcast_shapes(low.shape, high.shape)
    low, high = np.broadcast_to(low, shape).ravel(), np.broadcast_to(high, shape).ravel()

    def inside(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        draws = gennorm(exponent, rows.shape, rng)
        return draws, (draws >= low[rows]) & (draws <= high[rows])

    def uniform(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        draws = rng.uniform(low[rows], high[rows])
        return draws, accept(-(np.abs(draws) ** exponent), rng)

    half_mass = gamma(1 + 1 / exponent)  # of exp(-x^exponent) on the half line
    wide = half_mass > np.max(high - low, initial=0) / 2
    return first_accepted(low.size, uniform if wide else inside).reshape(shape)


def gennorm(exponent: float, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Draw from the density proportional to exp(-|x|^exponent), as a mixture of uniforms.

    |x|^p ~ Gamma(1/p) is the law of U^p Gamma(1 + 1/p), which stays away from underflow.
    """
    reach = rng.standard_gamma(1 + 1 / exponent, shape) ** (1 / exponent)
    return reach * rng.uniform(-1, 1, shape)


def _between(low: np.ndarray, high: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    mass = low + (high - low) * rng.random(np.broadcast_shapes(low.shape, high.shape))
    return np.clip(mass, -_BELOW_ONE, _BELOW_ONE)
