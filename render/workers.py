"""Local execution: worker processes, each with its own Blender, that are handed row after row.

Workers keep nothing: the parent stores what they send back. So a worker may die at any time; it is
replaced and its row is tried again.
"""

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Any, Generic, TypeVar

import numpy as np

from ident3d.errors import DataError

from .blender import Gpu, Renderer
from .presets import Quality
from .scene import scene_state
from .spec import Content

RESTART_AFTER = 2000  # images; Blender's memory grows a little with each
ATTEMPTS = 3  # a row is tried again twice

_spawn = multiprocessing.get_context("spawn")  # Blender does not survive a fork


@dataclass(frozen=True)
class Seat:
    """Where one worker renders."""

    threads: int = 0  # 0: all
    gpu: Gpu | None = None


@dataclass(frozen=True)
class Look:
    """What a worker needs to know of the content."""

    quality: Quality
    resolution: int
    hue: str
    verbose: bool = False

    @classmethod
    def of(cls, content: Content, verbose: bool = False) -> "Look":
        """Take it from the content."""
        return cls(content.quality, content.resolution, content.hue, verbose)


Key = TypeVar("Key")


@dataclass
class Task(Generic[Key]):
    """One image to render; `key` tells the caller which."""

    key: Key
    latents: np.ndarray
    row: int
    failures: list[str] = field(default_factory=list)


def serve(connection: Connection, look: Look, seat: Seat) -> None:
    """Render what comes down the pipe until the parent closes it, or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    os.environ["OIDN_NUM_THREADS"] = str(seat.threads)  # before Blender loads; 0 is all
    try:
        renderer = Renderer(look.quality, look.resolution, seat.threads, seat.gpu, look.verbose)
    except ImportError as error:  # no Blender: there is no use in trying again
        connection.send(error)
        return
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            latents = connection.recv()
            try:
                answer: Any = renderer.render(scene_state(latents, look.hue))
            except (RuntimeError, MemoryError) as error:  # how Blender reports a failed render
                answer = " ".join(str(error).split())
            connection.send(answer)


class _Worker:
    """The parent's end of one worker."""

    def __init__(self, look: Look, seat: Seat) -> None:
        self.seat = seat
        self.task: Task | None = None
        self.images = 0
        self.connection, theirs = _spawn.Pipe()
        self.process = _spawn.Process(target=serve, args=(theirs, look, seat), daemon=True)
        self.process.start()
        theirs.close()  # or the pipe would not break when the worker dies

    def give(self, task: Task) -> None:
        self.task = task
        with contextlib.suppress(BrokenPipeError):  # dead already: `take` will tell
            self.connection.send(task.latents)

    def take(self) -> np.ndarray | str:
        """Receive the image, or the reason why there is none."""
        try:
            answer = self.connection.recv()
        except (EOFError, ConnectionResetError):
            self.process.join()
            code = self.process.exitcode
            return f"its worker died of {_signal_name(-code)}" if code < 0 else f"exit code {code}"
        if isinstance(answer, ImportError):
            raise answer
        self.images += 1
        return answer

    def alive(self) -> bool:
        return self.process.is_alive()

    def stop(self) -> None:
        self.connection.close()
        if self.process.is_alive():
            self.process.terminate()
        self.process.join()


class Pool:
    """Workers on the given seats; a context manager.

    Args:
        look: What to render.
        seats: Where; one worker each.
        say: Called with a sentence when a worker is replaced after a failure.
        restart_after: Images after which a worker is replaced by a fresh one.
    """

    def __init__(
        self,
        look: Look,
        seats: list[Seat],
        say: Callable[[str], None],
        restart_after: int = RESTART_AFTER,
    ) -> None:
        self._look, self._say, self._restart_after = look, say, restart_after
        self._workers = [_Worker(look, seat) for seat in seats]

    def __enter__(self) -> "Pool":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for worker in self._workers:
            worker.stop()

    def pids(self) -> list[int]:
        """Process numbers of the workers there are now."""
        return [worker.process.pid for worker in self._workers]

    def run(self, tasks: Iterable[Task[Key]]) -> Iterator[tuple[Task[Key], np.ndarray]]:
        """Render all tasks and yield each with its image, in the order they are finished.

        Tasks are taken one at a time, whenever a worker has nothing to do.

        Raises:
            DataError: A row failed three times.
        """
        tasks = iter(tasks)
        again: list[Task[Key]] = []
        while True:
            for place, worker in enumerate(self._workers):
                if worker.task is None and (task := again.pop() if again else next(tasks, None)):
                    self._ready(place).give(task)
            busy = {w.connection: place for place, w in enumerate(self._workers) if w.task}
            if not busy:
                return
            for connection in wait(list(busy)):
                worker = self._workers[busy[connection]]
                task, answer = worker.task, worker.take()
                worker.task = None
                if isinstance(answer, str):
                    self._note_failure(task, answer)
                    again.append(task)
                else:
                    yield task, answer

    def _ready(self, place: int) -> _Worker:
        """The worker at a place, or a fresh one if it is dead or has done its share."""
        worker = self._workers[place]
        if worker.images >= self._restart_after or not worker.alive():
            worker.stop()
            worker = self._workers[place] = _Worker(self._look, worker.seat)
        return worker

    def _note_failure(self, task: Task, reason: str) -> None:
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
