"""Running experiments: what is done is skipped, what was cut off goes on, each run is a record."""

import json
import multiprocessing
import os
import shutil
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ident3d.errors import DataError, printable
from ident3d.files import Lock, sha256

from ..amx import avoid_broken_amx
from ..results import Result, commit, environment, load_all
from ..results.schema import MAX_TEXT
from ..scoring import HELD_OUT
from ..settings.composed import Composed, plain
from ..settings.experiment import Experiment
from ..settings.run_settings import THEORY
from .distributed import end_with, here

EXPECTED = (ValueError, DataError, OSError)  # their sentence says all; others show their trace
WORK = ".running"  # below the results: checkpoints of unfinished runs
REPLACED = ".replaced"  # below the results: records of methods whose source has changed since


@dataclass(frozen=True)
class Job:
    """One run to do."""

    experiment: Experiment
    tier: str
    settings: Composed
    seed: int
    out: Path
    command: str

    @property
    def label(self) -> str:
        """The run in a word."""
        return f"{self.experiment.id} seed {self.seed}"

    @property
    def key(self) -> tuple[str, ...]:
        """What tells this run from all others."""
        return _key(self.experiment.id, self.tier, self.seed, plain(self.settings))

    @property
    def folder(self) -> Path:
        """Where its checkpoint lies until it is done."""
        digest = sha256(json.dumps(self.key).encode())[:16]
        return self.out / WORK / f"{self.experiment.id.replace('/', '-')}-s{self.seed}-{digest}"

    def train_and_score(self) -> list[dict[str, Any]]:
        """Do it, from its checkpoint if there is one; return the fields of its records."""
        checkpoint = self.folder / "checkpoint.safetensors"
        try:
            if self.experiment.check is not None:
                self.experiment.check(self.settings)
        except DataError as error:
            lacks = self.experiment.lacks(self.tier, self.settings, str(error))
            raise DataError(lacks) from error
        if plain(self.settings).get("precision") == "bfloat16":
            avoid_broken_amx()
        found = self.experiment.run(self.settings, self.seed, checkpoint, self.label)
        return found if isinstance(found, list) else [found]


def finished(out: Path, refused: list[str]) -> dict[tuple[str, ...], Path]:
    """Return the keys of the runs that have a record below `out`; say which files are bad."""
    if not out.is_dir():
        return {}
    return {
        _key(r.experiment, r.tier, r.seed, r.settings or {}): out / f"{r.id}.json"
        for r in load_all(out, refused, entries=False)
        if r.protocol in (HELD_OUT, "clean") and not r.control  # saved last
    }


def run(job: Job) -> Path:
    """Do one run, from its checkpoint if there is one, and return its record's path.

    Of ranks that train together the first does it; the others help, and have no record.
    """
    if not here().first:
        job.train_and_score()
        return job.out
    Result(**_common(job), scores={})  # what no record may say is refused before the run
    job.folder.mkdir(parents=True, exist_ok=True)
    with Lock(job.folder / "lock"):
        for fields in job.train_and_score():
            path = _save(job, dict(fields))
        _set_aside(job)
        shutil.rmtree(job.folder)
    return path


def _common(job: Job) -> dict[str, Any]:
    """Return what a run's records say whatever comes of it."""
    world, command = here().world, printable(job.command)
    if len(command) > MAX_TEXT:  # of hundreds of experiments, named one by one
        command = f"{command[: MAX_TEXT - 3]}..."
    return {
        "method": job.experiment.method,
        "experiment": job.experiment.id,
        "tier": job.tier,
        "protocol": HELD_OUT,
        "seed": job.seed,
        "settings": plain(job.settings),
        "environment": environment() | ({"ranks": world} if world > 1 else {}),
        "commit": commit(),
        "command": command,
    }


def _save(job: Job, fields: dict[str, Any]) -> Path:
    """Write one record of a run, after the embeddings and the encoder that come with it."""
    trained, embeddings = fields.pop("encoder", None), fields.pop("embeddings", None)
    result = Result(**_common(job) | fields)
    if trained is not None:
        trained.save(job.out / f"{result.id}.safetensors")
    return result.save(job.out, embeddings)


def _set_aside(job: Job) -> None:
    """Move the records of the same run by an earlier state of its source out of the tables."""
    mine = plain(job.settings)
    if "source" not in mine:
        return
    for result in load_all(job.out, [], entries=False):
        its = result.settings or {}
        earlier = its.get("source")
        by_mine = its | {"source": mine["source"]}
        same = _key(result.experiment, result.tier, result.seed, by_mine)
        if earlier not in (None, mine["source"]) and same == job.key:
            (job.out / REPLACED).mkdir(exist_ok=True)
            for path in job.out.glob(f"{result.id}.*"):
                shutil.move(path, job.out / REPLACED / path.name)


def run_all(jobs: Sequence[Job], workers: int) -> Iterator[tuple[Job, Path | Exception]]:
    """Do runs, `workers` at a time, and yield each with its record or with what went wrong.

    Ranks do one after another together, and the first yields them; what goes wrong ends them all.
    """
    ranks = here()
    if workers == 1:
        for job in jobs:
            outcome = attempt(job)
            if ranks.world > 1 and isinstance(outcome, Exception):
                raise DataError(f"{job.label}, rank {ranks.rank}: {outcome}") from outcome
            if ranks.first:
                yield job, outcome
        return
    context = multiprocessing.get_context("spawn")
    threads = max(1, (os.cpu_count() or 1) // workers)
    with ProcessPoolExecutor(
        workers, mp_context=context, initializer=_start_worker, initargs=(threads, os.getpid())
    ) as pool:
        futures = {pool.submit(attempt, job): job for job in jobs}
        for future in as_completed(futures):
            try:
                yield futures[future], future.result()
            except BrokenProcessPool:
                yield futures[future], DataError("A worker was killed; run again to go on.")


def attempt(job: Job) -> Path | Exception:
    """Do one run; one that fails does not stop the others."""
    try:
        return run(job)
    except Exception as error:
        if not isinstance(error, EXPECTED) or os.environ.get("IDENT3D_TRACEBACK"):
            traceback.print_exc()
        return error


def _start_worker(threads: int, parent: int) -> None:
    """Use a share of the cores, and end with a parent that is killed: nobody collects the rest."""
    import torch

    torch.set_num_threads(threads)
    end_with(parent)


def _key(experiment: str, tier: str, seed: int, settings: dict[str, Any]) -> tuple[str, ...]:
    # Data is what its fingerprints say, wherever it lies. Records of before lack settings that came
    # later, so a setting of nothing counts as one that is not there.
    elsewhere = ("data",) if settings.get("fingerprints") else ()
    known = {k: v for k, v in settings.items() if v is not None and k not in elsewhere}
    if known.get("size") == THEORY:  # which they call nothing
        del known["size"]
    return experiment, tier, str(seed), json.dumps(known, sort_keys=True)
