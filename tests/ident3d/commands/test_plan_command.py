"""`ident3d plan`: given figures give what pen and paper do; measured ones are measured."""

import json

import pytest
from click.testing import CliRunner

from ident3d.cli import cli

GIVEN = ["--seconds-per-image", "2", "--disk-speed", "100"]


def invoke(*words):
    return CliRunner().invoke(cli, ["plan", *map(str, words)])


def record(*words):
    done = invoke(*words, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout[done.stdout.index("{") :])


def test_given_figures_of_a_data_set():
    found = record("render", "--size", 10_000, "--resolution", 100, *GIVEN, "--workers", "1,10,20")
    one, ten, twenty = found["forecasts"]
    start, stored = found["figures"]["start_seconds"], 3 * 100**2 + 48
    assert (found["files"], found["disk_bytes"]) == (10, 10_000 * stored)
    assert found["peak_bytes"] == found["disk_bytes"] + 10 * 1000 * 3 * 100**2
    assert one["seconds"] == pytest.approx(20_000 + start)
    assert ten["seconds"] == twenty["seconds"] == pytest.approx(2000 + start)
    assert [f["limit"] for f in (one, ten, twenty)] == ["nodes", "nodes", "pieces"]
    assert ten["bytes_per_second"] == pytest.approx(10_000 * (30_000 + stored) / ten["seconds"])
    assert ten["memory_bytes"] == 10 * one["memory_bytes"]


def test_workers_of_a_machine_share_its_files():
    words = ["render", "--size", 10_000, *GIVEN, "--shard-size", 5_000, "--workers", "1,8,16"]
    one, eight, sixteen = record(*words, "--per-node", 8)["forecasts"]
    start = one["seconds"] - 20_000
    assert (eight["nodes"], sixteen["nodes"]) == (1, 2)
    assert eight["seconds"] == pytest.approx(20_000 / 8 + start)
    assert sixteen["seconds"] == pytest.approx(20_000 / 16 + start)


def test_pairs_are_twice_the_images_and_losses_cost_time():
    words = ["render", "--size", 1_000, *GIVEN, "--workers", "1"]
    plain, pairs = record(*words), record(*words, "--pairs")
    assert pairs["images"] == 2 * plain["images"]
    lost = record(*words, "--lost-per-day", 100)
    assert lost["forecasts"][0]["seconds"] > plain["forecasts"][0]["seconds"]


def test_the_first_limit_is_said():
    words = ["render", "--size", 250_000, "--seconds-per-image", 1, "--workers", "512"]
    out = invoke(*words, "--disk-speed", 1000).output
    assert "more than 250 workers find no files to do" in out
    assert "`--shard-size 122` has 4 files or more for each of 512 machines" in out
    out = invoke(*words, "--disk-speed", 10, "--shard-size", 100).output
    assert "The first limit is the disk: 33 workers fill its 10 MB/s" in out


def test_given_figures_of_a_benchmark():
    words = ["benchmark", "table1/[2]", "table1/[5]", "--seeds", 3, "--seconds-per-run", 60]
    found = record(*words, "--disk-speed", 100, "--workers", "1,4")
    one, four = found["forecasts"]
    assert found["runs"] == 6
    assert one["seconds"] == 60 * 6
    assert four["seconds"] == 60 * 2


def test_a_run_is_measured_by_shorter_ones():
    changes = ["--set", "batch=16", "--set", "scored=200", "--disk-speed", 100]
    found = [
        record("benchmark", "table1/[2]", *changes, "--set", f"steps={steps}")["seconds"]
        for steps in (1_000, 1_000_000)
    ]
    assert 0 < found[0] < found[1]


@pytest.mark.slow
def test_an_image_is_measured_by_rendering_some(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["render", "--size", 1_000, "--resolution", 16, "--preset", "draft", "--workers", "1"]
    figures = record(*words)["figures"]
    assert figures["start_seconds"] > figures["seconds_per_image"] > figures["store_seconds"] > 0
    assert figures["bytes_per_image"] == 16 * 16 * 3 + 48
    assert figures["memory_bytes"] > 50e6
    assert not list(tmp_path.iterdir())  # what the trial wrote is gone


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (["--size", 0], "`size` must be between 1 and"),
        (["--size", 10**11], "`size` must be between 1 and"),
        (["--size", 5, "--per-node", "0"], "`per_node` must be between 1"),
        (["--size", 5, "--workers", "1,x"], "`workers` must be numbers such as 1,8,64"),
        (["--size", 5, "--workers", "0"], "`workers` must be numbers"),
        (["--size", 5, "--disk-speed", "0"], "`disk_speed` must be a finite number above 0"),
        (["--size", 5, "--disk-speed", "nan"], "`disk_speed` must be a finite number above 0"),
        (["--size", 5, "--workers", "9" * 12], "`workers` must be between 1 and"),
        (["--size", 5, "--lost-per-day", "-0.9"], "`lost_per_day` must be a finite number"),
        (["--size", 5, "--resolution", "-5"], "`resolution` must be between 8 and 8192"),
        (["--size", 5, "--preset", "best"], "`preset` must be one of"),
        (["--size", 5, "--seconds-per-image", "0"], "`seconds_per_image` must be a finite number"),
        (
            ["--size", 5, "--seconds-per-image", "inf"],
            "`seconds_per_image` must be a finite number",
        ),
    ],
)
def test_wrong_use_is_one_sentence(words, rule):
    done = invoke("render", *GIVEN, *words)
    assert isinstance(done.exception, ValueError) and rule in str(done.exception)


def test_what_must_be_named_is_named():
    done = invoke("render", *GIVEN)
    assert done.exit_code == 2 and "Missing option '--size'" in done.output


@pytest.mark.parametrize("seconds", ["0", "-5", "inf", "nan"])
def test_a_run_takes_some_time(seconds):
    words = ["table1/1", "--seconds-per-run", seconds, "--disk-speed", "100"]
    done = invoke("benchmark", *words)
    assert isinstance(done.exception, ValueError)
    assert "`seconds_per_run` must be a finite number above 0" in str(done.exception)
