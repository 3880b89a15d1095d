"""Training by several processes, as `torchrun` starts them: what a rank does with the others.

    torchrun --nproc-per-node 4 -m ident3d benchmark run table4/1 --data DATA

Each rank embeds its share of a batch. Embeddings are small: all ranks gather all of them, and
compute the loss of the whole batch and its gradient. What grows with the square of the batch, its
pairs, is shared among them (`losses/_pairwise.py`). Each rank then carries the gradient of its own
rows on to the weights, and the weights' gradients are summed: exactly those of one process.

torch's DistributedDataParallel averages the gradients of losses that ranks have on their own, as
soon as any backward pass ends. This loss is of all rows at once, and its backward pass may come in
pieces, so one sum at the end is both simpler and exact.
"""

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta

import torch
from torch import Tensor, distributed

from ident3d.errors import DataError

PATIENCE = timedelta(days=2)  # that ranks wait for the first, which scores; a dead one is noticed
AGAIN = "run again to go on from the last checkpoint."


@dataclass(frozen=True)
class Ranks:
    """This process among those that train together; a single process is the only one."""

    rank: int = 0
    world: int = 1  # how many there are

    @property
    def first(self) -> bool:
        """Whether it is the one that scores, writes and speaks."""
        return self.rank == 0

    def share(self, count: int) -> slice:
        """Return this rank's part of some rows."""
        return slice(self.rank * count // self.world, (self.rank + 1) * count // self.world)

    def gather(self, tensor: Tensor) -> Tensor:
        """Return the tensors of all ranks, (world, ...), on every rank."""
        if self.world == 1:
            return tensor[None]
        found = tensor.new_empty((self.world, *tensor.shape))
        with _together():
            distributed.all_gather_into_tensor(found.view(-1), tensor.reshape(-1))
        return found

    def sum_(self, tensors: Sequence[Tensor]) -> None:
        """Put into all tensors their sums over ranks, by one message."""
        if self.world == 1 or not tensors:
            return
        with torch.no_grad(), _together():
            whole = torch.cat([tensor.reshape(-1) for tensor in tensors])
            distributed.all_reduce(whole)
            _put(whole, tensors)

    def copy_first(self, tensors: Sequence[Tensor]) -> None:
        """Put into all tensors what they hold on the first rank."""
        if self.world == 1:
            return
        with torch.no_grad(), _together():
            for tensor in tensors:  # each by itself: some hold numbers, some count
                whole = tensor.reshape(-1).clone()
                distributed.broadcast(whole, 0)
                _put(whole, [tensor])

    def agree(self, values: Sequence[float]) -> list[float]:
        """Return the first rank's numbers."""
        said = torch.tensor(values, dtype=torch.float64)
        self.copy_first([said])
        return said.tolist()


ALONE = Ranks()
_SHARING: ContextVar[Ranks] = ContextVar("sharing", default=ALONE)


def here() -> Ranks:
    """Return this process's place among those of `torch.distributed`, if there are any."""
    if distributed.is_available() and distributed.is_initialized():
        return Ranks(distributed.get_rank(), distributed.get_world_size())
    return ALONE


@contextmanager
def sharing(ranks: Ranks) -> Iterator[None]:
    """Let ranks, which all compute the same loss inside, share its pairs."""
    token = _SHARING.set(ranks)
    try:
        yield
    finally:
        _SHARING.reset(token)


def sharers() -> Ranks:
    """Return the ranks that share the loss which is computed now."""
    return _SHARING.get()


def whole_views(gathered: Tensor, lengths: Sequence[int]) -> list[Tensor]:
    """Return the views of the whole batch from those of all ranks, (world, rows, ...)."""
    return [view.flatten(0, 1) for view in gathered.split(list(lengths), 1)]


@contextmanager
def joined() -> Iterator[None]:
    """Be one of torchrun's processes: the first speaks, and if one fails, all end, one saying why.

    gloo carries what lies in memory, nccl what lies on GPUs, of which each process has its own.
    """
    gpus, local = torch.cuda.device_count(), int(os.environ.get("LOCAL_RANK", 0))
    if gpus:
        if local >= gpus:
            raise ValueError(f"`--nproc-per-node` must be at most {gpus}, the GPUs of this node.")
        torch.cuda.set_device(local)
    store, rank, world = next(iter(distributed.rendezvous("env://")))
    store = distributed.PrefixStore(f"ident3d-{_attempt()}", store)
    backends = "cpu:gloo,cuda:nccl" if gpus else "gloo"
    distributed.init_process_group(
        backends, store=store, rank=rank, world_size=world, timeout=PATIENCE
    )
    signal.signal(signal.SIGTERM, _end)
    end_with(os.getppid())
    try:
        with ExitStack() as silence:
            if not here().first:
                nowhere = silence.enter_context(open(os.devnull, "w"))
                silence.enter_context(redirect_stdout(nowhere))
                silence.enter_context(redirect_stderr(nowhere))
            yield
            here().sum_([torch.zeros(1)])  # all end together: the first is still scoring
    except (Exception, KeyboardInterrupt):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if not _speaks(store):
            sys.exit(1)
        raise
    distributed.destroy_process_group()


def end_with(parent: int) -> None:
    """End this process with a parent that is killed: nobody collects what it does."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)  # a run's checkpoint is whole at any instant

    threading.Thread(target=watch, daemon=True).start()


def _attempt() -> str:
    """Name torchrun's attempt, of which `--max-restarts` allows several.

    On one node all meet in one store, where the addresses of an earlier attempt still stand. Of
    several nodes each counts for itself, and torchrun makes a store for every attempt.
    """
    alone = os.environ.get("GROUP_WORLD_SIZE") == "1"
    return os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") if alone else "0"


def _speaks(store: distributed.Store) -> bool:
    """Whether this rank is the first to fail."""
    try:
        return store.add("failed", 1) == 1
    except RuntimeError:  # nobody is left to ask
        return True


def _end(*_: object) -> None:
    raise DataError(f"Ended by torchrun, as another rank has ended; {AGAIN}")


@contextmanager
def _together() -> Iterator[None]:
    """Say in a sentence that others are gone."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        cause = re.sub(r"^\[[^]]*\] *|(\. |\n).*", "", str(error).strip(), flags=re.DOTALL)
        raise DataError(f"Another rank has ended ({cause}); {AGAIN}") from error


def _put(whole: Tensor, tensors: Sequence[Tensor]) -> None:
    parts = whole.split([tensor.numel() for tensor in tensors])
    for tensor, part in zip(tensors, parts, strict=True):
        tensor.copy_(part.view(tensor.shape))
