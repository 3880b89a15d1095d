import pickle
from dataclasses import dataclass

import numpy as np
import pytest

from ident3d.conditionals import VMF, Anisotropic, Conditional, Fixed, Laplace, Normal, Product
from ident3d.factors import FACTORS, columns
from ident3d.pairs import METHODS, Pairs
from ident3d.pairs.lookup import Lookup, density_power, measure_widths
from ident3d.spaces import UNIT_BOX, Sphere, project
from tests.support.helpers import latent_data

ROWS = 4_000


def painted(rows, size=4):
    """Images that carry their row's number in their first pixel."""
    images = np.zeros((len(rows), size, size, 3), np.uint8)
    images[:, 0, 0] = np.stack([rows & 255, rows >> 8 & 255, rows >> 16], axis=1)
    return images


def painted_rows(images):
    return images[:, 0, 0].astype(np.int64) @ [1, 256, 65536]


def make_data(rows=ROWS, classes=None, **given):
    return latent_data(rows, classes=classes, paint=painted, **given)


def rms(values):
    return float(np.sqrt(np.square(values).mean()))


def test_nearest_is_the_nearest_row_that_is_not_the_anchor():
    data = make_data()
    lookup = Lookup(data, Normal(0.2), "nearest", 16, UNIT_BOX)
    anchors = np.random.default_rng(1).integers(ROWS, size=150)
    drawn, rows = lookup.look(anchors, np.random.default_rng(2))
    squares = np.square(drawn[:, None] - data.latents[None]).sum(-1)
    assert (squares.argmin(1) == anchors).any()  # some draws land on their anchor
    squares[np.arange(150), anchors] = np.inf
    np.testing.assert_array_equal(rows, squares.argmin(1))


