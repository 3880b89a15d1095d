import numpy as np
import pytest
from ident3d.benchmark.scoring import PROBES, score
from ident3d.benchmark.scoring.probes import _order, dci, kernel_ridge

RNG = np.random.default_rng(0)
LATENTS = RNG.uniform(-1, 1, (600, 3))


def test_kernel_ridge_reads_what_a_line_cannot():
    bent = np.column_stack([np.sign(c) * c**2 for c in LATENTS.T])
    folded = np.abs(LATENTS)  # the sign is lost: nothing can read it
    assert kernel_ridge(LATENTS, bent)["kernel_r2_per_factor"].min() > 0.9
    assert kernel_ridge(LATENTS, folded)["kernel_r2_per_factor"].max() < 0.1


def test_dci_tells_order_from_mixture():
    ordered = dci(LATENTS, LATENTS[:, [2, 0, 1]] * [3, -1, 2])
    rotation = np.linalg.qr(RNG.normal(size=(3, 3)))[0]
    mixed = dci(LATENTS, LATENTS @ rotation)
    assert min(ordered.values()) > 0.95
    assert mixed["dci_disentanglement"] < 0.6 and mixed["dci_completeness"] < 0.6
    assert mixed["dci_informativeness"] > 0.8


def test_noise_scores_nothing():
    scores = score(LATENTS, RNG.normal(size=(600, 3)), "held-out", ["x", "y", "z"], PROBES)
    assert scores["kernel_r2"] < 0.1 and scores["dci_informativeness"] < 0.1
    assert set(scores["kernel_r2_per_factor"]) == {"x", "y", "z"}


def test_order_of_hand_made_importances():
    assert _order(np.eye(3)) == pytest.approx(1)
    assert _order(np.ones((3, 3))) == pytest.approx(0)
    assert _order(np.array([[1.0, 0], [0, 0]])) == pytest.approx(1)  # an unused column weighs 0


def test_too_few_rows_are_refused():
    with pytest.raises(ValueError, match="at least 12 rows"):
        dci(LATENTS[:5], LATENTS[:5])
