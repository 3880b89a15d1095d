"""Exact draws on the unit sphere: von Mises-Fisher, and the anisotropic Fisher-Bingham.

Anchors are unit vectors, shape (n, d), d at least 2.
"""

import numpy as np
from scipy.special import expit

from .rejection import first_accepted
from .spaces import project


def von_mises_fisher(
    anchors: np.ndarray, concentration: float, rng: np.random.Generator
) -> np.ndarray:
    """Draw from the density proportional to exp(concentration z'x) (Ulrich 1984, Wood 1994).

    The height w = z'x is drawn by rejection from a transformed Beta. It is kept as 1 - w and
    1 + w, so that large concentrations, with w near 1, lose no digits.
    """
    n, dim = anchors.shape
    free = dim - 1
    b = free / (2 * concentration + np.hypot(2 * concentration, free))
    x0 = (1 - b) / (1 + b)
    bound = free * np.log1p(-(x0**2))

    def heights(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        beta = rng.beta(free / 2, free / 2, rows.shape)
        scale = 2 / (1 - (1 - b) * beta)
        below = scale * b * beta  # 1 - w
        exponent = concentration * (1 - x0 - below) + free * np.log1p(-x0 * (1 - below)) - bound
        return np.stack([below, scale * (1 - beta)], 1), _accept(exponent, rng)

    below, above = first_accepted(n, heights).T
    noise = rng.standard_normal((n, dim))
    tangent = project(noise - np.einsum("ij,ij->i", noise, anchors)[:, None] * anchors)
    return project((1 - below)[:, None] * anchors + np.sqrt(below * above)[:, None] * tangent)


def fisher_bingham(
    anchors: np.ndarray, concentrations: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Draw from the density proportional to exp(-(x - z)' L (x - z)), L = diag(concentrations).

    With g = Lz and s = z'Lz, 2g'x <= (g'x)^2/s + s, so the density lies below the Bingham
    exp(-x'Ax), A = L - gg'/s, with gap exp(-(g'x - s)^2/s). The Bingham lies below an angular
    central Gaussian, x'(I + 2A/b)x to the power -d/2 (Kent, Ganeiber, Mardia 2013). Bingham and
    Gaussian cannot tell x from -x: an axis is drawn, accepted for both of its ends together, and
    one end is chosen in proportion.
    """
    dim = anchors.shape[1]
    pull = anchors * concentrations  # g
    stiffness = np.einsum("ij,ij->i", anchors, pull)  # s
    b = _tuning(anchors, pull, stiffness, concentrations)
    spread = 1 / (b[:, None] + 2 * concentrations)
    # I + 2A/b is diagonal minus rank one: so a Gaussian draw costs O(d).
    shrink = np.sqrt(spread)
    lean = pull * spread
    lean *= np.sqrt(2 / (b * np.einsum("ij,ij,ij->i", anchors, pull, spread)))[:, None]
    peak = (dim - b) / 2 - dim / 2 * np.log(dim / b)

    def axes(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        draws = rng.standard_normal((len(rows), dim)) * shrink[rows]
        draws += rng.standard_normal(len(rows))[:, None] * lean[rows]
        draws = project(draws)
        s, t = stiffness[rows], np.einsum("ij,ij->i", draws, pull[rows])
        toward = rng.random(len(rows)) < expit(4 * np.abs(t))
        draws[toward == (t < 0)] *= -1
        bingham = np.square(draws) @ concentrations - t**2 / s  # x'Ax
        exponent = dim / 2 * np.log1p(2 * bingham / b[rows]) - bingham + peak[rows]
        t = np.abs(t)
        exponent += np.log1p(np.exp(-4 * t)) - np.square(t - s) / s - np.log1p(np.exp(-s))
        return draws, _accept(exponent, rng)

    return first_accepted(len(anchors), axes)


def _tuning(
    anchors: np.ndarray, pull: np.ndarray, stiffness: np.ndarray, concentrations: np.ndarray
) -> np.ndarray:
    """The b of the tightest envelope, tr (bI + 2A)^-1 = 1, by Newton steps from b = 1."""
    b = np.full(len(anchors), 1.0)
    for _ in range(3):
        spread = 1 / (b[:, None] + 2 * concentrations)
        weighted = pull * spread
        rank_one = np.einsum("ij,ij->i", weighted, weighted) / np.einsum(
            "ij,ij->i", weighted, anchors
        )
        b = b * spread.sum(axis=1) + 2 * rank_one
    return b


def _accept(exponent: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.standard_exponential(exponent.shape) >= -exponent


def shell(anchors: np.ndarray, concentrations: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The released approximation: N(z, 1 / L), kept if its norm is within 0.1 of 1, projected."""
    scale = 1 / np.sqrt(concentrations)

    def normals(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        draws = anchors[rows] + scale * rng.standard_normal((len(rows), len(scale)))
        norms = np.linalg.norm(draws, axis=1)
        return draws / norms[:, None], np.abs(norms - 1) <= 0.1

    return first_accepted(len(anchors), normals)
