import numpy as np
import pytest
from ident3d.benchmark.experiments.rotations import ROW, draw, rises, turned

PAIRS = draw(ROW.tiers["cpu"], 256, 4)
METRIC = np.linspace(5, 25, 10)
NEIGHBOURS = [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]


def test_turns_are_rotations_in_their_planes():
    turn = turned(4, [(1, 3)], 90)
    np.testing.assert_allclose(turn @ [1, 2, 3, 4], [1, -4, 3, 2], atol=1e-12)
    np.testing.assert_allclose(
        turned(10, NEIGHBOURS) @ turned(10, NEIGHBOURS, -45), np.eye(10), atol=1e-12
    )


def test_no_loss_sees_a_rotation_of_equal_metrics():
    equal = np.full(10, 12.0)
    assert abs(rises(PAIRS, equal, turned(10, NEIGHBOURS))).max() < 1e-5


def test_nothing_turned_costs_nothing_and_a_swap_brings_its_metric():
    assert abs(rises(PAIRS, METRIC, np.eye(10))).max() < 1e-5
    assert abs(rises(PAIRS, METRIC, turned(10, NEIGHBOURS, 90))).max() < 1e-5


def test_neighbours_cost_far_less_than_strangers():
    neighbours = rises(PAIRS, METRIC, turned(10, [(4, 5)])).mean()
    strangers = rises(PAIRS, METRIC, turned(10, [(0, 9)])).mean()
    assert strangers > 10 * abs(neighbours)
    assert strangers == pytest.approx(rises(PAIRS, METRIC, turned(10, [(9, 0)])).mean(), rel=0.5)
