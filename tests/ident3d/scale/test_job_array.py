"""Job arrays: shares, and the printed scripts, run for real by a stand-in for Slurm."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from ident3d.benchmark.results import load_all

from ident3d.dataset import load
from ident3d.scale.job_array import parse_share, sbatch_script
from tests.support import slurm

IDENT3D = [sys.executable, "-m", "ident3d"]


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "a/b", "1/0", "-1/3"])
def test_a_wrong_share_is_named(text):
    with pytest.raises(ValueError, match="`shard` must be I/N with I from 1 to N"):
        parse_share(text)


def test_words_are_quoted_and_cards_asked_for():
    script = sbatch_script("name", ["ident3d", "a b", "x\ny"], [["last", "$HOME"]], 3, 4, gpus=2)
    assert "run ident3d 'a b' 'x\ny' --shard \"$SLURM_ARRAY_TASK_ID/3\"" in script
    assert "run last '$HOME'" in script
    assert "#SBATCH --gpus=2\n" in script and "#SBATCH --array=1-3\n" in script
    assert script.splitlines()[1].startswith("# ident3d 'a b' 'x y'")  # no line of its own
    assert subprocess.run(["bash", "-n"], input=script, text=True).returncode == 0


class Submitted:
    """A printed script that runs under the stand-in, in a folder of its own."""

    def __init__(self, folder, *words):
        self.home = folder / "slurm"
        programs = slurm.install(folder / "bin")
        self.home.mkdir()
        path = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        own = {"PATH": path, "STAND_IN_SLURM": str(self.home), "OMP_NUM_THREADS": "1"}
        self._start = {"cwd": folder, "env": os.environ | own, "text": True}
        done = subprocess.run([*IDENT3D, *words], **self._start, check=True, capture_output=True)
        (folder / "job.sh").write_text(done.stdout)
        self.process = subprocess.Popen(["bash", "job.sh"], **self._start)

    def until(self, condition):
        end = time.monotonic() + 120
        while not condition():
            assert self.process.poll() is None and time.monotonic() < end
            time.sleep(0.02)

    def hit(self, task, how):
        """Kill a task with all its processes; or tell its script that time is nearly over."""
        self.until(lambda: slurm.task_pid(self.home, task))
        pid = slurm.task_pid(self.home, task)
        os.killpg(pid, how) if how == signal.SIGKILL else os.kill(pid, how)

    def end(self):
        try:
            assert self.process.wait(300) == 0
        finally:
            self.process.kill()


@pytest.mark.slow
def test_a_render_in_shares_survives_kills_and_ends_checked(tmp_path):
    settings = ["--size", "40", "--shard-size", "4", "--resolution", "32", "--preset", "draft"]
    settings += ["--workers", "1", "--device", "cpu"]
    job = Submitted(tmp_path, "render", "out", *settings, "--slurm", "2")
    work = tmp_path / "out" / "train" / ".work"

    def stored(share):  # files that a share has begun or finished
        return [p for p in work.glob("shard-*.journal") if int(p.stem[-5:]) % 2 == share - 1]

    job.until(lambda: stored(1))
    job.hit(1, signal.SIGKILL)
    job.until(lambda: stored(2))
    job.hit(2, signal.SIGUSR1)
    job.end()
    assert slurm.restarts(job.home) == {1: 1, 2: 1}
    assert slurm.restarts(job.home, job=2) == {0: 0}
    data = load(tmp_path / "out" / "train")
    assert np.array_equal(data.rows, np.arange(40))
    assert len(list(tmp_path.glob("out/train/*.h5"))) == 10
    last = (tmp_path / "ident3d-render-2-0.log").read_text()
    assert "finished" in last and "whole" in last


@pytest.mark.slow
def test_runs_in_shares_survive_a_kill_and_end_as_a_page(tmp_path):
    settings = ["--seeds", "2", "--set", "steps=200", "--set", "batch=64", "--set", "scored=200"]
    settings += ["--set", "checkpoint_seconds=0.3", "--out", "results"]
    job = Submitted(tmp_path, "benchmark", "run", "table1/[2]", *settings, "--slurm", "2")
    job.until(lambda: list(tmp_path.glob("results/.running/*-s1-*/checkpoint.safetensors")))
    job.hit(2, signal.SIGKILL)
    job.end()
    assert slurm.restarts(job.home) == {1: 0, 2: 1}
    found = load_all(tmp_path / "results")
    assert sorted(r.seed for r in found if r.protocol == "held-out") == [0, 1]
    assert not list(tmp_path.glob("results/.running/*"))
    assert (tmp_path / "results" / "site" / "index.html").exists()
