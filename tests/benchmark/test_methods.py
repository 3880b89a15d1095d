import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tomllib
import torch
from ident3d.benchmark import methods
from ident3d.benchmark.experiments import EXPERIMENTS
from ident3d.benchmark.methods import find_method
from ident3d.benchmark.results import load_all

from ident3d.cli import main

EXAMPLE = Path(__file__).parents[2] / "examples" / "my_method"


@pytest.fixture
def example(tmp_path, monkeypatch):
    """The example package as an installer would leave it: a module and its entry points."""
    shutil.copy(EXAMPLE / "my_method.py", tmp_path)
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    lines = [f"[{group}]" for group in project["entry-points"]]
    lines += [f"{k} = {v}" for k, v in project["entry-points"][methods.GROUP].items()]
    about = tmp_path / "my_method-0.1.0.dist-info"
    about.mkdir()
    (about / "entry_points.txt").write_text("\n".join(lines))
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my-method\nVersion: 0.1.0\n")
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize("name", ["my_method:SlowFeatures", "slow-features"])
def test_the_example_runs_and_is_recorded(example, data, tmp_path, name):
    out = tmp_path / "results"
    where = ["--data", str(data), "--out", str(out)]
    main(["benchmark", "run", name, "--tier", "tiny", "--set", "steps=20", *where])
    found = {result.protocol: result for result in load_all(out)}
    assert set(found) == {"held-out", "as-released"}
    held_out = found["held-out"]
    assert held_out.method == "Linear slow features"
    assert held_out.experiment.startswith("table4/")
    assert held_out.scores["r2"] > 0.5 and set(held_out.scores["r2_per_factor"]) == {"x", "y", "z"}
    assert (out / f"{held_out.id}.npy").exists()
    assert not (out / ".running").exists() or not list((out / ".running").iterdir())


def test_the_same_batches_every_time(data):
    served = methods.Splits(EXPERIMENTS["table4/1"].tiers["tiny"].with_(data=str(data)))
    source = served.batches(7, torch.device("cpu"))
    task = methods.Task(served.train[0], 3, "normal:0.2", 5, 128, 7, None, source)
    whole = list(task.batches())
    assert len(whole) == 5 and whole[0][0].dtype == np.uint8 and not list(task.batches(6))
    assert whole[0][0].shape == (128, 16, 16, 3)
    trained_on = source(0)  # our own encoders see the same
    for pair in whole:
        for ours, theirs in zip(next(trained_on).views, pair, strict=True):
            assert np.array_equal(ours.permute(0, 2, 3, 1), theirs)
    later = list(task.batches(3))
    assert np.array_equal(later[0][1], whole[3][1])
    assert not np.array_equal(whole[0][0], whole[1][0])


class NoName:
    def fit(self, task):
        return None


class NoEncoder(NoName):
    name = "nothing"


class Broken:
    name = "broken"

    def fit(self, task):
        return {}["no such key"]


def test_an_error_of_a_method_is_named_as_its_own(data, tmp_path, capsys):
    where = ["--tier", "tiny", "--data", str(data), "--out", str(tmp_path)]
    with pytest.raises(SystemExit):
        main(["benchmark", "run", f"{__name__}:Broken", "table4/identity", *where])
    out, err = capsys.readouterr()
    assert "Broken failed: KeyError: 'no such key'" in err and "Traceback" not in err
    assert "table4/identity seed 0: r2" in out  # the others are done


def test_what_is_no_method_is_refused(data, tmp_path, capsys):
    here = f"{__name__}:NoName"
    with pytest.raises(ValueError, match="must have a `name`"):
        methods.experiment(here, EXPERIMENTS["table4/1"])
    with pytest.raises(ValueError, match="must be written module:name"):
        find_method("module:")
    with pytest.raises(ValueError, match="must be one of"):
        find_method("not-installed")
    row = methods.experiment(f"{__name__}:NoEncoder", EXPERIMENTS["table4/1"])
    settings = row.tiers["tiny"].read({"data": str(data)})
    with pytest.raises(ValueError, match="must return an encoder, got NoneType"):
        methods.run(settings, 0, None, "x")


COUNTING = """
import helper

class Method:
    name = "counting"
    def fit(self, task):
        anchors, _ = next(task.batches())
        return lambda images: images.reshape(len(images), -1)[:, : helper.COLUMNS].astype("float32")
"""


def test_an_edited_method_is_run_again(data, tmp_path):
    """In processes, as a user would: a module is imported once."""
    out = tmp_path / "results"
    arguments = ["--tier", "tiny", "--set", "steps=2", "--data", str(data), "--out", str(out)]

    def run(*more):
        command = [sys.executable, "-m", "ident3d", "benchmark", "run", "counting:Method"]
        done = subprocess.run(
            [*command, *arguments, *more], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    method, helper = tmp_path / "counting.py", tmp_path / "helper.py"
    method.write_text(COUNTING)
    helper.write_text("COLUMNS = 40")
    assert "1 runs to do, 0 already" in run()
    (first,) = (r for r in load_all(out) if r.protocol == "held-out")
    assert "0 runs to do, 1 already" in run()
    assert "1 runs to do, 1 already" in run("--again", "--dry-run")
    run("--set", "steps=3")
    helper.write_text("COLUMNS = 90")  # a module beside it is part of it
    assert "1 runs to do, 0 already" in run()
    other, second = (r for r in load_all(out) if r.protocol == "held-out")
    if other.settings["steps"] == 2:
        other, second = second, other
    assert other.settings["steps"] == 3  # nothing replaces it
    assert second.scores != first.scores
    assert {path.stem for path in (out / ".replaced").glob("*.json")} > {first.id}
    method.write_text(COUNTING + "# a word\n")
    assert "1 runs to do, 0 already" in run("--dry-run")
    before = (out / f"{second.id}.json").stat().st_mtime_ns
    method.write_text(COUNTING)
    assert "1 runs to do, 1 already" in run("--again")
    assert (out / f"{second.id}.json").stat().st_mtime_ns > before
