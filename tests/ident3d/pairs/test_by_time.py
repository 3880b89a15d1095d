"""Pairs by time: a frame and a later one of the same sequence."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import gennorm

from ident3d.conditionals import ByTime, parse
from ident3d.factors import FACTORS
from ident3d.loaders import PairLoader
from ident3d.pairs import Pairs
from ident3d.pairs.later import Later
from ident3d.pairs.transitions import fit_shape, transitions

LENGTHS = (1, 2, 7, 40, 1, 3)
SEQUENCES = np.repeat([4, 2, 9, 0, 7, 1], LENGTHS)
ROWS = len(SEQUENCES)


def make_data(sequences=SEQUENCES, latents=None):
    rows = len(sequences)
    if latents is None:
        latents = np.zeros((rows, 10), np.float32)
        latents[:, 0] = np.linspace(-1, 1, rows)
    images = np.zeros((rows, 4, 4, 3), np.uint8)
    images[:, 0, 0, 0] = np.arange(rows)
    return SimpleNamespace(
        latents=latents, images=images, factors=FACTORS, fingerprint="test", classes=None,
        path=None, pairs=None, sequences=sequences,
    )  # fmt: skip


def test_the_text_form_is_read_and_written():
    assert str(parse("time:5")) == "time:5" and parse("time:5") == ByTime(5)
    for wrong in ("time", "time:0", "time:-1", "time:1.5", "time:nan", "time:1:2"):
        with pytest.raises(ValueError, match="time"):
            parse(wrong)
    with pytest.raises(ValueError, match="no law but the data's own"):
        ByTime(2).sample(np.zeros((3, 10)), np.random.default_rng(0))


@pytest.mark.parametrize("most", [1, 5, 1000])
def test_positives_are_later_frames_as_a_plain_loop_finds_them(most):
    pairs = Pairs(make_data(), ByTime(most), seed=0)
    assert pairs.method == "time" and str(pairs.conditional) == f"time:{most}"
    anchors, positives = pairs.draw(5_000, np.random.default_rng(0))
    for anchor, positive in zip(anchors, positives, strict=True):
        last = max(row for row in range(ROWS) if SEQUENCES[row] == SEQUENCES[anchor])
        assert anchor < positive <= min(anchor + most, last)
    followed = [r for r in range(ROWS - 1) if SEQUENCES[r] == SEQUENCES[r + 1]]
    assert sorted(set(anchors.tolist())) == followed


def test_how_far_is_uniform_and_cut_at_the_end():
    later = Later(SEQUENCES, 5)
    start = int(np.flatnonzero(SEQUENCES == 0)[0])
    ahead = later.rows(np.full(10_000, start), np.random.default_rng(0)) - start
    share = np.bincount(ahead, minlength=6) / 10_000
    np.testing.assert_allclose(share, [0, 0.2, 0.2, 0.2, 0.2, 0.2], atol=0.02)
    near_end = later.rows(np.full(10_000, start + 37), np.random.default_rng(0)) - start
    np.testing.assert_allclose(np.bincount(near_end)[38:] / 10_000, [0.2, 0.8], atol=0.02)


def test_epochs_and_loader_serve_every_anchor_once_and_go_on():
    pairs = Pairs(make_data(), "time:3", seed=4)
    loader = PairLoader(pairs, 7)
    seen = list(loader)
    assert len(loader) == len(pairs.anchors) // 7
    rows = np.concatenate([batch.anchors.rows for batch in seen])
    assert len(set(rows.tolist())) == len(rows) == 7 * len(loader)
    assert set(rows.tolist()) <= set(pairs.anchors.tolist())
    for batch in seen:
        np.testing.assert_array_equal(batch.positives.images[:, 0, 0, 0], batch.positives.rows)
    again = PairLoader(Pairs(make_data(), "time:3", seed=4), 7)
    again.seek(2)
    np.testing.assert_array_equal(next(iter(again)).positives.rows, seen[2].positives.rows)


def test_what_has_no_sequences_or_mixes_them_is_refused():
    data = make_data()
    with pytest.raises(ValueError, match="side by side"):
        Pairs(make_data(np.array([0, 1, 0, 1])), "time:1", seed=0)
    with pytest.raises(ValueError, match="two frames"):
        Pairs(make_data(np.arange(5)), "time:1", seed=0)
    del data.sequences
    with pytest.raises(ValueError, match="needs sequences"):
        Pairs(data, "time:1", seed=0)
    with pytest.raises(ValueError, match="go together"):
        Pairs(make_data(), "time:1", seed=0, method="nearest")
    with pytest.raises(ValueError, match="go together"):
        Pairs(make_data(), "normal:0.1", seed=0, method="time")
    with pytest.raises(ValueError, match="no hard negatives"):
        Pairs(make_data(), "time:1", seed=0, negatives="normal:0.5")


def test_a_factor_that_never_changes_has_no_shape():
    latents = np.zeros((ROWS, 10))
    latents[:, 0] = np.linspace(-1, 1, ROWS) ** 3
    latents[:, 7] = SEQUENCES / 10  # the hue of a sequence
    found = transitions(make_data(latents=latents), "time:1", pairs=200)
    assert [factor.shape is None for factor in found.factors] == [False, True]
    json.dumps(found.to_record(), allow_nan=False)


def test_steady_motion_has_no_shape():
    latents = np.zeros((ROWS, 10), np.float32)
    latents[:, 0] = np.linspace(-1, 1, ROWS)
    latents[:, 1] = np.arange(ROWS) / 64  # without rounding
    found = transitions(make_data(np.zeros(ROWS, int), latents), "time:1", pairs=200)
    assert [(factor.excess_kurtosis, factor.shape) for factor in found.factors] == [(None,) * 2] * 2
    json.dumps(found.to_record(), allow_nan=False)


@pytest.mark.parametrize("shape", [0.7, 1.0, 2.0])
def test_transitions_find_the_law_that_a_path_was_drawn_from(shape):
    rng = np.random.default_rng(0)
    steps = gennorm.rvs(shape, scale=1e-4, size=(6_000, 10), random_state=rng)
    latents = np.cumsum(steps, axis=0).astype(np.float64)
    found = transitions(make_data(np.zeros(6_000, int), latents), "time:1", pairs=6_000)
    for factor in found.factors:
        assert factor.shape == pytest.approx(shape, rel=0.1)
        assert factor.spread == pytest.approx(gennorm.std(shape, scale=1e-4), rel=0.1)
    middle = np.median([factor.excess_kurtosis for factor in found.factors])  # few tails count most
    kurtosis = float(gennorm.stats(shape, moments="k"))
    assert middle == pytest.approx(kurtosis, abs=0.3 + 0.3 * kurtosis)
    assert fit_shape(rng.normal(size=5_000)) == pytest.approx(2, abs=0.2)
