import numpy as np
import pytest
from scipy.stats import kstest

from ident3d.conditionals import VMF, GenNorm, Laplace, Normal
from ident3d.spaces import (
    SPACES,
    Box,
    Sphere,
    Unbounded,
    Uniform,
    parse_space,
    sample_marginal,
)

DRAWS = 100_000


@pytest.mark.parametrize("space", [Box(), Box(0, 1), Box(-0.1, 2.5), Sphere(), Unbounded()])
def test_text_form_both_ways(space):
    assert parse_space(str(space)) == space


def test_every_named_space_parses():
    assert {name: parse_space(name) for name in SPACES} == {
        name: space() for name, space in SPACES.items()
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("spere", "Did you mean 'sphere'"),
        ("box:1", "box:LOW:HIGH"),
        ("box:a:b", "box:LOW:HIGH"),
        ("sphere:0:1", "box:LOW:HIGH"),
        ("box:1:0", "`low` must be finite and below `high`"),
        ("box:nan:0", "`low` must be finite"),
    ],
)
def test_bad_text(text, message):
    with pytest.raises(ValueError, match=message):
        parse_space(text)


def test_contains():
    points = np.array([[0.0, 1.0], [0.6, 0.8], [1.0, 1.01], [np.nan, 0.0]])
    assert Box().contains(points).tolist() == [True, True, False, False]
    assert Sphere().contains(points).tolist() == [True, True, False, False]
    assert Unbounded().contains(points).tolist() == [True, True, True, False]
    rounded = Sphere().uniform(1000, 20, np.random.default_rng(0)).astype(np.float32)
    assert Sphere().contains(rounded).all()


def test_centres_lie_in_their_space():
    for space in (Box(), Box(0, 1), Sphere(), Unbounded()):
        assert space.contains(space.centre(7)[None]).all()
    assert Box(0, 1).centre(2).tolist() == [0.5, 0.5]
    assert Sphere().centre(3).tolist() == [1, 0, 0]


def test_uniform_marginals():
    rng = np.random.default_rng(0)
    box = sample_marginal(Uniform(), Box(0, 1), DRAWS, 2, rng)
    assert box.dtype == np.float64
    for column in box.T:
        assert kstest(column, "uniform").pvalue > 1e-3
    sphere = sample_marginal(Uniform(), Sphere(), DRAWS, 3, rng)
    for column in sphere.T:  # Archimedes: a coordinate on the 2-sphere is uniform
        assert kstest((column + 1) / 2, "uniform").pvalue > 1e-3
    with pytest.raises(ValueError, match="no uniform"):
        sample_marginal(Uniform(), Unbounded(), 10, 2, rng)


def test_other_marginals_sit_around_the_centre():
    rng = np.random.default_rng(0)
    wide = sample_marginal(Laplace(2), Unbounded(), DRAWS, 2, rng)
    assert kstest(wide[:, 0], "laplace", (0, 2)).pvalue > 1e-3
    for marginal in (Normal(0.2), Laplace(0.2), GenNorm(3, 0.2)):
        box = sample_marginal(marginal, Box(0, 1), DRAWS, 2, rng)
        assert Box(0, 1).contains(box).all()
        assert box.mean(axis=0) == pytest.approx([0.5, 0.5], abs=0.005)
    for marginal in (Normal(1), VMF(5)):
        sphere = sample_marginal(marginal, Sphere(), DRAWS, 4, rng)
        assert Sphere().contains(sphere).all()
        assert sphere[:, 0].mean() > 0.4
        assert sphere[:, 1:].mean(axis=0) == pytest.approx(np.zeros(3), abs=0.01)
