"""Conditionals on box and unbounded spaces, their text form and their errors.

The samplers on the sphere are tested in test_directional.py.
"""

import numpy as np
import pytest
from scipy import stats

from ident3d.conditionals import VMF, Anisotropic, GenNorm, Laplace, Normal, Product, parse
from ident3d.factors import FACTORS, Factor
from ident3d.spaces import Box, Sphere, Unbounded, Uniform, sample_marginal

DRAWS = 100_000
# Concentrations 0.1 to 400 are standard deviations 2.2 to 0.035.
NOISES = [
    (Normal(0.035), stats.norm(scale=0.035)),
    (Normal(0.3), stats.norm(scale=0.3)),
    (Normal(2.2), stats.norm(scale=2.2)),
    (Normal(1e6), stats.norm(scale=1e6)),
    (Laplace(0.05), stats.laplace(scale=0.05)),
    (Laplace(50), stats.laplace(scale=50)),
    (GenNorm(3, 0.05), stats.gennorm(3, scale=0.05)),
    (GenNorm(3, 5), stats.gennorm(3, scale=5)),
    (GenNorm(1, 1), stats.laplace()),
    (GenNorm(0.5, 0.02), stats.gennorm(0.5, scale=0.02)),
    (GenNorm(0.5, 1), stats.gennorm(0.5)),
    (GenNorm(8, 1), stats.gennorm(8)),
    (GenNorm(100, 0.3), stats.gennorm(100, scale=0.3)),
]


