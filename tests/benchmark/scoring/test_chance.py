import numpy as np
import pytest
from ident3d.benchmark.scoring.chance import (
    BLOCKS,
    TABLE,
    block_chance,
    simulate,
    simulate_blocks,
)

from ident3d import metrics


def test_the_table_is_what_its_command_computes():
    found = simulate(4, 4_000, np.random.default_rng(1))
    assert found.mean() == pytest.approx(TABLE[4][0], abs=0.005)
    assert np.quantile(found, 0.95) == pytest.approx(TABLE[4][1], abs=0.01)
    assert list(TABLE) == list(range(2, 21))


@pytest.mark.parametrize("sizes", BLOCKS)
def test_the_table_of_blocks_is_what_its_command_computes(sizes):
    found = simulate_blocks(sizes, 1_000, np.random.default_rng(1))
    assert found.mean() == pytest.approx(BLOCKS[sizes][0], abs=0.005)
    assert np.quantile(found, 0.95) == pytest.approx(BLOCKS[sizes][1], abs=0.01)


def test_blocks_of_one_factor_have_the_chance_of_the_mcc():
    found = simulate_blocks((1,) * 4, 4_000, np.random.default_rng(1))
    assert found.mean() == pytest.approx(TABLE[4][0], abs=0.005)


@pytest.mark.parametrize(
    ("conditionals", "chance"),
    [
        (["anisotropic:5,5,5,5,5,25,25,25,25,25"], BLOCKS[5, 5]),
        (["anisotropic:4,4,2,2,2,3,3,3", "anisotropic:4,4,3,3,3,2,2,2"], BLOCKS[2, 3, 3]),
        (["anisotropic:2,2,2,2,3,3,3,3", "anisotropic:4,4,5,5,4,4,5,5"], None),  # four of two
        (["anisotropic:1,2,3,4"], TABLE[4]),
        (["anisotropic:7,7,7"], None),  # one block, which any rotation leaves as it is
        (["anisotropic:1,2", "normal:0.1"], None),
        (["anisotropic:1,2", "anisotropic:1,2,3"], None),
        (["anisotropic:-1"], None),
        ([], None),
        ([["anisotropic:1,2"]], None),
        ("anisotropic:1,2", None),
        (None, None),
    ],
)
def test_chance_by_blocks_is_read_from_a_records_settings(conditionals, chance):
    assert block_chance({"conditionals": conditionals}) == chance


def test_a_rotation_of_uniform_latents_scores_as_the_rotation_alone_says():
    rng = np.random.default_rng(0)
    z, rotation = rng.uniform(size=(20_000, 4)), np.linalg.qr(rng.normal(size=(4, 4)))[0]
    entries = np.abs(rotation)
    expected = entries[metrics.match_columns(entries)].mean()
    assert metrics.mcc(z, z @ rotation) == pytest.approx(expected, abs=0.01)
