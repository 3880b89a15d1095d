"""Samplers on the sphere, each against exact one-dimensional laws of its density."""

import numpy as np
import pytest
from scipy.integrate import cumulative_simpson
from scipy.special import ive, xlogy
from scipy.stats import ks_2samp, kstest

from ident3d.conditionals import VMF, Anisotropic
from ident3d.conditionals._directional import log_radius_bound, log_radius_density
from ident3d.spaces import Sphere

DRAWS = 100_000
SPHERE = Sphere()


def unit(*values):
    return np.array(values) / np.linalg.norm(values)


def draw(conditional, anchor, n=DRAWS, seed=0):
    rng = np.random.default_rng(seed)
    drawn = conditional.sample(np.tile(anchor, (n, 1)), rng, SPHERE)
    assert SPHERE.contains(drawn).all()
    return drawn


def assert_law(samples, log_density, low, high, points=40_001):
    """Kolmogorov-Smirnov of samples against an unnormalised log-density on [low, high]."""
    grid = np.linspace(low, high, points)
    with np.errstate(divide="ignore"):
        logs = log_density(grid)
    cdf = cumulative_simpson(np.exp(logs - logs.max()), x=grid, initial=0)
    assert kstest(samples, lambda x: np.interp(x, grid, cdf / cdf[-1])).pvalue > 1e-3


def assert_mean_zero(samples):
    """A z-test; the standard error is the samples' own."""
    error = samples.std(axis=0) / np.sqrt(len(samples))
    assert (np.abs(samples.mean(axis=0)) < 4.5 * error + 1e-12).all()


def log_shell_area(dim, kappa):
    """Log of the integral of exp(kappa z'x) over the sphere in R^dim, up to a constant."""
    if dim == 1:  # two points
        return np.logaddexp(kappa, -kappa)
    order = dim / 2 - 1
    kappa = np.maximum(kappa, 1e-9)
    return np.log(ive(order, kappa)) + kappa - order * np.log(kappa)


def mean_cosine(dim, kappa):
    if dim == 1:
        return np.tanh(kappa)
    kappa = np.maximum(kappa, 1e-9)
    return ive(dim / 2, kappa) / ive(dim / 2 - 1, kappa)


@pytest.mark.parametrize("dim", [2, 3, 10, 20])
@pytest.mark.parametrize("kappa", [0, 0.1, 1, 10, 400, 1e6])
def test_vmf(dim, kappa):
    anchor = unit(*np.arange(1.0, dim + 1))
    drawn = draw(VMF(kappa), anchor)
    angles = 2 * np.arcsin(np.linalg.norm(drawn - anchor, axis=1).clip(0, 2) / 2)
    reach = min(np.pi, 12 * np.sqrt(dim / max(kappa, 1)))
    assert_law(angles, lambda x: kappa * (np.cos(x) - 1) + xlogy(dim - 2, np.sin(x)), 0, reach)
    tangent = drawn - (drawn @ anchor)[:, None] * anchor  # uniform around the anchor
    assert_mean_zero(tangent)
    tangent /= np.linalg.norm(tangent, axis=1, keepdims=True)
    assert_mean_zero(tangent**2 - (1 - anchor**2) / (dim - 1))


# first block, second block: concentrations, sizes and the anchor's share in the first block
BLOCKS = [
    (5, 5, 25, 5, 0.5),
    (5, 5, 25, 5, 0.0),
    (5, 5, 25, 5, 1.0),
    (0.1, 5, 400, 5, 0.5),
    (0.1, 5, 400, 5, 0.99),
    (15, 10, 250, 10, 0.3),
    (0.1, 10, 0.2, 10, 0.5),
    (0.1, 1, 400, 19, 0.7),
    (400, 1, 0.1, 9, 0.1),
    (400, 10, 400, 10, 0.5),
    (1, 2, 3, 1, 0.5),
]


@pytest.mark.parametrize(("first", "m", "second", "k", "share"), BLOCKS)
def test_anisotropic_with_two_blocks(first, m, second, k, share):
    """Given the blocks' norms, cos f and sin f, each block is von Mises-Fisher: all is known."""
    anchor = np.zeros(m + k)
    a, b = np.sqrt(share), np.sqrt(1 - share)  # the anchor's norm in each block
    anchor[:m], anchor[m:] = a * unit(*np.arange(1.0, m + 1)), b * unit(*np.arange(1.0, k + 1))
    drawn = draw(Anisotropic((first,) * m + (second,) * k), anchor)

    def log_density(f):
        c, s = np.cos(f), np.sin(f)
        pull = log_shell_area(m, 2 * first * a * c) + log_shell_area(k, 2 * second * b * s)
        return -first * c**2 - second * s**2 + pull + (m - 1) * np.log(c) + (k - 1) * np.log(s)

    norms = np.linalg.norm(drawn[:, :m], axis=1), np.linalg.norm(drawn[:, m:], axis=1)
    assert_law(np.arctan2(norms[1], norms[0]), log_density, 1e-9, np.pi / 2 - 1e-9)
    for block, size, norm, weight, part in (
        (drawn[:, :m], m, norms[0], first * a, anchor[:m]),
        (drawn[:, m:], k, norms[1], second * b, anchor[m:]),
    ):
        axis = part / np.linalg.norm(part) if part.any() else unit(*np.ones(size))
        cosine = block @ axis / norm
        assert_mean_zero(cosine - mean_cosine(size, 2 * weight * norm))
        assert_mean_zero(block - (norm * cosine)[:, None] * axis)


