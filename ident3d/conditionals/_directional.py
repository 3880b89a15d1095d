"""Draws from the anisotropic law on the unit sphere: Fisher-Bingham, and its approximation.

Anchors are unit vectors, shape (n, d), d at least 2.
"""

import numpy as np
from scipy.special import erf, expit

from ..spaces import project
from ._rejection import accept, first_accepted

_SHELL = (0.9**2, 1.1**2)  # squared norms that the released sampler keeps
_NEWTON_STEPS = 4  # only the speed depends on it


def draw_fisher_bingham(
    anchors: np.ndarray, concentrations: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Draw from the density proportional to exp(-(x - z)' L (x - z)), L = diag(concentrations).

    On the sphere a term in |x|^2 is constant, so this is the law of y ~ N(m, (2P)^-1) given
    |y| = 1, with P = L + shift and m = P^-1 L z, for any shift. So draw y, keep its axis x, and
    accept in proportion to the density, given that axis, of its signed radius at 1 and at -1; then
    choose between the two ends in proportion. The shift puts |y| near 1, so most are accepted.
    """
    dim = anchors.shape[1]
    shift = _shift(anchors, concentrations)
    pull = anchors * concentrations
    centre, spread = _gaussian(pull, concentrations, shift)
    bound = log_radius_bound(concentrations.max() + shift, dim)

    def axes(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        draws = _normal(centre[rows], spread[rows], rng)
        squares = np.square(draws)
        radius = np.sqrt(squares.sum(axis=1))
        a = squares @ concentrations / radius**2 + shift[rows]  # x'Px
        t = np.einsum("ij,ij->i", draws, pull[rows]) / radius  # x'Lz
        accepted = accept(log_radius_density(a, np.abs(t), dim) - bound[rows], rng)
        # Only what is accepted needs its end and its length.
        t, radius = t[accepted], radius[accepted]
        ahead = rng.random(len(t)) < expit(4 * np.abs(t))
        draws[accepted] *= (np.where(ahead == (t > 0), 1.0, -1.0) / radius)[:, None]
        return draws, accepted

    return first_accepted(len(anchors), axes)


def draw_shell(
    anchors: np.ndarray, concentrations: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Draw as the released code does: N(z, 1 / L), kept if its norm is within 0.1 of 1, projected.

    The same law, drawn faster: a narrower Gaussian, N(z, 1 / L) times exp(-shift |y|^2), falls into
    the shell often, and is accepted with exp(shift (|y|^2 - 1.1^2)), which undoes the difference.
    """
    half = concentrations / 2
    shift = _shift(anchors, half)
    centre, spread = _gaussian(anchors * half, half, shift)

    def normals(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        draws = _normal(centre[rows], spread[rows], rng)
        squares = np.einsum("ij,ij->i", draws, draws)
        accepted = accept(shift[rows] * (squares - _SHELL[1]), rng)
        return draws, accepted & (squares >= _SHELL[0]) & (squares <= _SHELL[1])

    return project(first_accepted(len(anchors), normals))


def log_radius_density(a: np.ndarray, t: np.ndarray, dim: int) -> np.ndarray:
    """Return log(p(1) + p(-1)), the density p proportional to |r|^(dim - 1) exp(-a r^2 + 2 t r).

    `a` > 0 and `t` >= 0. The integral over r follows by parts, power by power, in terms that are
    all positive; powers of r / `mode` rather than of r keep them from overflowing.
    """
    power = dim - 1
    mode = (t + np.sqrt(t * t + 2 * a * power)) / (2 * a)
    step, back = t / (a * mode), 0.5 / (a * mode**2)
    # Relative to the integral of exp(-a r^2 + 2 t r). Odd steps below `power` integrate against
    # sinh(2 t r), even ones against cosh(2 t r).
    if power % 2:
        before = erf(t / np.sqrt(a))
        moment = step * before + np.exp(-t * t / a) / (np.sqrt(np.pi * a) * mode)
    else:
        before, moment = np.ones_like(a), step.copy()
    for k in range(1, power):
        before *= k * back
        before += step * moment
        before, moment = moment, before
    integral = np.log(moment) + power * np.log(mode) + 0.5 * np.log(np.pi / a)
    return np.log1p(np.exp(-4 * t)) - np.square(t - a) / a - integral


def log_radius_bound(a: np.ndarray, dim: int) -> np.ndarray:
    """Bound `log_radius_density` for every t and every smaller `a`, given a >= dim / 2.

    A density of this family is highest at 1 when 1 is its mean. There a normal with the mode's
    curvature is too low by a factor whose distance from 1 is at most 1.031 (dim - 1) / curvature^2
    (found numerically, dimensions 2 to 200; test_directional.py scans it).
    """
    curvature = 2 * a + dim - 1
    return 0.5 * np.log(curvature / (2 * np.pi)) - np.log1p(-1.05 * (dim - 1) / curvature**2)


def _gaussian(
    pull: np.ndarray, concentrations: np.ndarray, shift: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and deviations, (n, d), of the density exp(-y'Py + 2y'pull), P = L + shift."""
    precision = concentrations + shift[:, None]
    return pull / precision, np.sqrt(0.5 / precision)


def _shift(anchors: np.ndarray, concentrations: np.ndarray) -> np.ndarray:
    """Find the shift, (n,), with E|y|^2 of `_gaussian` near 1, by Newton's steps on 1 / E|y|^2."""
    least = anchors.shape[1] / 2 - concentrations.max()  # what `log_radius_bound` asks for
    shift = np.full(len(anchors), max(least, 0.0))
    # Equal concentrations share their terms: (n, distinct) instead of (n, d).
    values, where = np.unique(concentrations, return_inverse=True)
    members = np.eye(len(values))[where]
    pull, half = np.square(anchors * concentrations) @ members, members.sum(axis=0) / 2
    for _ in range(_NEWTON_STEPS):
        inverse = 1 / (values + shift[:, None])
        squares = pull * inverse
        size = np.einsum("ij,ij->i", squares + half, inverse)  # E|y|^2
        slope = np.einsum("ij,ij,ij->i", 2 * squares + half, inverse, inverse)
        shift += np.maximum(size - 1, 0) * size / slope
    return shift


def _normal(centre: np.ndarray, spread: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    draws = rng.standard_normal(centre.shape)
    draws *= spread  # in place: half of the time here goes into new arrays
    draws += centre
    return draws
