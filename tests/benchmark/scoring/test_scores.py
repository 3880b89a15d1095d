import numpy as np
import pytest
from ident3d.benchmark.scoring import PROVABLE, QUICK, SCORES, describe, score
from ident3d.benchmark.scoring.scores import SHOWN

LATENTS = np.random.default_rng(0).uniform(-1, 1, (60, 3))
MEASURES = {SCORES[name].measure for name in PROVABLE}


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.__name__)
def test_what_a_measure_returns_stands_in_the_table(measure):
    named = {name for name, line in SCORES.items() if line.measure is measure}
    assert set(measure(LATENTS, LATENTS, True)) == named


def test_all_provable_scores_of_the_truth_are_high():
    found = score(LATENTS, LATENTS, "held-out", ["x", "y", "z"], PROVABLE)
    assert list(found) == list(PROVABLE)
    for name, value in found.items():
        values = value.values() if name.endswith("per_factor") else [value]
        assert min(values) > 0.5 and all(type(v) is float for v in values), name


def test_only_the_measures_asked_for_are_computed():
    assert set(score(LATENTS, LATENTS, "as-released", ["x", "y", "z"])) == set(QUICK)
    assert set(score(LATENTS, LATENTS, "held-out", ["x", "y", "z"], ["mcc"])) == {"mcc"}


def test_the_leaderboard_explains_its_columns():
    assert SHOWN[:2] == ("r2", "mcc") and all(describe(name).meaning for name in SHOWN)


def test_a_score_of_anybody_is_a_plain_number():
    assert describe("my_own_score").percent is False and describe("r2_style").percent is True


def test_isometry_sees_stretching_and_not_rotation():
    rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    wanted = ["isometry", "distance_correlation"]
    turned, stretched, short = (
        score(LATENTS, z_hat, "held-out", "xyz", wanted)
        for z_hat in (7 * LATENTS @ rotation, LATENTS * [1, 1, 4], LATENTS[:, :2])
    )
    assert turned["isometry"] == pytest.approx(1) and turned[wanted[1]] == pytest.approx(1)
    assert stretched["isometry"] == pytest.approx(0.25) and stretched[wanted[1]] < 0.95
    assert short == dict.fromkeys(wanted)
