import itertools
import pickle

import pytest
import torch

from ident3d.augment import to_float
from ident3d.conditionals import Normal
from ident3d.dataset import load
from ident3d.loaders import PairLoader, as_tensor
from ident3d.pairs import Pairs, buffers
from ident3d.shards.reader import Images
from tests.support.painted import BATCH, ROWS, make_loader, painted_rows, write_data


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("painted"))


def checked(views):
    """Whether images are still those of their rows."""
    return all(torch.equal(painted_rows(images), rows) for images, rows in views)


def as_tensors(view):
    return view._replace(rows=torch.from_numpy(view.rows), images=as_tensor(view.images))


def looped(data, kind, **settings):
    """Endless batches of a loader, or of `Pairs.epochs` as tensors."""
    if kind == "loader":
        return make_loader(data, **settings).forever()
    epochs = Pairs(data, Normal(0.1), 0, method="nearest").epochs(BATCH).forever()
    return (batch.map(as_tensors) for batch in epochs)


KINDS = [("loader", {}), ("loader", {"num_workers": 2}), ("epochs", {})]


@pytest.mark.parametrize(("kind", "settings"), KINDS)
@pytest.mark.parametrize("memory", [False, True])
def test_what_is_kept_of_a_batch_never_changes(data, kind, settings, memory):
    """Some batches kept whole, some in part, the others dropped: their memory is used again."""
    data = load(data.path).to_memory() if memory else data
    kept, copies = [], []
    for step, batch in enumerate(itertools.islice(looped(data, kind, **settings), 3 * 18)):
        anchors, positives = batch
        if step % 3 == 0:
            kept += [(anchors.images, anchors.rows)]
        if step % 3 == 1:
            kept += [(positives.images[5:6], positives.rows[5:6])]
            copies.append(pickle.loads(pickle.dumps(batch)))
        assert checked([(view.images, view.rows) for view in batch])
        assert checked(kept[-8:])
        del anchors, positives
    assert checked(kept)
    assert checked([(view.images, view.rows) for batch in copies for view in batch])


@pytest.mark.parametrize("kind", ["loader", "epochs"])
def test_an_ordinary_loop_uses_the_memory_of_three_batches(data, kind, monkeypatch):
    made = count_fresh(monkeypatch)
    batches = looped(data, kind)
    for batch in itertools.islice(batches, 60):
        assert len(batch) == 2
    assert len(made) <= 6  # one in use, one read, one being read; two views each
    held = list(itertools.islice(batches, 20))
    assert len(made) > 40 - 6
    del held, batch
    made.clear()
    for batch in itertools.islice(batches, 60):
        assert len(batch) == 2
    assert len(made) <= 6


def count_fresh(monkeypatch):
    made, fresh = [], buffers.fresh
    monkeypatch.setattr(buffers, "fresh", lambda shape: made.append(shape) or fresh(shape))
    return made


def test_a_read_that_fails_leaves_other_batches_alone(data, monkeypatch):
    made, read, failing = count_fresh(monkeypatch), Images.read_into, [9, 21, 30]
    calls = itertools.count()

    def broken(self, rows, out):
        read(self, rows, out)
        if next(calls) in failing:
            out[...] = 0
            raise OSError("gone")

    monkeypatch.setattr(Images, "read_into", broken)
    loader, kept, failed = make_loader(data), [], 0
    while loader.epoch < 2:
        try:
            for anchors, _ in loader:
                kept.append((anchors.images[:1], anchors.rows[:1]))
                del kept[:-4]
                assert checked([*kept, (anchors.images, anchors.rows)])
        except OSError:
            failed += 1
    assert failed == len(failing)
    assert len(made) <= (failed + 1) * (6 + 4)


def test_a_gpu_gets_pinned_memory_that_is_read_into_directly(data, monkeypatch):
    """On a stand-in: pinned memory is memory that is noted down, and the device stays the CPU."""
    pinned, empty = set(), torch.empty

    def noted(*shape, pin_memory=False, **settings):
        made = empty(*shape, **settings)
        if pin_memory:
            pinned.add(made.data_ptr())
        return made

    def pin(tensor):
        if tensor.data_ptr() in pinned:
            return tensor
        return noted(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor)

    copied = []
    monkeypatch.setattr(torch, "empty", noted)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda part: copied.append(part) or pin(part))
    monkeypatch.setattr(PairLoader, "_move", lambda self, part: part)
    made = count_fresh(monkeypatch)
    for batch in make_loader(data, device="cuda"):
        for view in batch:
            assert all(part.data_ptr() in pinned for part in view)
            assert checked([(view.images, view.rows)])
            torch.testing.assert_close(view.latents, torch.from_numpy(data.latents)[view.rows])
    assert not made
    assert all(part.data_ptr() in pinned for part in copied if part.ndim == 4)


def test_batches_are_channels_last_and_stay_so_as_floats(data):
    for memory in (data, load(data.path).to_memory()):
        batch = next(iter(make_loader(memory)))
        for images in (batch.anchors.images, to_float(batch.positives.images)):
            assert images.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("memory", [False, True])
@pytest.mark.parametrize("method", ["exact", "nearest"])
def test_all_images_are_read_in_their_order(data, method, memory):
    data = load(data.path).to_memory() if memory else data
    pairs = Pairs(data, Normal(0.1), 0, method=method, candidates="all", negatives=Normal(0.5))
    late = 0
    for batch in PairLoader(pairs, BATCH):
        for view in batch:
            shift = torch.where(view.rows < ROWS, 0, 100_000 - ROWS)
            assert checked([(view.images, view.rows + shift)])
            late += int((view.rows >= ROWS).sum())
    assert late > 100
