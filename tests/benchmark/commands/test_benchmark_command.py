import errno
import json
import os
import subprocess
import sys
import time

import psutil
import pytest
from click.testing import CliRunner
from ident3d.benchmark.commands.benchmark_command import COMMANDS, benchmark
from ident3d.benchmark.experiments import select
from ident3d.benchmark.results import load_all

TINY = ["--set", "steps=4", "--set", "batch=16", "--set", "scored=200"]


def invoke(*arguments):
    return CliRunner().invoke(benchmark, list(arguments), catch_exceptions=True)


def test_help_names_every_command_and_imports_none():
    code = (
        "import sys; from ident3d.cli import cli\n"
        "try: cli(['benchmark', '--help'])\n"
        "except SystemExit: pass\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    for name in COMMANDS:
        assert name in done.stdout


def test_list_shows_rows_with_published_numbers():
    done = invoke("list", "table1/1")
    assert done.exit_code == 0
    assert "99.42 ± 0.05" in done.output
    assert "table1/1/supervised" in done.output


def test_list_without_ids_names_the_tables_and_how_many_rows_they_have():
    lines = invoke("list").output.splitlines()
    rows = {line.split()[0]: int(line.split()[1]) for line in lines[1:-1]}
    assert list(rows) == list(select.FAMILIES)
    assert sum(rows.values()) == len(select.EXPERIMENTS)
    assert len(invoke("list", "table4").output.splitlines()) == 1 + rows["table4"]


def test_list_as_json_holds_all_settings():
    records = json.loads(invoke("list", "table2/2", "--json").output)
    assert records[0]["tiers"]["paper"]["conditionals"] == ["gennorm:3:0.05"]
    assert records[0]["published"]["mcc"] == [0.9990, 0.0006]


def test_dry_run_runs_nothing(tmp_path):
    done = invoke("run", "table1/1", "--seeds", "2", "--dry-run", "--out", str(tmp_path / "r"))
    assert "8 runs to do" in done.output
    assert "table1/1 seed 1: new" in done.output
    assert not (tmp_path / "r").exists()


def test_a_run_writes_a_record_once(tmp_path):
    arguments = ["run", "table1/2", "--out", str(tmp_path), *TINY]
    done = invoke(*arguments)
    assert done.exit_code == 0, done.output
    released, result = (r for r in load_all(tmp_path) if r.experiment == "table1/2")
    assert (released.protocol, result.protocol) == ("as-released", "held-out")
    assert released.scores["r2"] != result.scores["r2"]  # fitted where it is scored
    assert result.experiment == "table1/2"
    assert result.settings["steps"] == 4
    assert set(result.scores) >= {"r2", "mcc", "r2_per_factor"}
    assert result.curves["step"][-1] == 4
    assert "0 runs to do, 2 already" in invoke(*arguments).output


def test_learned_metric_and_truth_are_recorded(tmp_path):
    assert invoke("run", "aninfonce/bimodal", "--out", str(tmp_path), *TINY).exit_code == 0
    result = next(r for r in load_all(tmp_path) if r.method == "AnInfoNCE")
    assert len(result.metric) == len(result.metric_true) == 10
    assert {"loss_gap", "metric_error", "r2_content", "r2_style"} <= set(result.scores)


def test_one_failure_does_not_stop_the_others(tmp_path):
    done = invoke(
        "run", "table1/2", "aninfonce/sweep/5", "--out", str(tmp_path), *TINY, "--set", "dim=3"
    )
    assert done.exit_code != 0
    assert "table1/2" in {r.experiment for r in load_all(tmp_path)}
    assert "runs failed, as said above" in str(done.exception)


def test_a_run_that_the_system_stops_is_told_as_by_other_commands(tmp_path, monkeypatch):
    def refuse(job):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), "ro/x")

    monkeypatch.setattr("ident3d.benchmark.training.jobs.run", refuse)
    said = invoke("run", "table1/5/identity", "--out", str(tmp_path), *TINY).stderr
    sentence = "ro/x: Read-only file system; name a folder on a disk that may be written."
    assert f"table1/5/identity seed 0: {sentence}\n" in said


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("steps=-3", "`steps` must be above 0"),
        ("steps=0", "`steps` must be above 0"),
        ("evaluations=0", "`evaluations` must be above 0"),
        ("lr=-1", "`lr` must be above 0"),
        ("lr=inf", "`lr` must be above 0 and finite"),
        ("clip=0", "`clip` must be above 0"),
        ("clip=-1", "`clip` must be above 0"),
        ("clip=inf", "`clip` must be above 0 and finite"),
        ("clip=nan", "`clip` must be above 0 and finite"),
        ("seconds=inf", "`seconds` must be above 0 and finite"),
        ("checkpoint_seconds=inf", "`checkpoint_seconds` must be at least 0 and finite"),
        ("checkpoint_seconds=-1", "`checkpoint_seconds` must be at least 0"),
        ("hard_count=-1", "`hard_count` must be at least 0"),
        ("hard_from=-1", "`hard_from` must be at least 0"),
        ("scored=1", "`scored` must be at least 2"),
        ("batch=1", "`batch` must be at least 2"),
        ("precision=foo", "must be one of float32, bfloat16"),
        ("schedule=foo", "must be one of constant"),
    ],
)
def test_settings_that_cannot_be_are_refused(tmp_path, change, reason):
    done = invoke("run", "table1/2", "--out", str(tmp_path), "--set", change)
    assert isinstance(done.exception, ValueError) and reason in str(done.exception)


