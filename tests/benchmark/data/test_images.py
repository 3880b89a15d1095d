import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch
from ident3d.benchmark.data.images import Splits
from ident3d.benchmark.encoders.theory import true_diagonal
from ident3d.benchmark.experiments import EXPERIMENTS
from ident3d.benchmark.results import load_all
from ident3d.benchmark.training import image_run
from ident3d.benchmark.training.cost import plan

from ident3d.cli import main
from ident3d.conditionals import parse
from ident3d.errors import DataError
from tests.support.blobs import make_blobs

TABLE = [e for e in EXPERIMENTS.values() if e.id.startswith("table4/")]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("blobs")
    make_blobs(root, "train", 400, "normal:0.2")
    make_blobs(root, "train-laplace", 400, "laplace:0.2")
    make_blobs(root, "test", 300)
    return root


def settings(row, data, **changes):
    words = {name: str(value) for name, value in changes.items()}
    return EXPERIMENTS[f"table4/{row}"].tiers["tiny"].read({"data": str(data), **words})


def batch_of(served, seed=3, step=4):
    return next(served.batches(seed, torch.device("cpu"))(step))


def test_rows_and_published_numbers():
    assert {f"table4/{k}" for k in (1, 2, 3, 4, 5, "supervised", "identity", "random")} <= {
        e.id for e in TABLE
    }
    first = EXPERIMENTS["table4/1"]
    assert first.published["r2"][0] == pytest.approx(0.9673)
    assert first.published["mcc_train"][0] == pytest.approx(0.9885)
    paper = first.tiers["paper"]
    training = paper.training
    assert (training.batch, training.steps, training.lr) == (512, 200_000, 1e-4)
    assert training.norm_rows == 512  # anchors and positives pass batch-norm apart
    assert paper.model.encoder == "resnet18"
    assert paper.data.conditionals == ("normal:0.1",) and paper.data.pairs == "nearest"
    assert {"paper", "small"} <= set.intersection(*(set(e.tiers) for e in TABLE))


def images_of(split):
    """Every image of a split, rendered positives included, by its latents."""
    parts = [split, split.pairs] if split.pairs else [split]
    return {
        latents[:3].tobytes(): image
        for part in parts
        for latents, image in zip(part.latents, part.images[:], strict=True)
    }


@pytest.mark.parametrize("pairs", ["exact", "nearest", "weighted"])
def test_pairs_show_the_images_of_their_latents(data, pairs):
    served = Splits(settings(1, data, pairs=pairs, batch=50))
    batch = batch_of(served)
    known = images_of(served.train[0])
    for image, latents in zip(torch.cat(batch.views), batch.latents.numpy(), strict=True):
        assert np.array_equal(image.permute(1, 2, 0), known[latents.tobytes()])
    anchors, positives = batch.latents.split(50)
    distance = (anchors - positives).norm(dim=1)
    assert (distance > 0).all() and distance.mean() < 0.6
    again = batch_of(Splits(settings(1, data, pairs=pairs, batch=50)))
    assert torch.equal(batch.views[1], again.views[1])
    assert not torch.equal(batch.views[0], batch_of(served, step=5).views[0])


def test_ways_of_pairing_differ_in_the_positive_alone(data):
    ways = ("exact", "nearest", "weighted", "augmented")
    found = {way: batch_of(Splits(settings(1, data, pairs=way, batch=50)), step=9) for way in ways}
    anchors = {way: batch.latents[:50] for way, batch in found.items()}
    assert all(torch.equal(anchors[way], anchors["exact"]) for way in ways)
    positives = {way: batch.latents[50:].numpy().tobytes() for way, batch in found.items()}
    assert len(set(positives.values())) == 4
    one, other = found["augmented"].views  # two augmentations of the same images
    assert torch.equal(*found["augmented"].latents.split(50))
    assert one.dtype == torch.float32 and one.min() >= 0 and one.max() <= 1
    assert not torch.equal(one, other)
    again = batch_of(Splits(settings(1, data, pairs="augmented", batch=50)), step=9)
    assert torch.equal(again.views[1], other)


@pytest.mark.parametrize("pairs", ["exact", "nearest"])
def test_hard_negatives_are_near_and_never_a_pair_of_their_anchor(data, pairs):
    wanted = settings("hard-negatives", data, hard_count=3, batch=60, pairs=pairs)
    random = []
    for step in range(4):
        batch = batch_of(Splits(wanted), step=step)
        anchors, positives, hard = batch.latents.split([60, 60, 180])
        hard = hard.unflatten(0, (60, 3))
        for pair in (anchors, positives):
            assert not (hard == pair[:, None]).all(-1).any()
        gap = (hard - anchors[:, None]).norm(dim=-1).mean()
        random.append(gap / (hard - anchors.flip(0)[:, None]).norm(dim=-1).mean())
    assert np.mean(random) < 0.8


