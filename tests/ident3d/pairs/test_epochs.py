"""Batches without torch: the same as `PairLoader`'s, resumable."""

import itertools
import json
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

from ident3d.conditionals import Normal
from ident3d.loaders import PairLoader
from ident3d.pairs import Batch, Pairs
from ident3d.pairs.epochs import read_ahead
from tests.faults.injecting import in_child
from tests.support.helpers import make_dataset, painted_row


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_dataset(tmp_path_factory.mktemp("data"), rows=100, shard_size=40)


def pairs_of(data, negatives=None):
    return Pairs(data, Normal(0.2), seed=4, method="nearest", negatives=negatives)


@pytest.mark.parametrize("negatives", [None, Normal(0.6)])
@pytest.mark.parametrize("place", [{}, {"rank": 1, "world_size": 3}])
def test_they_are_the_batches_of_the_loader(data, negatives, place):
    pairs = pairs_of(data, negatives)
    epochs, loader = pairs.epochs(8, **place), PairLoader(pairs, 8, **place)
    assert len(epochs) == len(loader)
    for epoch in range(2):
        for ours, theirs in zip(epochs, loader, strict=True):
            assert len(ours) == len(theirs) == (2 if negatives is None else 3)
            for mine, tensors in zip(ours, theirs, strict=True):
                np.testing.assert_array_equal(mine.rows, tensors.rows)
                np.testing.assert_array_equal(mine.latents, tensors.latents)
                np.testing.assert_array_equal(mine.images, tensors.images.permute(0, 2, 3, 1))
                np.testing.assert_array_equal(painted_row(mine.images), mine.rows)
        assert epochs.epoch == loader.epoch == epoch


def test_two_names_without_negatives_and_three_with(data):
    for anchors, positives in pairs_of(data).epochs(8):
        assert anchors.images.shape == positives.images.shape == (8, 8, 8, 3)
    for batch in pairs_of(data, Normal(0.6)).epochs(8):
        anchors, positives, negatives = batch
        assert batch.anchors is anchors
        assert batch.positives is positives
        assert batch.negatives is negatives
    assert pairs_of(data).batch(3).negatives is None


def test_batches_are_rebuilt_as_torch_and_pickle_do(data):
    for negatives in (None, Normal(0.6)):
        batch = pairs_of(data, negatives).batch(5)
        again = pickle.loads(pickle.dumps(batch))
        assert type(again) is Batch
        np.testing.assert_array_equal(again.positives.images, batch.positives.images)
        assert type(batch)(*batch) == batch
        assert list(batch._asdict()) == list(batch._fields)


def test_short_reprs(data):
    batch = pairs_of(data, Normal(0.6)).batch(5)
    text = "5 anchors, 5 positives, 5 negatives: images uint8 8 x 8 x 3"
    assert repr(batch) == f"Batch({text})"
    assert repr(batch.anchors) == "View(5 rows: images uint8 8 x 8 x 3)"
    tensors = next(iter(PairLoader(pairs_of(data), 5)))
    assert repr(tensors) == "TensorBatch(5 anchors, 5 positives: images uint8 3 x 8 x 8)"


@pytest.mark.parametrize("stop", [1, 5, 12])
def test_a_state_moves_between_epochs_and_loader(data, stop):
    whole = pairs_of(data).epochs(8)
    expected = [b.anchors.rows.tolist() for b in itertools.chain(whole, whole)]
    epochs = pairs_of(data).epochs(8)
    for _ in itertools.islice(epochs, stop):
        pass
    state = json.loads(json.dumps(epochs.state_dict()))
    for restored in (pairs_of(data).epochs(8), PairLoader(pairs_of(data), 8)):
        restored.load_state_dict(state)
        after = [b.anchors.rows.tolist() for b in itertools.islice(restored.forever(), 3)]
        assert after == expected[stop : stop + 3]


def test_a_fork_goes_on_after_a_look_at_the_first_batches(data):
    epochs = pairs_of(data).epochs(8)
    expected = [batch.anchors.rows.tolist() for batch in pairs_of(data).epochs(8)]
    next(iter(epochs))

    def work():
        assert [batch.anchors.rows.tolist() for batch in epochs] == expected[1:]

    assert in_child(work) == (0, "")
    assert [batch.anchors.rows.tolist() for batch in epochs] == expected[1:]


def test_a_stream_may_be_closed_in_the_thread_that_feeds_it():
    asked, closed = threading.Event(), threading.Event()

    def make(step):
        if step == 1:
            asked.wait(10)
            stream.close()  # as the collection of garbage does
            closed.set()
        return step

    stream = read_ahead(make, 0)
    assert next(stream) == 0
    asked.set()
    assert closed.wait(10)


def test_rows_may_be_written_over(data):
    epochs = pairs_of(data).epochs(8)
    first = next(iter(epochs)).anchors.rows
    expected = first.copy()
    first[:] = 1_000
    epochs.seek(0)
    np.testing.assert_array_equal(next(iter(epochs)).anchors.rows, expected)


def test_a_state_is_json(data):
    epochs = pairs_of(data).epochs(np.int64(8))
    epochs.seek(np.int64(3))
    epochs.load_state_dict(json.loads(json.dumps(epochs.state_dict())))
    with pytest.raises(ValueError, match="`step` must be a whole number"):
        epochs.seek(2.9)


def test_bad_arguments(data):
    with pytest.raises(ValueError, match="`rank` must be between 0 and 1"):
        pairs_of(data).epochs(8, rank=2, world_size=2)
    with pytest.raises(ValueError, match="`batch_size` must be between 1 and 100"):
        pairs_of(data).epochs(101)


def test_torch_is_not_imported(data):
    code = f"""if True:
        import sys, ident3d
        pairs = ident3d.Pairs(ident3d.load({str(data.path)!r}), "normal:0.2", seed=0)
        assert sum(1 for anchors, positives in pairs.epochs(8)) == 12
        assert "torch" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", code], check=True)