@pytest.mark.parametrize("ratio", [1e-12, 0.1, 1.0, 30.0])
def test_density_power_gives_the_variance_asked_for(ratio):
    power = density_power(ratio)
    assert 0.5 <= power <= 1
    # Neighbours on a fine line around each draw, weighted by a normal density to that power.
    draws = np.random.default_rng(0).standard_normal(2_000)
    grid = np.linspace(-6, 6, 401) * np.sqrt(ratio)
    points = draws[:, None] + grid
    logits = -np.square(grid) / (2 * ratio) - power * np.square(points) / 2
    weights = np.exp(logits - logits.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    served = (weights * np.square(points)).sum(1).mean() / np.square(draws).mean()
    assert served == pytest.approx(1, abs=0.06)


@dataclass(frozen=True)
class UniformStep(Conditional):
    """Has no density at all beyond `reach`, as the one of docs/howto/conditional.md."""

    reach: float

    def _sample(self, anchors, rng, space):
        return (anchors + rng.uniform(-self.reach, self.reach, anchors.shape)).clip(-1, 1)

    def _log_density(self, positives, anchors, space):
        inside = (np.abs(positives - anchors) <= self.reach).all(1)
        return np.where(inside, 0.0, -np.inf)


def test_rows_of_no_density_are_hard_negatives_before_the_positive_is():
    settings = {"method": "weighted", "k": 4, "negatives": UniformStep(0.3)}
    pairs = Pairs(make_data(200), UniformStep(0.2), 0, **settings)
    batch = pairs.batch(500)
    rows = batch.negatives.rows
    assert (rows != batch.positives.rows).all() and (rows != batch.anchors.rows).all()


@pytest.mark.parametrize("conditional", [Normal(0.3), Laplace(0.2), Normal(0.6)])
def test_weighted_is_closer_to_what_was_asked_than_nearest(conditional):
    data = make_data(8_000)
    asked = rms(measure_widths(data.latents, conditional, UNIT_BOX))
    served = {}
    for method in ("nearest", "weighted"):
        pairs = Pairs(data, conditional, 0, method=method)
        anchors, positives = pairs.draw(6_000, np.random.default_rng(3))
        served[method] = rms(data.latents[anchors] - data.latents[positives])
        assert (anchors != positives).all()
    assert asked < served["weighted"] < served["nearest"]
    assert served["weighted"] - asked < 0.75 * (served["nearest"] - asked)


def test_weighted_draws_in_proportion_to_the_density():
    data = make_data(60)
    lookup = Lookup(data, Normal(0.5), "weighted", 59, UNIT_BOX)
    anchor = np.zeros(20_000, np.int64)
    _, rows = lookup.look(anchor, np.random.default_rng(0))
    logits = lookup._power * Normal(0.5).log_density(
        data.latents[1:], np.tile(data.latents[0], (59, 1))
    )
    expected = np.exp(logits - logits.max())
    expected /= expected.sum()
    counts = np.bincount(rows, minlength=60)[1:] / len(rows)
    assert np.abs(counts - expected).max() < 0.012


def test_fixed_factors_stay_much_closer():
    data = make_data(20_000)
    hue = columns("hue")
    loose = Pairs(data, "normal:0.5", 0).draw(3_000, np.random.default_rng(0))
    for method in ("nearest", "weighted"):
        pairs = Pairs(data, "hue=fixed,others=normal:0.5", 0, method=method)
        rows = pairs.draw(3_000, np.random.default_rng(0))
        kept, free = (
            np.subtract(*(data.latents[r][:, hue] for r in which)) for which in (rows, loose)
        )
        assert rms(kept) < 0.35 * rms(free)
        others = np.subtract(*(np.delete(data.latents[r], hue, axis=1) for r in rows))
        assert rms(others) == pytest.approx(0.44, rel=0.35)


def test_everything_fixed_serves_the_nearest_other_row():
    data = make_data(500)
    anchors, positives = Pairs(data, Fixed(), 0).draw(50, np.random.default_rng(0))
    squares = np.square(data.latents[anchors][:, None] - data.latents[None]).sum(-1)
    np.testing.assert_array_equal(positives, squares.argsort(1)[:, 1])


def test_factors_that_never_vary_may_be_the_only_ones_not_fixed():
    data = make_data(500)
    data.latents[:, 1:] = 0
    served = Pairs(data, Product({"x": Fixed()}, Normal(0.3)), 0, method="weighted")
    anchors, positives = served.draw(50, np.random.default_rng(0))
    apart = np.abs(data.latents[anchors] - data.latents[positives])[:, 0]
    assert apart.max() < 0.1


def test_uneven_widths_weigh_the_distance():
    data = make_data(15_000)
    anisotropic = Anisotropic((400.0,) * 2 + (1.0,) * 8)
    anchors, positives = Pairs(data, anisotropic, 0).draw(2_000, np.random.default_rng(0))
    apart = data.latents[positives] - data.latents[anchors]
    assert rms(apart[:, :2]) < 0.25 * rms(apart[:, 2:])


def test_classes_restrict_positives_and_negatives():
    classes = np.random.default_rng(0).integers(4, size=ROWS)
    data = make_data(classes=classes)
    pairs = Pairs(data, Normal(0.1), 0, method="weighted", negatives=Normal(0.5))
    anchors = np.arange(500)
    rows = pairs.rows_for(anchors, np.random.default_rng(0))
    assert (classes[rows.positives] == classes[anchors]).all()
    assert (classes[rows.negatives] == classes[anchors]).all()


@pytest.mark.parametrize("method", ["nearest", "weighted"])
def test_hard_negatives_are_wider_and_never_the_pair(method):
    data = make_data()
    pairs = Pairs(data, Normal(0.1), 0, method=method, negatives=Normal(0.3))
    anchors = np.arange(2_000)
    rows = pairs.rows_for(anchors, np.random.default_rng(0))
    assert (rows.negatives != rows.positives).all()
    assert (rows.negatives != anchors).all()
    near, far = (rms(data.latents[r] - data.latents[anchors]) for r in rows[1:])
    assert far > 1.1 * near
    batch = pairs.gather(rows)
    np.testing.assert_array_equal(painted_rows(batch.negatives.images), rows.negatives)


def without(squares, *rows):
    """Distances with some row of each query taken out."""
    squares = squares.copy()
    for numbers in rows:
        squares[np.arange(len(squares)), numbers] = np.inf
    return squares


@pytest.mark.parametrize("candidates", ["rows", "all"])
@pytest.mark.parametrize("method", ["nearest", "exact", "augmented"])
def test_hard_negatives_equal_brute_force_where_all_rows_clash(method, candidates):
    """Five rows: a wide draw lands on the anchor or its positive all the time."""
    rows = 5
    data = make_data(rows, rendered="normal:0.3")
    conditional = None if method == "augmented" else Normal(0.3)
    pairs = Pairs(
        data, conditional, 0, method=method, candidates=candidates,
        negatives=Normal(0.6), negatives_per_anchor=3,
    )  # fmt: skip
    pool = data.latents
    if candidates == "all":
        pool = np.concatenate([pool, data.pairs.latents])
    anchors = np.tile(np.arange(rows), 100)
    found = pairs.rows_for(anchors, np.random.default_rng(3))

    rng = np.random.default_rng(3)
    positives = anchors + (rows if (method, candidates) == ("exact", "all") else 0)
    if method == "nearest":
        drawn = Normal(0.3).sample(pool[anchors], rng)
        squares = np.square((drawn[:, None] - pool) * pairs._lookup._weights).sum(-1)
        positives = without(squares, anchors).argmin(1)
    np.testing.assert_array_equal(found.positives, positives)
    each, avoid = np.repeat(anchors, 3), np.repeat(positives, 3)
    drawn = Normal(0.6).sample(pool[each], rng)
    squares = np.square((drawn[:, None] - pool) * pairs._hard._weights).sum(-1)
    assert (squares.argmin(1) == each).any()
    if pairs._apart:
        assert (without(squares, each).argmin(1) == avoid).any()
    np.testing.assert_array_equal(found.negatives, without(squares, each, avoid).argmin(1))


def test_weighted_hard_negatives_follow_the_density_of_the_rows_left():
    data = make_data(4)
    wide = Normal(0.8)
    pairs = Pairs(data, Normal(0.3), 0, method="weighted", k=2, negatives=wide)
    anchors = np.zeros(20_000, np.int64)
    found = pairs.rows_for(anchors, np.random.default_rng(0))
    assert len(set(found.positives.tolist())) > 1
    for positive in np.unique(found.positives):
        left = np.setdiff1d([1, 2, 3], positive)
        logits = pairs._hard._power * wide.log_density(
            data.latents[left], np.tile(data.latents[0], (2, 1))
        )
        expected = 1 / (1 + np.exp(logits[1] - logits[0]))
        chosen = found.negatives[found.positives == positive]
        assert set(chosen.tolist()) <= set(left.tolist())
        assert (chosen == left[0]).mean() == pytest.approx(expected, abs=0.03)


def test_several_hard_negatives_come_in_the_anchors_order():
    data = make_data()
    pairs = Pairs(data, Normal(0.1), 0, negatives="normal:0.3", negatives_per_anchor=4)
    batch = pairs.batch(30)
    np.testing.assert_array_equal(painted_rows(batch.negatives.images), batch.negatives.rows)
    assert batch.negatives.rows.shape == (120,)
    own = np.repeat(batch.anchors.latents, 4, axis=0)
    other = np.tile(batch.anchors.latents, (4, 1))
    assert rms(batch.negatives.latents - own) < 0.7 * rms(batch.negatives.latents - other)


def test_look_ups_may_choose_among_all_images():
    data = make_data(1_000, rendered="normal:0.2")
    anchors = np.arange(1_000)
    spreads = {}
    for candidates in ("rows", "all"):
        pairs = Pairs(data, Normal(0.2), 0, method="nearest", candidates=candidates)
        batch = pairs.gather(pairs.rows_for(anchors, np.random.default_rng(0)))
        spreads[candidates] = rms(batch.positives.latents - batch.anchors.latents)
        rows = batch.positives.rows
        late = rows >= 1_000
        assert late.any() == (candidates == "all")
        np.testing.assert_array_equal(
            batch.positives.latents[late], data.pairs.latents[rows[late] - 1_000]
        )
        painted = np.where(late, rows + 99_000, rows)
        np.testing.assert_array_equal(painted_rows(batch.positives.images), painted)
    assert spreads["all"] < 0.9 * spreads["rows"]  # the rendered positives lie closer
    exact = Pairs(data, None, 0, candidates="all").batch(50)
    np.testing.assert_array_equal(exact.positives.rows, exact.anchors.rows + 1_000)
    np.testing.assert_array_equal(
        painted_rows(exact.positives.images), exact.anchors.rows + 100_000
    )


def test_classes_hold_among_all_images():
    classes = np.arange(200) % 3
    data = make_data(200, classes, rendered="normal:0.2")
    pairs = Pairs(
        data, "normal:0.2", 0, method="weighted", candidates="all", negatives="normal:0.5"
    )
    rows = pairs.rows_for(np.arange(200), np.random.default_rng(0))
    for found in (rows.positives, rows.negatives):
        assert (classes[found % 200] == classes).all() and (found >= 200).any()


def test_all_images_of_data_without_positives_are_its_rows():
    data = make_data(300)
    one, two = (Pairs(data, Normal(0.2), 0, candidates=name).batch(40) for name in ("rows", "all"))
    np.testing.assert_array_equal(one.positives.rows, two.positives.rows)


def test_augmented_pairs_are_the_anchors_own_rows():
    data = make_data(300)
    batch = Pairs(data, None, 0, method="augmented").batch(40)
    np.testing.assert_array_equal(batch.positives.rows, batch.anchors.rows)
    np.testing.assert_array_equal(batch.positives.images, batch.anchors.images)
    with pytest.raises(ValueError, match="anchor's own row"):
        Pairs(data, Normal(0.1), 0, method="augmented")


def test_anchors_do_not_depend_on_the_method():
    data = make_data(500, rendered="normal:0.2")
    batches = [
        Pairs(data, None if method == "augmented" else "normal:0.2", 3, method=method).batch(60)
        for method in METHODS
        if method != "time"  # whose anchors are the frames that another follows
    ]
    for batch in batches[1:]:
        np.testing.assert_array_equal(batch.anchors.rows, batches[0].anchors.rows)


def test_exact_serves_the_rendered_positive_and_is_the_default():
    data = make_data(rendered="normal:0.1")
    pairs = Pairs(data, Normal(0.1), 0, negatives="normal:0.4")
    assert pairs.method == "exact"
    batch = pairs.batch(64)
    np.testing.assert_array_equal(batch.positives.latents, data.pairs.latents[batch.anchors.rows])
    np.testing.assert_array_equal(
        painted_rows(batch.positives.images), batch.anchors.rows + 100_000
    )
    np.testing.assert_array_equal(painted_rows(batch.negatives.images), batch.negatives.rows)
    assert Pairs(data, None, 0).conditional == Normal(0.1)
    assert Pairs(data, Normal(0.2), 0).method == "nearest"


def test_images_and_latents_belong_to_their_rows():
    data = make_data()
    batch = Pairs(data, "normal:0.2", 7).batch(100)
    for view in batch[:2]:
        np.testing.assert_array_equal(painted_rows(view.images), view.rows)
        np.testing.assert_array_equal(view.latents, data.latents[view.rows])


def test_batches_repeat_with_the_seed_and_differ_without():
    data = make_data()
    first, again, other = (Pairs(data, Normal(0.3), seed) for seed in (5, 5, 6))
    one, two = first.batch(50), first.batch(50)
    same = again.batch(50)
    np.testing.assert_array_equal(one.positives.rows, same.positives.rows)
    assert (one.anchors.rows != two.anchors.rows).any()
    assert (one.anchors.rows != other.batch(50).anchors.rows).any()


def test_pickled_pairs_serve_the_same():
    data = make_data(12_000)
    pairs = Pairs(data, Normal(0.3), 0, method="weighted")
    copy = pickle.loads(pickle.dumps(pairs))
    anchors = np.arange(200)
    for one, two in zip(
        pairs.rows_for(anchors, np.random.default_rng(1))[:2],
        copy.rows_for(anchors, np.random.default_rng(1))[:2],
        strict=True,
    ):
        np.testing.assert_array_equal(one, two)


def test_sphere():
    data = make_data()
    data.latents = project(data.latents[:, :4]).astype(np.float32)
    pairs = Pairs(data, VMF(50.0), 0, method="weighted", space=Sphere())
    anchors, positives = pairs.draw(500, np.random.default_rng(0))
    heights = (data.latents[anchors] * data.latents[positives]).sum(1)
    assert heights.mean() > 0.93


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"k": 60, "method": "weighted"}, "`k` must be between 1 and 49"),
        ({"k": 0, "method": "weighted"}, "`k` must be"),
        ({"conditional": Anisotropic((1.0, 2.0))}, "10 dimensions"),
        ({"conditional": Product({"x": Normal(1)}, Normal(1), FACTORS[:3])}, "10 dimensions"),
        ({"conditional": None}, "no rendered pairs"),
        ({"conditional": 0.3}, r"such as `Normal\(0.3\)`"),
        ({"method": "exact"}, "needs rendered positives"),
        ({"method": "neares"}, "Did you mean 'nearest'"),
        ({"negatives": "normal:0.05"}, "must be wider"),
        ({"negatives": "normal:0.2", "negatives_method": "exact"}, "`negatives_method`"),
        ({"negatives": "normal:0.2", "negatives_per_anchor": 0}, "`negatives_per_anchor` must be"),
        ({"method": "weighted", "negatives": "normal:0.2", "k": 49}, "between 1 and 48"),
        ({"candidates": "everything"}, "`candidates`"),
        ({"seed": -1}, "`seed`"),
        ({"seed": 0.5}, "`seed`"),
        ({"conditional": Fixed(), "method": "weighted"}, "no density"),
        ({"device": "cuda"}, "faiss-gpu|sees none"),
    ],
)
def test_bad_arguments(arguments, match):
    settings = {"conditional": Normal(0.1), "seed": 0} | arguments
    with pytest.raises(ValueError, match=match):
        Pairs(make_data(50), **settings)