def test_batches_go_on_from_any_step(data):
    source = Splits(settings(1, data, batch=120)).batches(1, torch.device("cpu"))  # 3 an epoch
    whole = source(0)
    views = [next(whole).views for _ in range(8)]
    for first in (2, 5, 7):
        later = Splits(settings(1, data, batch=120)).batches(1, torch.device("cpu"))(first)
        for step in range(first, 8):
            assert all(map(torch.equal, next(later).views, views[step]))
    again = source(1)  # the same one, begun anew
    assert torch.equal(next(again).views[0], views[1][0])


def test_processes_have_anchors_of_their_own(data):
    changes = {"splits": "train;train", "conditionals": "normal:0.2;normal:0.2", "batch": 50}
    batch = batch_of(Splits(settings(1, data, **changes)))
    assert len(batch.views) == 4
    assert not torch.equal(batch.views[0], batch.views[2])


def test_a_number_of_rows_trains_on_the_first_ones_alone(data):
    few = Splits(settings(1, data, rows=50, batch=50))
    batch = batch_of(few)
    anchors, positives = (part.numpy() for part in batch.latents.split(50))
    split, columns = few.train[0], few.columns
    wanted = (split.latents[:50, columns], split.pairs.latents[:50, columns])
    for found, known in zip((anchors, positives), wanted, strict=True):
        assert sorted(map(tuple, found)) == sorted(map(tuple, known))
    with pytest.raises(ValueError, match="`rows` must be at most 400"):
        Splits(settings(1, data, rows=401))
    with pytest.raises(ValueError, match="`batch` must be at most 50"):
        Splits(settings(1, data, rows=50, batch=51))


def test_other_data_is_refused(data):
    with pytest.raises(DataError, match=r"drawn from normal:0.2, not from normal:0.4"):
        Splits(settings(1, data, conditionals="normal:0.4"))
    with pytest.raises(DataError, match="no rendered positives"):
        Splits(settings(1, data, splits="test"))
    with pytest.raises(ValueError, match=r"which are 3 \(x, y, z\); got 10"):
        Splits(settings(1, data, dim=10))
    with pytest.raises(
        ValueError, match="`batch` must be at most 400, the rows to train on; got 401"
    ):
        Splits(settings(1, data, batch=401))
    with pytest.raises(ValueError, match="`splits` must name a split for each of the 2"):
        Splits(settings(1, data, conditionals="normal:0.2;normal:0.3"))


def test_concentrations_and_their_order():
    names = ["x", "alpha", "object_hue"]
    mixed = parse("position=normal:0.5,object_hue=normal:1,others=normal:0.1")
    assert true_diagonal(mixed, names) == pytest.approx([2, 50, 0.5])
    assert true_diagonal(parse("laplace:0.1"), names) is None


def test_plan_tells_the_cost(data, tmp_path, capsys):
    found = plan(settings(1, data), "tiny")
    assert "400 rows of 16 px" in found and "2,000, each 128 pairs (256 images)" in found
    for word in ("memory", "disk", "time"):
        assert word in found
    none = settings(1, tmp_path / "none", device="cpu", encoder="compact", micro_batch=32)
    assert "not there yet; taken as 250,000 rows of 224 px" in plan(none, "paper")
    assert "not there yet; taken as 25,000 rows of 64 px" in plan(none, "medium")
    assert "taken as 100 rows of 64 px" in plan(none.with_(rows=100), "medium")
    assert "100 rows of 16 px" in plan(settings(1, data, rows=100), "tiny")
    main(["benchmark", "run", "table4/1", "--tier", "tiny", "--data", str(data), "--dry-run"])
    assert "steps: 2,000" in capsys.readouterr().out
    with pytest.raises(ValueError, match="`micro_batch` must be a multiple of `norm_rows`"):
        plan(settings(1, data, encoder="resnet18", micro_batch=32), "tiny")


