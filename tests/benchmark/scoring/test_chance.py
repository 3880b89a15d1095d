import numpy as np
import pytest
from ident3d.benchmark.scoring.chance import TABLE, simulate

from ident3d import metrics


def test_the_table_is_what_its_command_computes():
    found = simulate(4, 4_000, np.random.default_rng(1))
    assert found.mean() == pytest.approx(TABLE[4][0], abs=0.005)
    assert np.quantile(found, 0.95) == pytest.approx(TABLE[4][1], abs=0.01)
    assert list(TABLE) == list(range(2, 21))


def test_a_rotation_of_uniform_latents_scores_as_the_rotation_alone_says():
    rng = np.random.default_rng(0)
    z, rotation = rng.uniform(size=(20_000, 4)), np.linalg.qr(rng.normal(size=(4, 4)))[0]
    entries = np.abs(rotation)
    expected = entries[metrics.match_columns(entries)].mean()
    assert metrics.mcc(z, z @ rotation) == pytest.approx(expected, abs=0.01)
