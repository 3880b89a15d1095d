import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from ident3d.cli import main
from tests.support.rank_cases import CASES

ROOT = Path(__file__).parents[3]
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
# At the tier's own learning rate, what ranks round otherwise grows tenfold in a few steps.
SLOW = ["--set", "lr=0.0003", "--set", "evaluations=3"]
SYNTHETIC = ["benchmark", "run", "table1/5", *SLOW, "--set", "batch=64"]
IMAGE = ["benchmark", "run", "table4/1", "--tier", "tiny", *SLOW, "--set", "batch=16"]


def start(ranks, *arguments):
    """Start a command on several ranks."""
    command = [*TORCHRUN, str(ranks), "-m", "ident3d", *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=ROOT, env=ENVIRONMENT, text=True, **pipes)


def finish(process):
    """Return what a command said when it has ended."""
    said, errors = process.communicate(timeout=300)
    return process.returncode, said, errors


def pids(process):
    """Return the process id of each rank that torchrun has started."""
    found = {}
    for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
        with suppress(OSError):  # some children of torchrun live for a moment
            names = Path(f"/proc/{child}/environ").read_text().split("\0")
            found |= {int(n.partition("=")[2]): int(child) for n in names if n.startswith("RANK=")}
    return found


def sentences(errors):
    """Return what ident3d itself says of a failure; torchrun adds a report of its own."""
    return [line for line in errors.splitlines() if line.startswith("Error: ")]


def records(out):
    """Return all records below a folder, by their protocol and experiment."""
    found = [json.loads(path.read_text()) for path in Path(out).glob("*.json")]
    return {(record["experiment"], record["protocol"]): record for record in found}


def assert_equal_records(out, expected, tolerance):
    """Compare what two runs measured, number by number; forests (DCI) turn on single bits."""
    found, wanted = records(out), records(expected)
    assert set(found) == set(wanted)
    for name, record in wanted.items():
        assert record["settings"] == found[name]["settings"]
        for part in ("scores", "curves"):
            for key, value in (record[part] or {}).items():
                if not isinstance(value, dict | None) and not key.startswith("dci"):
                    other = found[name][part][key]
                    np.testing.assert_allclose(
                        other, value, atol=tolerance, err_msg=str((name, key))
                    )


@pytest.mark.parametrize("world", [2, 4])
def test_loss_gradients_and_statistics_are_those_of_one_process(tmp_path, world):
    command = [sys.executable, "-m", "tests.support.rank_cases"]
    place = [str(world), str(tmp_path / "store"), str(tmp_path / "found.json")]
    processes = [
        subprocess.Popen([*command, str(rank), *place], cwd=ROOT, env=ENVIRONMENT)
        for rank in range(world)
    ]
    assert [process.wait(300) for process in processes] == [0] * world
    found = json.loads((tmp_path / "found.json").read_text())
    assert set(found) == set(CASES)
    coarse = {"mixed precision"}  # sums of bfloat16 numbers, in another order
    assert {
        name: apart for name, apart in found.items() if apart > 1e-5 and name not in coarse
    } == {}
    assert found["mixed precision"] < 1e-2


def test_a_synthetic_and_an_image_row_give_the_records_of_one_process(tmp_path, data):
    # batch-norm over rows that both ranks hold, and no noise, which each rank draws for itself
    image = ["--set", "encoder=resnet18", "--set", "norm_rows=16", "--set", "micro_batch=16"]
    image += ["--set", "steps=3", "--set", "lr=0.00001", "--data", str(data)]
    for name, arguments in {
        "synthetic": [*SYNTHETIC, "--set", "steps=30"],
        "image": [*IMAGE, *image],
    }.items():
        together, alone = tmp_path / name / "together", tmp_path / name / "alone"
        code, said, errors = finish(start(2, *arguments, "--out", together))
        assert code == 0, errors
        assert said.count("runs to do") == 1, "the first rank alone speaks"
        assert {record["environment"]["ranks"] for record in records(together).values()} == {2}
        main([*arguments, "--out", str(alone)])
        assert_equal_records(together, alone, 1e-3)


def test_a_rank_that_is_killed_ends_all_and_any_number_goes_on(tmp_path, capsys):
    many = [*SYNTHETIC, "--set", "steps=100", "--set", "checkpoint_seconds=0"]
    cut = [*many, "--out", str(tmp_path / "cut")]

    def kill(ranks, victims):
        """Kill some ranks, or torchrun with all, when there is a checkpoint newer than before."""
        began, process = time.time(), start(ranks, *cut)
        while not any(path.stat().st_mtime > began for path in tmp_path.glob("cut/.running/*/c*")):
            assert process.poll() is None, finish(process)
            time.sleep(0.02)
        started = pids(process)
        for rank in victims:
            os.kill(started[rank], signal.SIGKILL)
        if len(victims) == ranks:
            process.kill()
        return finish(process)

    code, _, errors = kill(2, [1])
    assert code == 1
    assert len(sentences(errors)) == 1 and "run again to go on" in sentences(errors)[0], errors
    kill(2, [0, 1])
    assert not list(tmp_path.glob("cut/*.json"))
    main([*cut, "--dry-run"])
    assert "table1/5 seed 0: goes on" in capsys.readouterr().out
    code, _, errors = finish(start(4, *cut))
    assert code == 0, errors
    main([*many, "--out", str(tmp_path / "whole")])
    assert_equal_records(tmp_path / "cut", tmp_path / "whole", 1e-2)


def test_what_is_wrong_is_said_once(tmp_path):
    code, _, errors = finish(start(4, *SYNTHETIC, "--set", "batch=62", "--out", tmp_path))
    assert code == 1
    (sentence,) = sentences(errors)
    assert "`batch` must be a multiple of the 4 ranks that share it" in sentence