@pytest.mark.parametrize("change", ["hard_count=-1", "rows=0", "train_rows=0", "watched=1"])
def test_counts_of_images_that_cannot_be_are_refused_before_training(tmp_path, change):
    done = invoke("run", "table4/1", "--tier", "tiny", "--out", str(tmp_path), "--set", change)
    name = change.partition("=")[0]
    assert isinstance(done.exception, ValueError)
    assert f"`{name}` must be at least" in str(done.exception)


def test_a_file_is_no_folder_for_records(tmp_path):
    (tmp_path / "file").touch()
    done = invoke("run", "table1/2", "--out", str(tmp_path / "file"), *TINY)
    assert done.exit_code == 2 and "is a file" in done.stderr


def test_a_broken_record_is_named(tmp_path):
    (tmp_path / "bad.json").write_text("{")
    done = invoke("run", "table1/2", "--out", str(tmp_path), "--dry-run")
    assert "Not counted: " in done.stderr and "bad.json" in done.stderr


def test_rows_without_the_tier_are_counted(tmp_path):
    done = invoke("run", "table4", "--tier", "tiny", "--out", str(tmp_path), "--dry-run")
    assert "3 of the rows named have no tier tiny" in done.output


def test_data_belongs_to_image_experiments(tmp_path):
    done = invoke("run", "table1/2", "--out", str(tmp_path), "--data", str(tmp_path))
    assert "`--data` is for image experiments" in str(done.exception)


def test_shares_make_the_whole(tmp_path):
    rows = ["run", "table1/1", "--dry-run", "--out", str(tmp_path)]
    lines = [invoke(*rows, "--shard", share).output.splitlines() for share in ("1/2", "2/2")]
    found = sorted(line for share in lines for line in share if line.endswith(": new"))
    whole = invoke(*rows).output.splitlines()
    assert found == sorted(line for line in whole if line.endswith(": new"))
    assert all(": new" in "".join(share) for share in lines)


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (["--gpus", "0.5"], "`--gpus` is for `--ray` and `--slurm`"),
        (["--gpus", "inf", "--slurm", "3"], "`gpus` must be a finite number above 0"),
        (["--shard", "3/2"], "`shard` must be I/N"),
        (["--ray", "127.0.0.1:1"], "No Ray cluster at '127.0.0.1:1'"),
    ],
)
def test_cluster_options_that_cannot_be_are_refused(tmp_path, words, rule):
    done = invoke("run", "table1/2", "--out", str(tmp_path), *TINY, *words)
    assert rule in str(done.exception)


def test_unknown_tiers_are_refused(tmp_path):
    done = invoke("run", "table1/2", "--tier", "huge", "--out", str(tmp_path))
    assert isinstance(done.exception, ValueError)


@pytest.mark.slow
def test_workers_end_with_a_parent_that_is_killed(tmp_path):
    options = ["run", "table1/2", "--seeds", "2", "--workers", "2", "--set", "steps=1000000"]
    options += ["--set", "batch=16", "--out", str(tmp_path)]
    code = "import sys; from ident3d.cli import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", code, "benchmark", *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as parent:
        for _ in range(600):
            if len(list(tmp_path.glob(".running/*/lock"))) == 2:
                break
            time.sleep(0.1)
        workers = psutil.Process(parent.pid).children()
        parent.kill()
    _, alive = psutil.wait_procs(workers, timeout=30)
    assert len(workers) >= 2
    assert not alive


@pytest.mark.slow
def test_workers_write_the_same_scores(tmp_path):
    options = ["run", "table1/2", "--seeds", "2", *TINY]
    assert invoke(*options, "--out", str(tmp_path / "one")).exit_code == 0
    assert invoke(*options, "--out", str(tmp_path / "two"), "--workers", "2").exit_code == 0
    one, two = ([r.scores for r in load_all(tmp_path / name)] for name in ("one", "two"))
    for a, b in zip(one, two, strict=True):
        assert a["r2"] == pytest.approx(b["r2"], rel=1e-4)
