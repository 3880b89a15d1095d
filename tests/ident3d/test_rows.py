import numpy as np
import pytest

from ident3d.rows import row_generator, row_latents


@pytest.mark.parametrize("shard_size", [1, 7, 1000])
def test_shard_size_does_not_change_latents(shard_size):
    whole = row_latents(3, "train", np.arange(1500))
    parts = [
        row_latents(3, "train", np.arange(start, min(start + shard_size, 1500)))
        for start in range(0, 1500, shard_size)
    ]
    assert np.array_equal(np.concatenate(parts), whole)


def test_rows_can_be_drawn_alone_and_in_any_order():
    whole = row_latents(0, "test", np.arange(100))
    assert np.array_equal(row_latents(0, "test", [5, 3, 99, 98]), whole[[5, 3, 99, 98]])
    assert row_latents(0, "test", []).shape == (0, 10)


def test_seed_split_and_row_all_matter():
    base = row_latents(0, "train", [0])
    for other in (row_latents(1, "train", [0]), row_latents(0, "test", [0])):
        assert not np.isclose(base, other).any()
    rows = row_latents(0, "train", np.arange(1000))
    assert len(np.unique(rows, axis=0)) == 1000


def test_latents_are_uniform():
    latents = row_latents(0, "train", np.arange(100_000))
    assert np.abs(latents).max() <= 1
    assert np.allclose(latents.mean(0), 0, atol=0.01)
    assert np.allclose(latents.var(0), 1 / 3, atol=0.01)
    assert np.abs(np.corrcoef(latents.T) - np.eye(10)).max() < 0.015


def test_addresses_are_frozen():
    """A change here changes every data set: bump the format version and say so."""
    assert row_latents(0, "train", [0])[0, :3].tolist() == pytest.approx(FROZEN, abs=1e-7)


def test_generators_of_rows_are_independent_and_repeat():
    first, again = (row_generator(0, "train", 7, "pairs").random(4) for _ in range(2))
    assert np.array_equal(first, again)
    assert not np.isclose(first, row_generator(0, "train", 8, "pairs").random(4)).any()
    assert not np.isclose(first, row_generator(0, "train", 7, "other").random(4)).any()


def test_negative_rows_are_refused():
    with pytest.raises(ValueError, match="at least 0"):
        row_latents(0, "train", [-1])


FROZEN = [0.3460988700389862, 0.19319500029087067, 0.37628230452537537]
