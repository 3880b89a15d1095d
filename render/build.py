"""Rendering a plan: claim files nobody else has, store images as they come, finish, and declare."""

import time
from collections.abc import Iterator

import numpy as np

from ident3d.errors import DataError
from ident3d.files import Busy
from ident3d.progress import Tracker
from ident3d.shards import ShardWriter

from .plan import Plan, ShardTask
from .workers import ImageTask, WorkerPool

LOOK_AGAIN_AFTER = 1.0  # seconds, when other processes hold all the files that are left

Key = tuple[ShardTask, int]  # a file, and a position in it


class Build:
    """One process's part in rendering a plan.

    Several processes may build one plan at once: each claims whole files, and in the end waits
    for the others' files, or takes over those of a process that died.
    """

    def __init__(self, plan: Plan, pool: WorkerPool, tracker: Tracker) -> None:
        self._plan, self._pool, self._tracker = plan, pool, tracker
        self._open: dict[ShardTask, ShardWriter] = {}
        self._counted: dict[ShardTask, int] = {}  # images of each file that the tracker knows of

    def run(self, tasks: list[ShardTask]) -> None:
        """Render until all the given files are finished, by whomever."""
        left = [task for task in tasks if not self._plan.done(task)]
        try:
            while left:
                for image_task, image in self._pool.run(self._images(left)):
                    self._store(*image_task.key, image)
                for task in filter(self._plan.done, list(left)):
                    self._count(task, task.rows)
                    left.remove(task)
                if left:
                    self._refuse_removed(left)
                    time.sleep(LOOK_AGAIN_AFTER)
        except FileNotFoundError:
            self._refuse_removed(left)
            raise
        finally:
            for writer in self._open.values():
                writer.close()

    def _images(self, tasks: list[ShardTask]) -> Iterator[ImageTask[Key]]:
        """Claim one file after the other, and list the images it lacks."""
        for task in tasks:
            if self._plan.done(task):
                continue
            try:
                writer = self._open[task] = self._plan.open(task)
            except (Busy, FileNotFoundError):  # not found: finished, and tidied up, just now
                continue
            missing = writer.missing()
            self._count(task, task.rows - len(missing))
            if not missing:  # killed after the last image, before the shard was finished
                self._finish(task)
            for position in missing:
                row, latents = int(writer.rows[position]), writer.latents[position]
                yield ImageTask((task, position), latents, row)

    def _store(self, task: ShardTask, position: int, image: np.ndarray) -> None:
        writer = self._open[task]
        writer.put(position, image)
        self._count(task, self._counted[task] + 1)
        if self._counted[task] == task.rows:
            self._finish(task)

    def _finish(self, task: ShardTask) -> None:
        with self._open.pop(task) as writer:
            writer.finish()

    def _refuse_removed(self, left: list[ShardTask]) -> None:
        """Stop if the folder has gone; tidied up by another run, all of its files are there."""
        if not self._plan.kept.exists() and not all(map(self._plan.done, left)):
            raise DataError(
                f"{self._plan.folder} was removed while it was rendered; "
                "the same command begins it anew."
            )

    def _count(self, task: ShardTask, images: int) -> None:
        self._tracker.advance(images - self._counted.get(task, 0))
        self._counted[task] = images