def anchors_in(space, dim, n=DRAWS):
    """Uniform anchors, the first third of them on the box's very edge."""
    anchors = sample_marginal(Uniform(), space, n, dim, np.random.default_rng(99))
    edge = anchors[: n // 3]
    edge[...] = np.where(edge > space.centre(dim), space.high, space.low)
    return anchors


def truncated_cdf(law, x, low, high):
    """P(X <= x | low <= X <= high), from the tail that keeps its digits."""
    near = law.cdf(x) - law.cdf(low)
    far = law.sf(x) - law.sf(high)
    return np.where(x < 0, near, law.cdf(high) - law.cdf(low) - far) / (
        law.cdf(high) - law.cdf(low)
    )


def assert_uniform(values):
    assert stats.kstest(np.ravel(values), "uniform").pvalue > 1e-3


@pytest.mark.parametrize(("noise", "law"), NOISES, ids=lambda value: str(value)[:20])
@pytest.mark.parametrize("space", [Box(), Box(0, 1)], ids=str)
def test_noise_is_truncated_exactly(noise, law, space):
    anchors = anchors_in(space, 2)
    drawn = noise.sample(anchors, np.random.default_rng(0), space)
    assert drawn.dtype == np.float64
    assert space.contains(drawn).all()
    assert ((drawn > space.low) & (drawn < space.high)).mean() > 0.9999  # truncated, not clipped
    place = truncated_cdf(law, drawn - anchors, space.low - anchors, space.high - anchors)
    third = DRAWS // 3
    assert_uniform(place[:third])  # anchors at the edge
    assert_uniform(place[third:])
    assert abs(np.corrcoef(place.T)[0, 1]) < 4.5 / np.sqrt(DRAWS)  # coordinates are independent


@pytest.mark.parametrize(("noise", "law"), NOISES, ids=lambda value: str(value)[:20])
def test_unbounded_noise(noise, law):
    anchors = np.full((DRAWS, 2), [[3.0, -100.0]])
    drawn = noise.sample(anchors, np.random.default_rng(0), Unbounded())
    assert_uniform(law.cdf(drawn - anchors))


@pytest.mark.parametrize("dim", [2, 10, 20])
def test_anisotropic_on_a_box(dim):
    concentrations = np.geomspace(0.1, 400, dim)
    anchors = anchors_in(Box(), dim)
    drawn = Anisotropic(tuple(concentrations)).sample(anchors, np.random.default_rng(0))
    law = stats.norm(scale=1 / np.sqrt(2 * concentrations))
    place = truncated_cdf(law, drawn - anchors, -1 - anchors, 1 - anchors)
    for column in place.T:
        assert_uniform(column)
    free = Anisotropic(tuple(concentrations)).sample(anchors, np.random.default_rng(0), Unbounded())
    for column in law.cdf(free - anchors).T:
        assert_uniform(column)


def test_far_tail_keeps_its_resolution():
    """Past 7 standard deviations draws still differ, and none is infinite."""
    anchors = np.full((DRAWS, 1), -1.0)
    drawn = Normal(1e-3).sample(anchors, np.random.default_rng(0))
    assert np.isfinite(drawn).all()
    assert len(np.unique(drawn)) > 0.999 * DRAWS
    assert stats.kstest((drawn[:, 0] + 1) / 1e-3, "halfnorm").pvalue > 1e-3


def test_noise_on_the_sphere_is_projected():
    rng = np.random.default_rng(0)
    anchors = np.tile([0.6, 0.8, 0.0], (DRAWS, 1))
    for noise, law in ((Normal(0.2), stats.norm), (Laplace(0.2), stats.laplace)):
        drawn = noise.sample(anchors, np.random.default_rng(1), Sphere())
        assert Sphere().contains(drawn).all()
        plain = anchors + law.rvs(scale=0.2, size=anchors.shape, random_state=rng)
        plain /= np.linalg.norm(plain, axis=1, keepdims=True)
        for column in range(3):
            assert stats.ks_2samp(drawn[:, column], plain[:, column]).pvalue > 1e-3
        with pytest.raises(ValueError, match="no closed density; use vmf or anisotropic"):
            noise.log_density(drawn, anchors, Sphere())


@pytest.mark.parametrize(("noise", "law"), NOISES, ids=lambda value: str(value)[:20])
def test_log_density_up_to_the_anchor(noise, law):
    anchors = np.tile([0.3, -0.9], (50, 1))
    positives = np.random.default_rng(0).uniform(-1, 1, (50, 2))
    expected = law.logpdf(positives - anchors).sum(axis=1)
    found = noise.log_density(positives, anchors)
    shift = (found - expected) - (found - expected)[0]
    assert shift == pytest.approx(np.zeros(50), abs=1e-6 * np.abs(expected).max())
    outside = noise.log_density(positives + 5, anchors)
    assert (outside == -np.inf).all()


def test_log_density_of_vmf_and_anisotropic():
    points = Sphere().uniform(2, 3, np.random.default_rng(0))
    x, z = points[:1], points[1:]
    assert VMF(7).log_density(x, z, Sphere()) == pytest.approx(7 * x[0] @ z[0])
    expected = -((x - z)[0] ** 2) @ [1, 2, 3]
    for space in (Sphere(), Box(), Unbounded()):
        assert Anisotropic((1, 2, 3)).log_density(x, z, space) == pytest.approx(expected)
    assert VMF(7).log_density(2 * x, z, Sphere()) == -np.inf


def test_product_gives_each_factor_its_own():
    product = parse("position=anisotropic:0.1,5,400,beta=normal:0.3,hue=fixed,others=laplace:0.1")
    anchors = anchors_in(Box(), 10)
    drawn = product.sample(anchors, np.random.default_rng(0))
    laws = [stats.norm(scale=1 / np.sqrt(2 * c)) for c in (0.1, 5, 400)]
    laws += [stats.laplace(scale=0.1), stats.norm(scale=0.3), *[stats.laplace(scale=0.1)] * 2]
    for column, law in enumerate(laws):
        z = anchors[:, column]
        assert_uniform(truncated_cdf(law, drawn[:, column] - z, -1 - z, 1 - z))
    assert (drawn[:, 7:] == anchors[:, 7:]).all()
    with pytest.raises(ValueError, match="no density"):
        product.log_density(drawn, anchors)


def test_product_log_density_is_the_sum_of_its_parts():
    product = Product({"position": Normal(0.3), "x": Laplace(0.2)}, others=GenNorm(3, 1))
    z, x = np.random.default_rng(0).uniform(-1, 1, (2, 5, 10))
    parts = (
        Laplace(0.2).log_density(x[:, :1], z[:, :1])
        + Normal(0.3).log_density(x[:, 1:3], z[:, 1:3])
        + GenNorm(3, 1).log_density(x[:, 3:], z[:, 3:])
    )
    assert product.log_density(x, z) == pytest.approx(parts)


def test_products_are_equal_however_they_are_written():
    written = parse("x=normal:0.1,y=laplace:0.2")
    assert (
        written
        == parse("y=laplace:0.2,x=normal:0.1")
        == parse("y=laplace:0.2,x=normal:0.1,z=fixed")
    )
    assert hash(written) == hash(parse("y=laplace:0.2,x=normal:0.1"))
    assert written != parse("x=laplace:0.2,y=normal:0.1")


def test_factors_not_named_stay_where_they_are():
    drawn = parse("x=normal:0.1").sample(np.zeros((5, 10)), np.random.default_rng(0))
    assert (drawn != 0).all(axis=0).tolist() == [True] + [False] * 9


@pytest.mark.parametrize("order", [1, -1])
def test_a_factor_wins_over_its_group(order):
    pieces = ["spotlight_angle=fixed", "light=normal:0.1", "all=normal:0.2"]
    anchors = np.zeros((5, 10))
    drawn = parse(",".join(pieces[::order])).sample(anchors, np.random.default_rng(0))
    assert (drawn == 0).all(axis=0).tolist() == [f.name == "spotlight_angle" for f in FACTORS]


TEXTS = [
    "normal:0.1",
    "laplace:0.05",
    "gennorm:3:0.05",
    "vmf:10",
    "anisotropic:5,5,25",
    "anisotropic-shell:5,5,25",
    "fixed",
    "x=normal:0.1,object_hue=fixed",
    "x=normal:0.1,object_hue=fixed,others=laplace:1e-05",
    "position=anisotropic:5,5,25.5,hue=fixed,others=gennorm:3:0.05",
    "position=normal:1,rotation=normal:2,light=normal:3,hue=normal:4",
]


@pytest.mark.parametrize("text", TEXTS)
def test_text_form_both_ways(text):
    assert str(parse(text)) == text
    assert parse(str(parse(text))) == parse(text)
    assert hash(parse(text)) == hash(parse(f" {text} "))


def test_text_form_of_other_factors():
    factors = (Factor("size", "shape", "m", 0, 1), Factor("tilt", "shape", "rad", 0, 1))
    product = parse("size=normal:0.1,tilt=fixed", factors)
    assert product.sample(np.zeros((3, 2)), np.random.default_rng(0))[:, 1].tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="written for 2 factors, not for 10 dimensions"):
        product.check(len(FACTORS))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("normall:1", "Did you mean 'normal'"),
        ("normal", "written `normal:SCALE`, got 'normal'"),
        ("normal:wide", "written `normal:SCALE`"),
        ("normal:1:2", "written `normal:SCALE`"),
        ("normal:-1", "`scale` must be a finite number above 0; got -1"),
        ("laplace:nan", "`scale` must be a finite number"),
        ("gennorm:0:1", "`exponent` must be a finite number above 0"),
        ("vmf:-2", "`concentration` must be between 0 and 1e\\+10"),
        ("vmf:1e300", "`concentration` must be between 0 and 1e\\+10"),
        ("anisotropic:1e150,1,1", "`concentrations` must be at most 1e\\+10"),
        ("anisotropic:", "written `anisotropic:L1,L2,...`"),
        ("anisotropic:5,0", "`concentrations` must be a finite number above 0"),
        ("fixed:1", "written `fixed`"),
        ("objct_hue=fixed,others=fixed", "Did you mean 'object_hue'"),
        ("x=normal:1,x=fixed,others=fixed", "names 'x' twice"),
        ("x=vmf:1,others=fixed", "cannot hold vmf:1"),
        ("position=anisotropic-shell:1,2,3,others=fixed", "cannot hold anisotropic-shell"),
        ("position=anisotropic:5,5,others=fixed", "each of the 3 dimensions, got 2"),
        ("position=anisotropic:5,5,5,x=fixed,others=fixed", "each of the 2 dimensions, got 3"),
        ("", "`conditional` must be one of"),
        ("normal=0.3", "write normal:SCALE, or FACTOR=normal:SCALE for one factor"),
    ],
)
def test_bad_text(text, message):
    with pytest.raises(ValueError, match=message):
        parse(text)


