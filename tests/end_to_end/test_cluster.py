"""Two Ray nodes on this machine: one loses its workers, then dies. Everything is there once."""

import subprocess
import sys
import time

import numpy as np
import psutil
import pytest
from ident3d.benchmark.results import load_all

from ident3d.dataset import load

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-m", "ident3d"]
RENDER = ["--size", "60", "--shard-size", "6", "--resolution", "48", "--preset", "draft"]
RUNS = ["table1/[2]", "--seeds", "4", "--set", "steps=600", "--set", "batch=64"]
RUNS += ["--set", "scored=200", "--set", "checkpoint_seconds=0.2"]


class Nodes:
    """A cluster of two nodes with a worker each; the second may be hurt, and comes back."""

    def __init__(self):
        from ray.cluster_utils import Cluster

        self._cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        self.address = self._cluster.address
        self._second = None

    def begin(self):
        if self._second is None:
            self._second = self._cluster.add_node(num_cpus=1)

    def kill_workers(self):
        """Kill what the second node runs; return how many processes that was."""
        raylet = self._second.all_processes["raylet"][0].process.pid
        busy = [p for p in psutil.Process(raylet).children() if "ray::_call" in p.cmdline()[0]]
        for process in busy:
            process.kill()
        return len(busy)

    def kill(self):
        """End the second node at once, as a power cut would."""
        self._cluster.remove_node(self._second, allow_graceful=False)
        self._second = None

    def stop(self):
        self._cluster.shutdown()


@pytest.fixture(scope="module")
def nodes():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")  # as on a cluster, where Ray gives each task a core
        patch.setenv("RAY_worker_niceness", "0")  # on a busy machine, others would go first
        found = Nodes()
        yield found
        found.stop()


def until(condition, process, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.05)


def survive(nodes, command, progress):
    """Run a command on both nodes; kill the second's workers after some work, then the node."""
    nodes.begin()
    run = subprocess.Popen(
        [*COMMAND, *command, "--ray", nodes.address],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with run:
        try:
            until(lambda: progress() >= 2, run)
            until(nodes.kill_workers, run)
            before = progress()
            until(lambda: progress() >= before + 2, run)
            nodes.kill()
            out, err = run.communicate(timeout=200)
        finally:
            run.kill()
    assert run.returncode == 0, err
    return out


def test_every_file_is_there_once(nodes, tmp_path):
    out = tmp_path / "out"

    def stored():
        """Images that are safe, in finished files and in journals."""
        journals = out.glob("train/.work/*.journal")
        whole = 6 * len(list(out.glob("train/*.h5")))
        return whole + sum(j.stat().st_size // (48 * 48 * 3) for j in journals)

    assert "finished" in survive(nodes, ["render", out, *RENDER], stored)
    plain = [*COMMAND, "render", tmp_path / "plain", *RENDER, "--device", "cpu"]
    subprocess.run(plain, check=True, capture_output=True)
    data, alone = load(out / "train"), load(tmp_path / "plain" / "train")
    assert np.array_equal(data.rows, np.arange(60))
    assert np.array_equal(data.images[:], alone.images[:])
    assert len(list(out.glob("train/*.h5"))) == 10
    assert not list(out.glob("train/.work/*.journal"))
    subprocess.run([*COMMAND, "verify", out], check=True, capture_output=True)


def test_every_run_is_there_once(nodes, tmp_path):
    out = tmp_path / "results"

    def saved():
        """How many checkpoints were seen."""
        for path in out.glob(".running/*/checkpoint.safetensors"):
            seen.add((path, path.stat().st_mtime_ns))
        return len(seen)

    seen = set()
    survive(nodes, ["benchmark", "run", *RUNS, "--out", out], saved)
    alone = tmp_path / "alone"
    plain = [*COMMAND, "benchmark", "run", *RUNS, "--out", alone]
    subprocess.run(plain, check=True, capture_output=True)
    found, expected = ({r.id: r.scores for r in load_all(folder)} for folder in (out, alone))
    assert len(found) == 8  # two protocols, four seeds
    assert found.keys() == expected.keys()
    for name, scores in found.items():
        assert scores["r2"] == pytest.approx(expected[name]["r2"], abs=1e-3)
    assert not list(out.glob(".running/*"))
    again = subprocess.run(
        [*COMMAND, "benchmark", "run", *RUNS, "--out", out, "--ray", nodes.address],
        check=True,
        capture_output=True,
        text=True,
    )
    assert "0 runs to do, 4 already" in again.stdout
