import gc
import itertools
import json
import pickle
import subprocess
import sys
import threading
import time

import numpy as np
import psutil
import pytest
import torch
from torchvision import transforms
from torchvision.transforms import v2

from ident3d.augment import EachImage, simclr
from ident3d.conditionals import Normal
from ident3d.loaders import ImageDataset, PairLoader
from ident3d.pairs import Pairs
from ident3d.pairs.epochs import BatchMaker
from tests.support.painted import BATCH, ROWS, make_loader, painted_rows, write_data

# Four workers are more than this machine's cores, which torch warns of.
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A data set on disk, in shards of uneven size, with rendered positives."""
    root = tmp_path_factory.mktemp("painted")
    return write_data(root)


def rows_of(batches):
    return [(batch.anchors.rows.tolist(), batch.positives.rows.tolist()) for batch in batches]


WAYS = [(0, None), (2, "fork"), (4, "fork"), (2, "spawn"), (4, "spawn")]
CASES = [("weighted", *way) for way in WAYS] + [("exact", 0, None), ("exact", 2, "fork")]


@pytest.mark.parametrize(("method", "workers", "start_method"), CASES)
def test_workers_serve_the_right_rows_whatever_their_number(data, method, workers, start_method):
    first = make_loader(data, method, negatives=Normal(0.5))
    loader = make_loader(
        data, method, negatives=Normal(0.5), num_workers=workers, start_method=start_method
    )
    offset = 100_000 if method == "exact" else 0
    for epoch in range(2):
        batches = list(loader)
        assert loader.epoch == epoch
        assert rows_of(batches) == rows_of(first)
        for batch in batches:
            for view, first_row in zip(batch, (0, offset, 0), strict=True):
                assert view.images.dtype == torch.uint8
                assert view.images.shape == (BATCH, 3, 8, 8)
                torch.testing.assert_close(painted_rows(view.images), view.rows + first_row)
            for view in (batch.anchors, batch.negatives):
                torch.testing.assert_close(view.latents, torch.from_numpy(data.latents)[view.rows])


def test_an_epoch_visits_each_row_once_in_its_own_order(data):
    loader = make_loader(data)
    epochs = [[batch.anchors.rows for batch in loader] for _ in range(2)]
    for epoch in epochs:
        assert len(epoch) == len(loader) == ROWS // BATCH
        assert len(torch.cat(epoch).unique()) == len(loader) * BATCH
    assert (epochs[0][0] != epochs[1][0]).any()


def test_streams_differ_between_batches_workers_epochs_ranks_and_seeds(data, monkeypatch):
    """With one anchor for all, only the random streams tell the batches apart."""
    monkeypatch.setattr(BatchMaker, "_permutation", lambda self, _: np.zeros(ROWS, np.int64))

    def streams(seed, rank):
        pairs = Pairs(data, Normal(1.0), seed, method="nearest")
        loader = PairLoader(pairs, BATCH, num_workers=2, rank=rank, world_size=2)
        return [tuple(batch.positives.rows.tolist()) for _ in range(2) for batch in loader]

    found = streams(0, 0) + streams(0, 1) + streams(1, 0)
    assert len(set(found)) == len(found) == 6 * (ROWS // (2 * BATCH))
    assert streams(1, 0) == found[-len(found) // 3 :]


def test_two_ranks_share_an_epoch(data):
    ranks = [make_loader(data, rank=rank, world_size=2, num_workers=rank * 2) for rank in (0, 1)]
    seen = [torch.cat([batch.anchors.rows for batch in loader]) for loader in ranks]
    assert len(seen[0]) == len(seen[1]) == ROWS // (2 * BATCH) * BATCH
    assert len(torch.cat(seen).unique()) == 2 * len(seen[0])
    # Together, batch by batch, they are what one process with twice the batch would read.
    whole = PairLoader(ranks[0].pairs, 2 * BATCH)
    for one, two, both in zip(*(s.split(BATCH) for s in seen), whole, strict=True):
        torch.testing.assert_close(torch.cat([one, two]), both.anchors.rows)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("stop", [1, 7, ROWS // BATCH])
def test_resuming_continues_with_the_identical_next_batch(data, workers, stop):
    whole = make_loader(data, num_workers=workers)
    expected = rows_of(itertools.chain(whole, whole))
    loader = make_loader(data, num_workers=workers)
    before = rows_of(itertools.islice(iter(loader), stop))
    state = json.loads(json.dumps(loader.state_dict()))
    restored = make_loader(data, num_workers=2 - workers)
    restored.load_state_dict(state)
    after = rows_of(itertools.islice(itertools.chain(restored, restored), 12))
    assert before + after == expected[: stop + 12]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loop_left_early_is_continued(data, workers):
    loader = make_loader(data, num_workers=workers)
    for _ in loader:
        break
    rest = rows_of(loader)
    assert rest == rows_of(make_loader(data))[1:]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("step", [0, 5, ROWS // BATCH - 1, ROWS // BATCH, 40])
def test_forever_goes_on_from_any_step(data, workers, step):
    whole = make_loader(data)
    expected = rows_of(itertools.chain(whole, whole, whole))
    loader = make_loader(data, num_workers=workers)
    loader.seek(step)
    steps = loader.forever()
    found = rows_of(itertools.islice(steps, 12))
    assert found == expected[step : step + 12]
    assert loader.epoch == (step + 11) // len(loader)
    restored = make_loader(data)
    restored.load_state_dict(loader.state_dict())
    assert rows_of(itertools.islice(restored.forever(), 1)) == [expected[step + 12]]
    with pytest.raises(ValueError, match="`step` must be at least 0"):
        loader.seek(-1)


def test_the_next_batch_is_read_while_one_is_in_use(data, monkeypatch):
    read = {step: threading.Event() for step in range(4)}
    make = BatchMaker.__call__

    def spied(self, step, allocate):
        batch = make(self, step, allocate)
        read[step].set()
        assert threading.current_thread() is not threading.main_thread()
        return batch

    monkeypatch.setattr(BatchMaker, "__call__", spied)
    batches = iter(make_loader(data))
    next(batches)
    assert read[1].wait(30)
    assert not read[2].wait(0.1)


def test_an_error_in_the_thread_reaches_the_loop_which_can_go_on(data, monkeypatch):
    expected = rows_of(make_loader(data))
    make, failing = BatchMaker.__call__, [2]

    def broken(self, step, allocate):
        if step in failing:
            raise OSError(f"step {failing.pop()}")
        return make(self, step, allocate)

    monkeypatch.setattr(BatchMaker, "__call__", broken)
    loader, found = make_loader(data), []
    with pytest.raises(OSError, match="step 2"):
        for batch in loader:
            found += rows_of([batch])
    assert len(found) == 2 and found + rows_of(loader) == expected


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_leaves_nothing_behind(data, workers):
    gc.collect()  # what earlier tests left in their tracebacks
    threads, children = set(threading.enumerate()), len(psutil.Process().children())
    loader = make_loader(data, num_workers=workers)
    next(loader.forever())
    del loader
    for _ in range(500):  # threads of closed queues end by themselves, on a busy machine later
        if set(threading.enumerate()) <= threads:  # of which those of earlier tests may end, too
            break
        time.sleep(0.02)
    assert set(threading.enumerate()) <= threads
    assert len(psutil.Process().children()) == children


def test_epochs_have_the_same_anchors_whatever_the_method(data):
    loaders = [
        PairLoader(Pairs(data, text, 0, method=method, candidates="all"), BATCH)
        for method, text in [("exact", None), ("weighted", "normal:0.1"), ("augmented", None)]
    ]
    for batches in zip(*loaders, strict=True):
        for batch in batches[1:]:
            assert torch.equal(batch.anchors.rows, batches[0].anchors.rows)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"seed": 3}, "with seed 3"),
        ({"batch_size": 4}, "batch_size 4"),
        ({"data": "other"}, "data 'other'"),
        ({"batch": 999}, "names no batch"),
        ({"epoch": "x"}, "names no batch"),
    ],
)
def test_a_foreign_state_is_refused(data, change, match):
    loader = make_loader(data)
    with pytest.raises(ValueError, match=match):
        loader.load_state_dict(loader.state_dict() | change)
    with pytest.raises(ValueError, match="with seed None"):
        loader.load_state_dict({})


def test_transforms_draw_for_each_image_and_repeat(data, monkeypatch):
    def noise(images):
        return images.float() + torch.rand(len(images), 1, 1, 1)

    first, again = (next(iter(make_loader(data, transform=noise))) for _ in range(2))
    torch.testing.assert_close(first.anchors.images, again.anchors.images, rtol=0, atol=0)
    added = first.anchors.images[:, 0, 4, 4] - 200
    assert len(added.unique()) == BATCH
    assert (added != first.positives.images[:, 0, 4, 4] - 200).all()
    state = torch.get_rng_state()
    next(iter(make_loader(data, transform=noise)))
    assert torch.equal(torch.get_rng_state(), state)  # the user's own stream is left alone
    cards = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", cards.append)
    next(iter(make_loader(data, transform=noise)))
    assert not cards  # nor are those of cards that the loader does not use


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"rank": 0}, "together"),
        ({"rank": 2, "world_size": 2}, "`rank` must be between 0 and 1"),
        ({"num_workers": -1}, "`num_workers` must be at least 0"),
        ({"rank": 0, "world_size": 30}, "`batch_size` must be between 1 and 10"),
    ],
)
def test_bad_arguments(data, settings, match):
    with pytest.raises(ValueError, match=match):
        make_loader(data, **settings)


def test_data_without_a_conditional_is_no_pairs(data):
    with pytest.raises(TypeError, match=r"must be what `ident3d\.Pairs\(.*gives, got Dataset"):
        PairLoader(data, 8)


def test_image_dataset_with_torchs_own_loader(data):
    dataset = ImageDataset(data)
    image, target = dataset[7]
    assert image.shape == (3, 8, 8)
    assert painted_rows(image[None]).item() == 7
    torch.testing.assert_close(target, torch.from_numpy(data.latents[7]))
    loader = torch.utils.data.DataLoader(dataset, batch_size=64, shuffle=True, num_workers=2)
    seen = []
    for images, latents in loader:
        rows = painted_rows(images)
        torch.testing.assert_close(latents, torch.from_numpy(data.latents)[rows])
        seen.append(rows)
    assert sorted(torch.cat(seen).tolist()) == list(range(ROWS))


def crops_differ(images):
    """Whether images of one colour ramp were cropped at different places."""
    return len(torch.unique(images[:, 0, 0, 0])) > 1


RANDOM = {
    "v2": v2.RandomCrop(4),
    "v2 in a Compose": v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.RandomCrop(4)]),
    "classic": transforms.RandomCrop(4),
    "classic with ToTensor": transforms.Compose(
        [transforms.RandomCrop(4), transforms.ToTensor(), transforms.Normalize([0.5], [0.5])]
    ),
    "in a Sequential": torch.nn.Sequential(transforms.RandomCrop(4), torch.nn.Identity()),
    "in a RandomApply": transforms.RandomApply([transforms.RandomCrop(4)], p=1.0),
}


@pytest.mark.parametrize("name", RANDOM)
def test_torchvisions_random_transforms_draw_for_each_image(data, monkeypatch, name):
    ramp = np.broadcast_to(np.arange(64, dtype=np.uint8).reshape(1, 8, 8, 1), (BATCH, 8, 8, 3))
    gather = Pairs.gather

    def ramps(self, rows, _):
        return gather(self, rows).map(lambda view: view._replace(images=ramp.copy()))

    monkeypatch.setattr(Pairs, "gather", ramps)
    first, again = (next(iter(make_loader(data, transform=RANDOM[name]))) for _ in range(2))
    assert first.anchors.images.shape == (BATCH, 3, 4, 4)
    assert crops_differ(first.anchors.images)
    torch.testing.assert_close(first.positives.images, again.positives.images, rtol=0, atol=0)


def test_transforms_that_do_not_draw_get_the_whole_batch(data):
    seen = []

    class Seen(torch.nn.Module):
        def forward(self, images):
            seen.append(images.shape)
            return images

    fixed = v2.Compose([Seen(), v2.Resize(4), v2.ToDtype(torch.float32), v2.Normalize([0], [1])])
    for transform in (fixed, torch.nn.Sequential(Seen(), simclr(8)), EachImage(v2.RandomCrop(4))):
        next(iter(make_loader(data, transform=transform)))
    assert seen == [(BATCH, 3, 8, 8)] * 4


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_in_use_can_be_pickled(data, workers):
    loader = make_loader(data, num_workers=workers)
    next(iter(loader))
    again = pickle.loads(pickle.dumps(loader))
    assert rows_of(again) == rows_of(loader)


def test_image_dataset_takes_a_path(data):
    for path in (data.path, str(data.path)):
        image, _ = ImageDataset(path)[9]
        assert painted_rows(image[None]).item() == 9


@pytest.mark.parametrize(
    "transform",
    [
        transforms.Compose([transforms.RandomHorizontalFlip(0), transforms.ToTensor()]),
        v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]),
        v2.ToDtype(torch.float32, scale=True),
        transforms.ConvertImageDtype(torch.float32),
    ],
)
def test_image_dataset_with_transforms_of_both_generations(data, transform):
    images, _ = next(iter(torch.utils.data.DataLoader(ImageDataset(data, transform), 5)))
    assert images.dtype == torch.float32
    assert painted_rows((images * 255).round()).tolist() == list(range(5))


def test_image_dataset_transforms_and_repr(data):
    dataset = ImageDataset(data, v2.ToDtype(torch.float32, scale=True), lambda latents: latents[:2])
    image, target = dataset[0]
    assert image.max() == pytest.approx(200 / 255)
    assert target.shape == (2,)
    text = repr(dataset)
    assert "Number of datapoints: 300" in text
    assert "Transform: ToDtype" in text
    with pytest.raises(IndexError):
        dataset[ROWS]


SCRIPT = """
import sys, torch, ident3d
from ident3d.loaders import PairLoader
data = ident3d.load(sys.argv[1])
loader = PairLoader(ident3d.Pairs(data, ident3d.Normal(0.1), 0), 16)
assert len(loader) == 18  # asked for too early, as of a schedule: it must not fix the rank
torch.distributed.init_process_group("gloo")  # after the loader was made, before its first use
mine = torch.cat([batch.anchors.rows for batch in loader])
both = [torch.empty_like(mine) for _ in range(2)]
torch.distributed.all_gather(both, mine)
if loader.rank == 0:
    print("served", len(torch.cat(both)), "different", len(torch.cat(both).unique()))
torch.distributed.destroy_process_group()
"""


def test_torchrun_ranks_are_found(data, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    result = subprocess.run(
        [*command, str(script), str(data.path)], capture_output=True, text=True, timeout=300
    )
    # Two ranks that both took themselves for the first would serve every row twice.
    assert "served 288 different 288" in result.stdout, result.stderr
