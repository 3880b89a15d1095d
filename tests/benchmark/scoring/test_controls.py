import numpy as np
import pytest
from ident3d.benchmark.scoring.controls import (
    CONTROLS,
    coarse,
    fast_ica,
    pixel_r2,
    random_slow_features,
    slow_features,
    turned_slow_features,
)

from ident3d import metrics

RNG = np.random.default_rng(0)
TEST = RNG.uniform(-1, 1, (800, 3))


def pairs(rows=4_000, width=0.1):
    anchors = RNG.uniform(-1, 1, (rows, 3))
    return anchors, anchors + width * RNG.normal(size=anchors.shape)


def bend(z):
    """A mixing that no line undoes: rotations with leaky ReLUs between them."""
    rng = np.random.default_rng(5)
    for _ in range(3):
        z = z @ np.linalg.qr(rng.normal(size=(3, 3)))[0]
        z = np.where(z > 0, z, 0.2 * z)
    return z


def among_distractors(*latents):
    """A linear mixing of latents and of six numbers that no pair shares."""
    mixing = RNG.normal(size=(9, 9))
    return [np.column_stack([z, RNG.normal(size=(len(z), 6))]) @ mixing for z in latents]


def test_slow_features_undo_a_linear_mixing_with_fast_distractors():
    anchors, positives, observed = among_distractors(*pairs(), TEST)
    found = slow_features(anchors, positives, observed, 3, RNG)
    assert found.shape == (800, 3)
    assert metrics.linear_r2(TEST, found) > 0.99
    # Without pairs there is no telling: as many directions at random hold far less.
    assert metrics.linear_r2(TEST, observed[:, :3]) < 0.9


def test_random_features_see_what_lines_do_not():
    anchors, positives = map(bend, pairs())
    linear = slow_features(anchors, positives, bend(TEST), 3, RNG)
    random = random_slow_features(anchors, positives, bend(TEST), 3, RNG)
    assert metrics.linear_r2(TEST, random) > metrics.linear_r2(TEST, linear) + 0.05


def test_fast_ica_unmixes_independent_laplace_sources():
    sources, mixing = RNG.laplace(size=(6_000, 3)), RNG.normal(size=(3, 3))
    found = fast_ica(sources @ mixing, sources @ mixing, sources[:1000] @ mixing, 3, RNG)
    assert metrics.mcc(sources[:1000], found) > 0.98
    assert metrics.mcc(sources[:1000], sources[:1000] @ mixing) < 0.95


def test_turned_slow_features_find_the_axes_of_a_linear_mixing_that_slow_features_leave_open():
    anchors, positives, observed = among_distractors(*pairs(), TEST)
    slow = slow_features(anchors, positives, observed, 3, RNG)
    turned = turned_slow_features(anchors, positives, observed, 3, RNG)
    assert metrics.linear_r2(TEST, turned) == pytest.approx(metrics.linear_r2(TEST, slow), abs=1e-6)
    assert metrics.mcc(TEST, turned) > 0.98 > 0.95 > metrics.mcc(TEST, slow)


@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control.name)
def test_controls_draw_from_their_generator_alone(control):
    anchors, positives = pairs(300)
    one, two = (
        control.embed(anchors, positives, TEST, 3, np.random.default_rng(7)) for _ in range(2)
    )
    assert np.array_equal(one, two) and np.isfinite(one).all()


@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control.name)
def test_constant_columns_and_few_rows_do_not_stop_a_control(control):
    anchors, positives = pairs(40)
    padded = [np.column_stack([z, np.zeros((len(z), 20))]) for z in (anchors, positives, TEST)]
    assert np.isfinite(control.embed(*padded, 3, np.random.default_rng(0))).all()


def test_pixels_are_read_with_the_ridge_that_left_out_rows_choose():
    z = RNG.uniform(-1, 1, (300, 2))
    # As many columns as rows to fit, where least squares alone is at its worst.
    pixels = np.column_stack([z @ RNG.normal(size=(2, 50)), 4 * RNG.normal(size=(300, 110))])
    rows = np.arange(300)
    ridge = pixel_r2(z, pixels, rows[::2], rows[1::2])
    least = pixel_r2(z, pixels, rows[::2], rows[1::2], least_norm=True)
    assert ridge.shape == (2,) and (ridge > least).all()


def test_least_norm_is_what_linear_regression_gives():
    from sklearn.linear_model import LinearRegression
    from sklearn.metrics import r2_score

    z, pixels = RNG.uniform(-1, 1, (60, 2)), RNG.integers(0, 256, (60, 200), dtype=np.uint8)
    pixels[:, :2] = 100 * (z + 1)
    fit, scored = np.arange(30), np.arange(30, 60)
    model = LinearRegression().fit(pixels[fit].astype(float), z[fit])
    guess = model.predict(pixels[scored].astype(float))
    expected = r2_score(z[scored], guess, multioutput="raw_values")
    found = pixel_r2(z, pixels, fit, scored, least_norm=True)
    assert found == pytest.approx(expected, abs=1e-3)


def test_coarse_pixels_are_averages():
    images = RNG.integers(0, 256, (5, 16, 16, 3), dtype=np.uint8)
    found = coarse(images, 2).reshape(5, 2, 2, 3)
    assert found[2, 0, 1] == pytest.approx(images[2, :8, 8:].mean((0, 1)) / 255, rel=1e-5)
    floats = images.astype(np.float32) / 255  # as augmented ones are
    np.testing.assert_allclose(coarse(floats, 2), coarse(images, 2), rtol=1e-5)
    assert coarse(images[:, :, :5], 8).shape == (5, 8 * 5 * 3)  # never more than there are