def test_without_a_tier_the_smallest_whose_data_is_there_is_run(data, tmp_path, capsys):
    run = ["benchmark", "run", "table4/identity", "--dry-run", "--out", str(tmp_path), "--data"]
    main([*run, str(data)])
    assert "Tier tiny: Images of 64 px, position alone" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main([*run, str(tmp_path / "none")])
    said = capsys.readouterr().err
    assert "no data for its tier tiny" in said and "none/train does not exist" in said
    assert said.count("\n") == 1
    command = "ident3d render DATA --split train --size 1000 --pairs normal:0.2 --factors position"
    assert command in said
    with pytest.raises(SystemExit):
        main(
            [
                *(word for word in run if word != "--dry-run"),
                str(tmp_path / "none"),
                "--tier",
                "tiny",
            ]
        )
    said = capsys.readouterr().err
    assert "none/train does not exist" in said and command in said
    with pytest.raises(SystemExit):
        main(["benchmark", "run", "table4/1", "--data", str(data), "--set", "batch=500"])
    assert "`batch` must be at most 400" in capsys.readouterr().err


@pytest.mark.slow
def test_box_beats_the_untrained_and_every_record_is_written(data, tmp_path):
    out = tmp_path / "results"
    arguments = ["--tier", "tiny", "--data", str(data), "--out", str(out), "--set", "steps=300"]
    ids = ["table4/1", "table4/random", "table4/identity"]
    main(["benchmark", "run", *ids, *arguments])
    found = {(r.experiment, r.protocol): r for r in load_all(out)}
    assert len(found) == 6
    box, random = found["table4/1", "held-out"], found["table4/random", "held-out"]
    assert box.scores["r2"] > 0.85 and box.scores["mcc"] > 0.8
    assert box.scores["r2"] > random.scores["r2"] + 0.3
    assert box.scores["r2_train"] is not None and box.curves["step"][-1] == 300
    assert np.load(out / f"{box.id}.npy").shape == (300, 3)
    main(["benchmark", "pack", str(out / f"{box.id}.json"), "--out", str(tmp_path / "entry")])
    main(["benchmark", "verify", str(tmp_path / "entry"), "--data", str(data / "test")])


def test_a_run_is_done_for_its_data_wherever_that_lies(data, tmp_path, capsys):
    first, moved = tmp_path / "first", tmp_path / "moved"
    run = ["benchmark", "run", "table4/identity", "--tier", "tiny", "--out", str(tmp_path / "r")]
    shutil.copytree(data, first)
    main([*run, "--data", str(first)])
    shutil.move(first, moved)
    capsys.readouterr()
    main([*run, "--data", str(moved)])
    assert "0 runs to do, 1 already" in capsys.readouterr().out
    make_blobs(first, "train", 120, "normal:0.2")  # other images under the old name
    make_blobs(first, "test", 60)
    main([*run, "--data", str(first)])
    assert "1 runs to do, 0 already" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("row", ["2", "3", "4", "5", "supervised", "pairs/weighted"])
def test_every_row_trains(data, row):
    _, clean = image_run.run(settings(row, data, steps=3, batch=32, evaluations=1), 0, None, row)
    assert np.isfinite(clean["scores"]["r2"]) and clean["embeddings"].shape == (300, 3)


@pytest.mark.slow
def test_aninfonce_knows_its_metric(data):
    changes = {"steps": 3, "batch": 32, "conditionals": "normal:0.2", "similarity": "metric"}
    _, clean = image_run.run(settings(1, data, **changes, size=2.0), 0, None, "metric")
    assert len(clean["metric"]) == 3
    assert clean["metric_true"] == pytest.approx([12.5] * 3)


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_same_scores(data, tmp_path):
    common = ["benchmark", "run", "table4/1", "--tier", "tiny", "--data", str(data)]
    common += ["--set", "steps=12", "--set", "batch=32", "--set", "checkpoint_seconds=0"]
    main([*common, "--out", str(tmp_path / "whole")])
    script = (
        "import os, signal, sys\n"
        "from ident3d.benchmark.data import images\n"
        "from ident3d.cli import main\n"
        "batches = images.Splits.batches\n"
        "def dying(self, *arguments):\n"
        "    def source(first):\n"
        "        for step, batch in enumerate(batches(self, *arguments)(first), first):\n"
        "            if step == 7: os.kill(os.getpid(), signal.SIGKILL)\n"
        "            yield batch\n"
        "    return source\n"
        "images.Splits.batches = dying\n"
        "main(sys.argv[1:])\n"
    )
    cut = [*common, "--out", str(tmp_path / "cut")]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", script, *cut], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    main(cut)
    one, two = (
        next(r for r in load_all(tmp_path / name) if r.protocol == "held-out")
        for name in ("whole", "cut")
    )
    assert one.scores["r2"] == pytest.approx(two.scores["r2"], abs=1e-5)  # rounding may differ
    assert one.curves["loss"] == pytest.approx(two.curves["loss"], abs=1e-5)