@pytest.mark.parametrize("concentrations", [(0.1, 0.1), (5, 25), (0.1, 400), (400, 400), (90, 2)])
@pytest.mark.parametrize("angle", [0, 0.3, 1.5])
def test_anisotropic_on_the_circle(concentrations, angle):
    anchor = np.array([np.cos(angle), np.sin(angle)])
    drawn = draw(Anisotropic(concentrations), anchor)

    def log_density(x):
        points = np.stack([np.cos(x + angle), np.sin(x + angle)], 1)
        return -np.square(points - anchor) @ concentrations

    turned = np.angle((drawn[:, 0] + 1j * drawn[:, 1]) * np.exp(-1j * angle))
    assert_law(turned, log_density, -np.pi, np.pi)


@pytest.mark.parametrize(("dim", "concentration"), [(2, 0.1), (3, 7), (10, 50), (20, 400)])
def test_equal_concentrations_are_vmf(dim, concentration):
    anchor = unit(*np.arange(1.0, dim + 1))
    drawn = draw(Anisotropic((concentration,) * dim), anchor)
    reference = draw(VMF(2 * concentration), anchor, seed=1)
    for direction in (anchor, np.eye(dim)[0]):
        assert ks_2samp(drawn @ direction, reference @ direction).pvalue > 1e-3


def test_anisotropic_against_importance_weights_with_all_concentrations_different():
    """Moments under the density itself: uniform points weighted with `log_density`."""
    conditional = Anisotropic((0.5, 2, 4, 7, 11))
    anchor = unit(1, -2, 0.5, 1, 0.3)
    drawn = draw(conditional, anchor)
    points = SPHERE.uniform(1_000_000, 5, np.random.default_rng(1))
    weights = np.exp(conditional.log_density(points, np.tile(anchor, (len(points), 1)), SPHERE))
    weights /= weights.sum()

    def moments(x):
        return np.hstack([x, x**2, x[:, :1] * x[:, 1:]])

    expected = weights @ moments(points)
    errors = np.sqrt(weights**2 @ (moments(points) - expected) ** 2)
    errors = np.hypot(errors, moments(drawn).std(axis=0) / np.sqrt(DRAWS))
    assert (np.abs(moments(drawn).mean(axis=0) - expected) < 4.5 * errors).all()


@pytest.mark.parametrize("concentrations", [(5,) * 5 + (25,) * 5, (3, 10, 40), (400,) * 20])
def test_shell_has_the_law_of_the_released_sampler(concentrations):
    dim = len(concentrations)
    anchor = unit(*np.arange(1.0, dim + 1))
    drawn = draw(Anisotropic(concentrations, "shell"), anchor, n=20_000)
    rng = np.random.default_rng(1)
    plain = anchor + rng.standard_normal((500_000, dim)) / np.sqrt(concentrations)
    norms = np.linalg.norm(plain, axis=1)
    plain = (plain / norms[:, None])[np.abs(norms - 1) <= 0.1][:20_000]
    for direction in (anchor, *np.eye(dim)[[0, -1]]):
        assert ks_2samp(drawn @ direction, plain @ direction).pvalue > 1e-3


@pytest.mark.parametrize("dim", [2, 3, 4, 9, 10, 20, 21])
def test_radius_density_against_quadrature(dim):
    for a in (0.3, 1.0, dim / 2, 20.0, 400.0, 3000.0):
        for t in (0.0, 0.1, a / 2, a, 1.5 * a):
            reach = 2 * t / a + np.sqrt((dim + 60) / a)
            r = np.linspace(-reach, reach, 200_002)
            logs = (dim - 1) * np.log(np.abs(r)) - a * r**2 + 2 * t * r
            integral = logs.max() + np.log(np.exp(logs - logs.max()).sum() * (r[1] - r[0]))
            expected = np.logaddexp(2 * t, -2 * t) - a - integral
            found = log_radius_density(np.array([a]), np.array([t]), dim)[0]
            assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("dim", [2, 3, 4, 5, 6, 8, 10, 14, 20, 50, 200])
def test_radius_bound_holds_everywhere_and_is_tight(dim):
    a = np.geomspace(dim / 2, 500 * dim, 400)[:, None]
    best = a - (dim - 1) / 2  # about where the mean radius is 1
    t = np.maximum(0, best + np.linspace(-3, 3, 601) * np.sqrt(2 * a + dim))
    gap = log_radius_bound(a, dim) - log_radius_density(a + 0 * t, t, dim).max(1, keepdims=True)
    assert (gap > 0).all()
    assert gap.max() < (0.06 if dim > 2 else 0.13)
    assert (np.diff(log_radius_bound(a, dim)[:, 0]) > 0).all()  # so it covers smaller `a`, too
    small = np.geomspace(1e-3, 1, 50)[:, None] * dim / 2
    t = np.linspace(0, 2 * dim, 400) + 0 * small
    assert (log_radius_density(small + 0 * t, t, dim) < log_radius_bound(dim / 2, dim)).all()