def test_exact_of_another_conditional_is_refused():
    with pytest.raises(ValueError, match=r"rendered conditional normal:0.1, not normal:0.2"):
        Pairs(make_data(50, rendered="normal:0.1"), Normal(0.2), 0, method="exact")


def test_a_class_smaller_than_k_is_refused():
    classes = np.array([0] * 45 + [1] * 5)
    with pytest.raises(ValueError, match="between 1 and 4"):
        Pairs(make_data(50, classes), Normal(0.1), 0, method="weighted")
    pairs = Pairs(make_data(50, classes), Normal(0.1), 0)
    assert (pairs.rows_for(np.arange(45, 50), np.random.default_rng(0)).positives >= 45).all()


def test_hard_negatives_need_a_third_row():
    with pytest.raises(ValueError, match="must have 3 rows"):
        Pairs(make_data(2), Normal(0.1), 0, negatives=Normal(0.5))


def test_a_batch_needs_a_row():
    with pytest.raises(ValueError, match="`n` must be at least 1"):
        Pairs(make_data(50), Normal(0.1), 0).batch(0)


def test_a_conditional_of_somebody_elses_stops_nothing_but_its_own_use():
    class Step(Conditional):
        def __str__(self):
            return "uniform-step:0.5"

    data = latent_data(100, rendered="normal:0.1")
    data.pairs.conditional = "uniform-step:0.5"
    assert Pairs(data, Normal(0.3), seed=0).method == "nearest"
    assert Pairs(data, None, seed=0, method="augmented").method == "augmented"
    assert Pairs(data, Step(), seed=0).method == "exact"
    with pytest.raises(ValueError, match=r"own, uniform-step:0\.5, is not known here; pass it as"):
        Pairs(data, None, seed=0)


@pytest.mark.parametrize(
    "written", ["y=laplace:0.2,x=normal:0.1", "x=normal:0.1,y=laplace:0.2,z=fixed"]
)
def test_what_was_rendered_is_served_however_it_is_written(written):
    data = latent_data(100, rendered="x=normal:0.1,y=laplace:0.2")
    assert Pairs(data, written, seed=0).method == "exact"
