"""Rendering a plan: claim files nobody else has, store images as they come, finish, and declare."""

import time
from collections.abc import Iterator

from ident3d.dataset import write_manifest
from ident3d.shards import ShardBusy, ShardWriter

from .plan import Plan, Unit, locked
from .report import Report
from .workers import Pool, Task

LOOK_AGAIN_AFTER = 1.0  # seconds, when other processes hold all the files that are left

Key = tuple[Unit, int]  # a file, and a position in it


class Build:
    """One process's part in rendering a plan.

    Several processes may build one plan at once: each claims whole files, and in the end waits
    for the others' files, or takes over those of a process that died.
    """

    def __init__(self, plan: Plan, pool: Pool, report: Report) -> None:
        self._plan, self._pool, self._report = plan, pool, report
        self._open: dict[Unit, ShardWriter] = {}
        self._counted: dict[Unit, int] = {}  # images of each file that the report knows of

    def run(self, units: list[Unit]) -> None:
        """Render until all the given files are finished, by whomever."""
        left = [unit for unit in units if not self._plan.done(unit)]
        try:
            while left:
                for task, image in self._pool.run(self._tasks(left)):
                    self._store(*task.key, image)
                left = [unit for unit in left if not self._finished(unit)]
                if left:
                    time.sleep(LOOK_AGAIN_AFTER)
        finally:
            for writer in self._open.values():
                writer.close()

    def _tasks(self, units: list[Unit]) -> Iterator[Task[Key]]:
        """Claim one file after the other, and list the images it lacks."""
        for unit in units:
            writer = self._claim(unit)
            if writer is None:
                continue
            missing = writer.missing()
            self._count(unit, len(writer.rows) - len(missing))
            if not missing:  # killed after the last image, before the shard was finished
                self._finish(unit)
            for position in missing:
                row, latents = int(writer.rows[position]), writer.latents[position]
                yield Task((unit, position), latents, row)

    def _claim(self, unit: Unit) -> ShardWriter | None:
        if self._plan.done(unit):
            return None
        try:
            writer = self._open[unit] = self._plan.open(unit)
        except (ShardBusy, FileNotFoundError):  # not found: finished, and tidied up, just now
            return None
        return writer

    def _store(self, unit: Unit, position: int, image: object) -> None:
        writer = self._open[unit]
        writer.put(position, image)
        self._count(unit, self._counted[unit] + 1)
        if not writer.missing():
            self._finish(unit)

    def _finish(self, unit: Unit) -> None:
        with self._open.pop(unit) as writer:
            writer.finish()

    def _finished(self, unit: Unit) -> bool:
        done = self._plan.done(unit)
        if done:
            self._count(unit, unit.stop - unit.start)
        return done

    def _count(self, unit: Unit, images: int) -> None:
        self._report.advance(images - self._counted.get(unit, 0))
        self._counted[unit] = images


def declare(plan: Plan) -> bool:
    """Write the manifest if every file is there; shares leave that to the last to finish."""
    if not all(map(plan.done, plan.units())):
        return False
    with locked(plan.root):
        write_manifest(plan.root, plan.content.split, plan.description)
    return True
