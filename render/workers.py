"""Local execution: worker processes, each with its own Blender, that are handed row after row.

Workers keep nothing: the parent stores what they send back. So a worker may die at any time; it is
replaced and its row is tried again.
"""

import contextlib
import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

import numpy as np

from ident3d.errors import DataError

from .blender import Gpu
from .spec import RenderSettings

RESTART_AFTER = 2000  # images; Blender's memory grows a little with each
ATTEMPTS = 3  # a row is tried again twice
# Rows that a worker has: one to render, and one to go on with while its image is being stored.
HANDED = 2

_spawn = multiprocessing.get_context("spawn")  # Blender does not survive a fork

Key = TypeVar("Key")


@dataclass(frozen=True)
class WorkerSlot:
    """Where one worker renders."""

    threads: int = 0  # 0: all
    gpu: Gpu | None = None


@dataclass
class ImageTask(Generic[Key]):
    """One image to render; `key` tells the caller which."""

    key: Key
    latents: np.ndarray
    row: int
    failures: list[str] = field(default_factory=list)


def serve(connection: Connection, settings: RenderSettings, slot: WorkerSlot) -> None:
    """Render what comes down the pipe until the parent closes it, or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    try:
        renderer = settings.renderer(slot.threads, slot.gpu)
    except ImportError as error:  # no Blender: there is no use in trying again
        connection.send(error)
        return
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            latents = connection.recv()
            try:
                answer: Any = renderer.render(settings.state(latents))
            except (RuntimeError, MemoryError) as error:  # how Blender reports a failed render
                answer = " ".join(str(error).split())
            connection.send(answer)


class _Worker:
    """The parent's end of one worker."""

    def __init__(self, settings: RenderSettings, slot: WorkerSlot) -> None:
        self.slot = slot
        self.tasks: deque[ImageTask] = deque()  # the first is being rendered
        self.given = 0
        self.connection, theirs = _spawn.Pipe()
        self.process = _spawn.Process(target=serve, args=(theirs, settings, slot), daemon=True)
        self.process.start()
        theirs.close()  # or the pipe would not break when the worker dies

    def give(self, task: ImageTask) -> None:
        self.tasks.append(task)
        self.given += 1
        with contextlib.suppress(BrokenPipeError):  # dead already: `take` will tell
            self.connection.send(task.latents)

    def take(self) -> tuple[ImageTask, np.ndarray | str]:
        """Hand the first task back with its image, or with the reason why there is none."""
        task = self.tasks.popleft()
        try:
            answer = self.connection.recv()
        except (EOFError, ConnectionResetError):
            self.process.join()
            code = self.process.exitcode or 0  # below 0: the signal that ended it
            died = f"its worker died of {_signal_name(-code)}" if code < 0 else f"exit code {code}"
            return task, died
        if isinstance(answer, ImportError):
            raise answer
        return task, answer

    def stop(self) -> None:
        self.connection.close()
        if self.process.is_alive():
            self.process.terminate()
        self.process.join()


class WorkerPool:
    """Workers in the given slots; a context manager.

    Args:
        settings: What to render.
        slots: Where; one worker each.
        say: Called with a sentence when a worker is replaced after a failure.
        restart_after: Images after which a worker is replaced by a fresh one.
    """

    def __init__(
        self,
        settings: RenderSettings,
        slots: list[WorkerSlot],
        say: Callable[[str], None],
        restart_after: int = RESTART_AFTER,
    ) -> None:
        self._settings, self._say, self._restart_after = settings, say, restart_after
        self._workers = [_Worker(settings, slot) for slot in slots]

    def __enter__(self) -> "WorkerPool":
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.stop()

    def pids(self) -> list[int | None]:
        """Process numbers of the workers there are now."""
        return [worker.process.pid for worker in self._workers]

    def run(self, tasks: Iterable[ImageTask[Key]]) -> Iterator[tuple[ImageTask[Key], np.ndarray]]:
        """Render all tasks and yield each with its image, in the order they are finished.

        Tasks are taken one at a time, whenever a worker has fewer than two.

        Raises:
            DataError: A row failed three times.
        """
        waiting, again = iter(tasks), list[ImageTask[Key]]()
        while True:
            for number in [*range(len(self._workers))] * HANDED:  # all have one before any has two
                if self._accepts(self._workers[number]):
                    task = next(waiting, None) if not again else again.pop()
                    if task is not None:
                        self._ready(number).give(task)
            busy: dict[Any, _Worker] = {w.connection: w for w in self._workers if w.tasks}
            if not busy:
                return
            for connection in wait(list(busy)):
                worker = busy[connection]
                rendered, answer = worker.take()
                if not isinstance(answer, str):
                    yield rendered, answer
                    continue
                self._note_failure(rendered, answer)
                again.append(rendered)
                if not worker.process.is_alive():  # the other row is not to blame
                    again.extend(worker.tasks)
                    worker.tasks.clear()

    def _accepts(self, worker: _Worker) -> bool:
        """Whether a worker takes another row; one with none does, or a fresh one in its place."""
        count = len(worker.tasks)
        return not count or (count < HANDED and worker.given < self._restart_after)

    def _ready(self, number: int) -> _Worker:
        """Get a worker, or a fresh one in its slot if it is dead or has done its share."""
        worker = self._workers[number]
        done = worker.given >= self._restart_after or not worker.process.is_alive()
        if done and not worker.tasks:
            worker.stop()
            worker = self._workers[number] = _Worker(self._settings, worker.slot)
        return worker

    def _note_failure(self, task: ImageTask, reason: str) -> None:
        task.failures.append(reason)
        if len(task.failures) == ATTEMPTS:
            values = ", ".join(f"{value:.9g}" for value in task.latents)
            raise DataError(
                f"Row {task.row} failed {ATTEMPTS} times ({'; '.join(task.failures)}). "
                f"Its latents are [{values}]. What was rendered is kept."
            )
        self._say(f"Row {task.row}: {reason}; trying again.")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
