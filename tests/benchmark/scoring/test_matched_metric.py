import numpy as np
import pytest
from ident3d.benchmark.scoring.matched_metric import match_metric, metric_errors

from ident3d.metrics import mcc_matrix

Z = np.random.default_rng(0).normal(size=(5_000, 4))


def test_a_dimension_has_the_true_value_of_its_factor():
    order = [2, 0, 3, 1]
    (true,) = match_metric(mcc_matrix(Z, -3 * Z[:, order]), [[1, 2, 3, 4]])
    assert true == [3, 1, 4, 2]


def test_rotations_inside_a_block_of_equal_values_do_not_matter():
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(2, 2)))[0]
    z_hat = np.column_stack([Z[:, 2:] @ turn, Z[:, :2] @ turn])
    found = match_metric(mcc_matrix(Z, z_hat), [[5, 5, 25, 25], [1, 1, 2, 2]])
    assert found == [[25, 25, 5, 5], [2, 2, 1, 1]]


def test_spare_dimensions_have_none():
    noise = np.random.default_rng(2).normal(size=(5_000, 1))
    assert match_metric(mcc_matrix(Z, np.column_stack([noise, Z])), [[1, 2, 3, 4]]) == [
        [None, 1, 2, 3, 4]
    ]


def test_sorting_hides_which_latent_got_which_value():
    found = metric_errors([25, 5], [5, 25])
    assert found["metric_error"] == pytest.approx(4) and found["metric_error_sorted"] == 0
    assert metric_errors([5.5, 25, 9], [5, 25, None])["metric_error"] == pytest.approx(0.1)
