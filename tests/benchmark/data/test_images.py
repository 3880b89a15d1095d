import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch
from ident3d.benchmark.data.images import ImageData, Joined
from ident3d.benchmark.encoders.image_encoders import Components, Pixels, image_encoder
from ident3d.benchmark.experiments import EXPERIMENTS
from ident3d.benchmark.results import load_all
from ident3d.benchmark.results.records import matched
from ident3d.benchmark.settings.image_settings import diagonal
from ident3d.benchmark.training import image_run
from ident3d.benchmark.training.image_plan import plan

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
    return EXPERIMENTS[f"table4/{row}"].settings("tiny", {"data": str(data), **words})


def test_rows_and_published_numbers():
    assert {f"table4/{k}" for k in (1, 2, 3, 4, 5, "supervised", "identity", "random")} <= {
        e.id for e in TABLE
    }
    first = EXPERIMENTS["table4/1"]
    assert first.published["r2"][0] == pytest.approx(0.9673)
    assert first.published["mcc_train"][0] == pytest.approx(0.9885)
    paper = first.tiers["paper"]
    assert (paper.batch, paper.steps, paper.lr, paper.encoder) == (512, 200_000, 1e-4, "resnet18")
    assert paper.conditionals == ("normal:0.1",) and paper.pairs == "nearest"
    assert {"paper", "small"} <= set.intersection(*(set(e.tiers) for e in TABLE))


@pytest.mark.parametrize("pairs", ["exact", "nearest", "weighted", "augmented"])
def test_pairs_show_the_images_of_their_latents(data, pairs):
    served = ImageData(settings(1, data, pairs=pairs, batch=50))
    batch = served.draw(seed=3, step=4)
    source = served.sources[0]
    images = torch.cat(batch.views).numpy()
    for image, latents in zip(images, batch.latents.numpy(), strict=True):
        row = np.flatnonzero((source.latents[:, :3] == latents).all(1))[0]
        assert np.array_equal(image, source.images[[row]][0])
    anchors, positives = batch.latents.split(50)
    distance = (anchors - positives).norm(dim=1)
    if pairs == "augmented":
        assert (distance == 0).all()
    else:
        assert (distance > 0).all() and distance.mean() < 0.6
    again = ImageData(settings(1, data, pairs=pairs, batch=50)).draw(seed=3, step=4)
    assert torch.equal(batch.views[1], again.views[1])
    assert not torch.equal(batch.views[0], served.draw(seed=3, step=5).views[0])


def test_hard_negatives_are_near_and_never_the_positive(data):
    wanted = settings("hard-negatives", data, hard_count=3, batch=60)
    source = ImageData(wanted).sources[0]
    anchors, positives, hard = source.draw(60, np.random.default_rng(0))
    assert len(hard) == 180 and not (hard == np.repeat(positives, 3)).any()
    gap = np.linalg.norm(source.latents[hard] - source.latents[np.repeat(anchors, 3)], axis=1)
    random = np.linalg.norm(source.latents[hard] - source.latents[::-1][hard], axis=1)
    assert gap.mean() < 0.8 * random.mean()


def test_batches_go_on_from_any_step(data):
    served = ImageData(settings(1, data, batch=8))
    later = served.batches(seed=1)(2)
    assert torch.equal(next(later).views[0], served.draw(1, 2).views[0])
    assert torch.equal(next(later).views[0], served.draw(1, 3).views[0])


def test_other_data_is_refused(data):
    with pytest.raises(DataError, match=r"drawn from normal:0.2, not from normal:0.4"):
        _ = ImageData(settings(1, data, conditionals="normal:0.4")).sources
    with pytest.raises(DataError, match="no rendered positives"):
        _ = ImageData(settings(1, data, splits="test")).sources
    with pytest.raises(ValueError, match=r"which are 3 \(x, y, z\); got 10"):
        ImageData(settings(1, data, dim=10))


def test_joined_images_are_one_array():
    first, second = np.arange(6, dtype=np.uint8).reshape(3, 2), np.full((2, 2), 9, np.uint8)
    joined = Joined(first, second)
    rows = np.array([4, 0, 2, 3, 2])
    assert np.array_equal(joined[rows], np.concatenate([first, second])[rows])
    assert len(joined) == 5


def test_encoders_take_bytes_and_floats_alike():
    torch.manual_seed(0)
    images = torch.randint(0, 256, (20, 32, 32, 3), dtype=torch.uint8)
    for name in ("compact", "resnet18"):
        encoder = image_encoder(name, 3, torch.nn.Identity(), images).eval()
        found = encoder(images)
        assert found.shape == (20, 3)
        floats = images.permute(0, 3, 1, 2).float() / 255
        assert torch.allclose(found, encoder(floats), atol=1e-5)
    scaled = Pixels(images)(images)
    assert torch.allclose(scaled.mean((0, 2, 3)), torch.zeros(3), atol=1e-4)
    assert torch.allclose(scaled.std((0, 2, 3)), torch.ones(3), atol=1e-4)
    white = Components(images, 12).eval()(images)
    assert torch.allclose(white.T @ white / 20, torch.eye(12), atol=1e-3)


def test_concentrations_and_their_order():
    names = ["x", "alpha", "object_hue"]
    mixed = parse("position=normal:0.5,object_hue=normal:1,others=normal:0.1")
    assert diagonal(mixed, names) == pytest.approx([2, 50, 0.5])
    assert diagonal(parse("laplace:0.1"), names) is None
    assert matched(np.array([[0.1, 0.9, 0], [0.8, 0.2, 0], [0, 0, 0.7]])) == [1, 0, 2]


def test_plan_tells_the_cost(data, tmp_path, capsys):
    found = plan(settings(1, data))
    assert "400 rows of 16 px" in found and "2,000, each 128 pairs (256 images)" in found
    for word in ("memory", "disk", "time"):
        assert word in found
    missing = plan(settings(1, tmp_path / "none", device="cpu", micro_batch=32))
    assert "not there yet; taken as 250,000 images of 224 px" in missing
    main(["benchmark", "run", "table4/1", "--tier", "tiny", "--data", str(data), "--dry-run"])
    assert "steps: 2,000" in capsys.readouterr().out


@pytest.mark.slow
def test_box_beats_the_untrained_and_every_record_is_written(data, tmp_path):
    out = tmp_path / "results"
    arguments = ["--tier", "tiny", "--data", str(data), "--out", str(out), "--set", "steps=300"]
    ids = ["table4/1", "table4/random", "table4/identity"]
    main(["benchmark", "run", *ids, *arguments])
    found = {(r.experiment, r.protocol): r for r in load_all(out)}
    assert len(found) == 6
    box, random = found["table4/1", "clean"], found["table4/random", "clean"]
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
        "from ident3d.benchmark import images\n"
        "from ident3d.cli import main\n"
        "draw = images.ImageData.draw\n"
        "def dying(self, seed, step):\n"
        "    if step == 7: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return draw(self, seed, step)\n"
        "images.ImageData.draw = dying\n"
        "main(sys.argv[1:])\n"
    )
    cut = [*common, "--out", str(tmp_path / "cut")]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", script, *cut], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    main(cut)
    one, two = (
        next(r for r in load_all(tmp_path / name) if r.protocol == "clean")
        for name in ("whole", "cut")
    )
    assert one.scores["r2"] == pytest.approx(two.scores["r2"], abs=1e-5)  # rounding may differ
    assert one.curves["loss"] == pytest.approx(two.curves["loss"], abs=1e-5)
