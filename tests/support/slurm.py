"""A stand-in for Slurm on this machine: `sbatch` that runs job arrays for real, and `scontrol`.

`install(folder)` writes both programs into a folder, for PATH. `sbatch` returns when the job has
ended. A task is a process group of its own, whose number is in `pid-JOB_TASK` while it runs;
killed, or asked for by `scontrol requeue`, it runs again with another SLURM_RESTART_COUNT.
"""

import argparse
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

AT_A_TIME = 2
KILLED = (-9, -15, 137, 143)


def install(folder):
    folder.mkdir(parents=True)
    for name in ("sbatch", "scontrol"):
        program = folder / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {__file__} {name} "$@"\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return folder


def task_pid(folder, task):
    """The process group of a running task of the first job; None if there is none."""
    path = folder / f"pid-1_{task}"
    return int(path.read_text()) if path.exists() and path.read_text() else None


def restarts(folder, job=1):
    """How often each task of a job was run again."""
    return {int(k): v for k, v in json.loads((folder / f"ended-{job}").read_text()).items()}


def sbatch(home, words):
    parser = argparse.ArgumentParser()
    for option in ("array", "dependency", "output", "job-name", "cpus-per-task", "time", "signal"):
        parser.add_argument(f"--{option}")
    parser.add_argument("--open-mode", choices=["append"])
    for flag in ("requeue", "parsable"):
        parser.add_argument(f"--{flag}", action="store_true")
    parser.add_argument("script", type=Path)
    script = Path(parser.parse_args(words).script)
    head = re.findall(r"^#SBATCH (.*)$", script.read_text(), re.MULTILINE)
    chosen = parser.parse_args([*(w for line in head for w in line.split("#")[0].split()), *words])
    job = len(list(home.glob("spool-*"))) + 1
    spool = home / f"spool-{job}"
    shutil.copy(script, spool)
    if chosen.dependency:
        kind, before = chosen.dependency.split(":")
        assert kind == "afterany" and (home / f"ended-{before}").exists()
    first, _, last = chosen.array.partition("-")
    tasks = range(int(first), int(last or first) + 1)
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        counts = list(pool.map(lambda task: run_task(home, spool, chosen, job, task), tasks))
    (home / f"ended-{job}").write_text(json.dumps(dict(zip(tasks, counts, strict=True))))
    print(job if chosen.parsable else f"Submitted batch job {job}")


def run_task(home, spool, chosen, job, task):
    """Run one task until it ends by itself; return how often it was run again."""
    name, restarts = f"{job}_{task}", 0
    log = chosen.output.replace("%A", str(job)).replace("%a", str(task))
    while True:
        numbers = {"JOB_ID": job, "ARRAY_JOB_ID": job, "ARRAY_TASK_ID": task}
        if restarts:
            numbers["RESTART_COUNT"] = restarts
        environment = os.environ | {f"SLURM_{k}": str(v) for k, v in numbers.items()}
        with open(log, "ab") as stream:
            command = ["bash", str(spool)]
            process = subprocess.Popen(
                command, env=environment, stdout=stream, stderr=stream, start_new_session=True
            )
        (home / f"pid-{name}").write_text(str(process.pid))
        code = process.wait()
        (home / f"pid-{name}").unlink()
        asked = home / f"requeue-{name}"
        if not (chosen.requeue and (code in KILLED or asked.exists())):
            return restarts
        asked.unlink(missing_ok=True)
        restarts += 1


def scontrol(home, words):
    assert words[0] == "requeue"
    (home / f"requeue-{words[1]}").touch()


if __name__ == "__main__":
    {"sbatch": sbatch, "scontrol": scontrol}[sys.argv[1]](
        Path(os.environ["STAND_IN_SLURM"]), sys.argv[2:]
    )
