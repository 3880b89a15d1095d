"""Epochs of pair batches: what batch b of epoch e holds depends on (seed, e, b, rank) alone."""

import itertools
import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from ..errors import whole
from .batches import Batch
from .buffers import Allocate, Buffers

if TYPE_CHECKING:
    from .pairs import Pairs

B = TypeVar("B")

# Random streams of one address (seed, epoch, batch, rank) are told apart by a number. SeedSequence
# takes [a, b] and [a, b, 0, 0] for the same, so a stream of fewer numbers needs one, too.
TRANSFORM, ORDER = 1, 2
_NONE: tuple[int, Iterator[Any]] = -1, iter(())


class Resumable(ABC, Generic[B]):
    """Iterates over epochs of batches; an epoch makes (nearly) every row an anchor once.

    Each `for` loop runs to the end of an epoch and the next begins another; `forever` runs through
    epoch after epoch. A loop that was left early is continued by the next one; `seek` and
    `load_state_dict` continue an earlier run. Rows that do not fill a batch on every rank sit the
    epoch out; each epoch has its own order.
    """

    def __init__(self, pairs: "Pairs", batch_size: int) -> None:
        self.pairs = pairs
        self.batch_size = whole(batch_size, "batch_size")
        self._step = 0  # number of the batch handed over next, counted through all epochs
        # Batches from some step on, without end: reading ahead does not stop where an epoch does.
        self._stream: tuple[int, Iterator[B]] = _NONE
        self._opener = os.getpid()  # a fork gets the stream, but not the thread that feeds it

    @property
    def rank(self) -> int:
        """This process's number among `world_size`."""
        return self._maker().rank

    @property
    def world_size(self) -> int:
        """How many processes share each epoch."""
        return self._maker().world_size

    def __len__(self) -> int:
        """Batches in an epoch, on each rank."""
        return self._maker().per_epoch

    @abstractmethod
    def _maker(self) -> "BatchMaker":
        """Give what makes this rank's batches."""

    @abstractmethod
    def _open(self, step: int) -> Iterator[B]:
        """Give batches from `step` on, without end; must not know the loader, or outlives it."""

    @property
    def epoch(self) -> int:
        """The number of the epoch that runs, or ran last; the first is 0."""
        return max(self._step - 1, 0) // len(self)

    def __iter__(self) -> Iterator[B]:
        """Run to the end of the epoch."""
        end = (self._step // len(self) + 1) * len(self)
        while self._step < end:
            yield self._next()

    def forever(self) -> Iterator[B]:
        """Run through one epoch after another, without end."""
        while True:
            yield self._next()

    def seek(self, step: int) -> None:
        """Continue with batch `step`, counted through all epochs from 0."""
        self._step = whole(step, "step", 0)

    def state_dict(self) -> dict[str, Any]:
        """Say which batch comes next, and of what; the same on every rank."""
        batch = self._step - self.epoch * len(self)
        return {"epoch": self.epoch, "batch": batch, **self._identity()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue exactly where `state_dict` was taken."""
        for name, mine in self._identity().items():
            if state.get(name) != mine:
                raise ValueError(
                    f"`state` was taken with {name} {state.get(name)!r}, this loader has {mine!r}."
                )
        epoch, batch = state.get("epoch"), state.get("batch")
        if type(epoch) is not int or type(batch) is not int or not 0 <= batch <= len(self):
            raise ValueError(f"`state` names no batch of this loader: {epoch!r}, {batch!r}.")
        self.seek(epoch * len(self) + batch)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.pairs!r}, {len(self):,} batches of {self.batch_size}, "
            f"rank {self.rank} of {self.world_size})"
        )

    def _identity(self) -> dict[str, Any]:
        sizes = {"batch_size": self.batch_size, "world_size": self.world_size}
        return self.pairs.settings() | sizes

    def _next(self) -> B:
        step, (upcoming, stream) = self._step, self._stream
        if upcoming != step or self._opener != os.getpid():
            stream, self._opener = self._open(step), os.getpid()
        self._stream = _NONE  # a stream that fails is not continued
        batch = next(stream)
        self._stream = step + 1, stream
        self._step = step + 1  # before it is handed over, so that a state taken then is past it
        return self._deliver(batch, step)

    def _deliver(self, batch: B, step: int) -> B:
        """Do what must be done in the process that uses the batch."""
        return batch

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without the stream: the receiving process opens its own."""
        return {**self.__dict__, "_stream": _NONE}


class BatchMaker:
    """Makes the batch of any step; runs in threads and in workers. Arguments: `PairLoader`'s."""

    def __init__(self, pairs: "Pairs", batch_size: int, rank: int, world_size: int) -> None:
        rows = len(pairs.anchors)
        self.world_size = whole(world_size, "world_size", 1, rows, "the rows there are")
        self.rank = whole(rank, "rank", 0, world_size - 1)
        shared = f"{rows:,} rows shared by {world_size} processes"
        batch_size = whole(batch_size, "batch_size", 1, rows // world_size, shared)
        self.per_epoch = rows // (batch_size * world_size)
        self._pairs, self._size = pairs, batch_size
        self._order: tuple[int, np.ndarray] | None = None

    def __call__(self, step: int, allocate: Allocate) -> Batch:
        """Make the batch of a step, counted through all epochs, in memory from `allocate`."""
        epoch, number = divmod(step, self.per_epoch)
        start = (number * self.world_size + self.rank) * self._size
        order = self._permutation(epoch)
        anchors = order[start : start + self._size].copy()  # of which its user may write
        rng = np.random.default_rng([self._pairs.seed, epoch, number, self.rank])
        return self._pairs.gather(self._pairs.rows_for(anchors, rng), allocate)

    def _permutation(self, epoch: int) -> np.ndarray:
        if self._order is None or self._order[0] != epoch:
            rng = np.random.default_rng([self._pairs.seed, epoch, 0, 0, ORDER])
            self._order = epoch, rng.permutation(self._pairs.anchors)
        return self._order[1]


class Epochs(Resumable[Batch]):
    """Epochs of batches as numpy arrays; the next batch is read while one is in use.

    Arguments are those of `Pairs.epochs`.
    """

    def __init__(
        self, pairs: "Pairs", batch_size: int, *, rank: int = 0, world_size: int = 1
    ) -> None:
        super().__init__(pairs, batch_size)
        self._make = BatchMaker(pairs, batch_size, rank, world_size)

    def _maker(self) -> BatchMaker:
        return self._make

    def _open(self, step: int) -> Iterator[Batch]:
        return read_ahead(partial(self._make, allocate=Buffers()), step)


def read_ahead(make: Callable[[int], B], first: int) -> Iterator[B]:
    """Make batches from `first` on in a thread: each while the one before it is in use."""
    reader = ThreadPoolExecutor(1)
    try:
        ahead = deque([reader.submit(make, first)])
        for step in itertools.count(first + 1):
            ahead.append(reader.submit(make, step))
            yield ahead.popleft().result()  # and hold it no longer: its memory can be used again
    finally:  # not waited for: garbage may be collected, and this be closed, in that very thread
        reader.shutdown(wait=False, cancel_futures=True)