@pytest.mark.parametrize(
    ("anchors", "message"),
    [
        (np.zeros(3), r"shape \(n, d\)"),
        (np.array([[0.0, 0.0], [0.0, 1.1]]), "must lie in the space box; row 1"),
        (np.array([[0.0, np.nan]]), "must lie in the space box; row 0"),
    ],
)
def test_bad_anchors(anchors, message):
    with pytest.raises(ValueError, match=message):
        Normal(0.1).sample(anchors, np.random.default_rng(0))


def test_wrong_space_is_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="vmf:1 lives on the sphere, not on box"):
        VMF(1).sample(np.zeros((1, 3)), rng)
    with pytest.raises(ValueError, match="use anisotropic there"):
        Anisotropic((1, 2), "shell").sample(np.zeros((1, 2)), rng)
    with pytest.raises(ValueError, match="each of the 3 dimensions, got 2"):
        Anisotropic((1, 2)).sample(np.zeros((1, 3)), rng)
    with pytest.raises(ValueError, match="which a sphere does not"):
        parse("x=fixed,others=normal:1").sample(np.eye(10), rng, Sphere())
    with pytest.raises(ValueError, match="2 dimensions or more"):
        VMF(1).check(1)
    with pytest.raises(ValueError, match=r"shape of `anchors`, \(1, 2\)"):
        Normal(1).log_density(np.zeros((2, 2)), np.zeros((1, 2)))


@pytest.mark.parametrize("text", [t for t in TEXTS if "5,5,25" not in t or "=" in t])
@pytest.mark.parametrize("n", [0, 1, 1000])
def test_same_seed_same_draws_and_anchors_untouched(text, n):
    conditional = parse(text)
    space = Sphere() if text.startswith("vmf") else Box()
    anchors = sample_marginal(Uniform(), space, n, 10, np.random.default_rng(0))
    anchors = anchors.astype(np.float32)
    before = anchors.copy()
    first, second = (conditional.sample(anchors, np.random.default_rng(5), space) for _ in "ab")
    assert first.shape == (n, 10)
    assert (first == second).all()
    assert (anchors == before).all()
    assert not np.shares_memory(first, anchors)
