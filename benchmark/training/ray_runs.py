"""Runs on many machines with Ray: one task per run, results in a folder that all of them see."""

import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from ident3d.files import Busy
from ident3d.scale.ray_tasks import connect, run_tasks

from .jobs import Job, attempt, finished

LOOK_AGAIN_AFTER = 1.0  # seconds, while another process holds a run


def run_on_ray(
    jobs: Sequence[Job], address: str, gpus: float | None, again: bool
) -> Iterator[tuple[Job, Path | Exception]]:
    """Do runs, each in a process of a Ray cluster, and yield each with its record or what failed.

    `address` is as `ray_tasks.connect` takes it, `gpus` the cards of each run, such as 0.5; None:
    one where the cluster has any. `again` does runs that have a record once more.
    """
    ray = connect(address)
    if gpus is None:
        gpus = float("GPU" in ray.cluster_resources())
    yield from run_tasks(ray, partial(run_once, again), jobs, gpus)
    ray.shutdown()


def run_once(again: bool, job: Job) -> Path | Exception:
    """Do a run unless it has a record: a machine may be lost after the record was written.

    A run goes on from its checkpoint. Where a machine that was taken for lost still works on it,
    this waits for that one's record, or for its lock.
    """
    while True:
        if not again and (path := finished(job.out, []).get(job.key)):
            return path
        outcome = attempt(job)
        if not isinstance(outcome, Busy):
            return outcome
        time.sleep(LOOK_AGAIN_AFTER)
