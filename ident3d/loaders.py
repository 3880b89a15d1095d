"""Torch loaders: batches of pairs, and single images with their latents.

    loader = PairLoader(Pairs(data, Normal(0.1), seed=0), batch_size=512, num_workers=4)
    for anchors, positives, _ in loader:        # one epoch; `loader.forever()` goes on
        anchors.images        # uint8 (512, 3, H, W), on `device`, or what `transform` made of it

What batch b of epoch e holds depends on (seed, e, b, rank) alone: the number of workers, the way
they start and interruptions change nothing.
"""

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, NamedTuple

import faiss
import numpy as np

from .dataset import Dataset
from .pairs import Pairs, View

try:
    import torch
except ImportError as error:
    raise ImportError(
        "Loaders need PyTorch: `pip install 'ident3d[torch]'`. `ident3d.Pairs` does without."
    ) from error

Transform = Callable[[Any], Any]


class TensorView(NamedTuple):
    """Some rows of a data set, as tensors."""

    rows: torch.Tensor  # int64 (n,)
    latents: torch.Tensor  # float32 (n, d)
    images: torch.Tensor  # uint8 (n, 3, H, W), channels last in memory


class TensorBatch(NamedTuple):
    """Anchors, their positives, and their hard negatives where those were requested."""

    anchors: TensorView
    positives: TensorView
    negatives: TensorView | None

    def map(self, change: Callable[[TensorView], TensorView]) -> "TensorBatch":
        """Change every view in the same way."""
        negatives = None if self.negatives is None else change(self.negatives)
        return TensorBatch(change(self.anchors), change(self.positives), negatives)


class PairLoader:
    """Iterates over epochs of pair batches; an epoch makes (nearly) every row an anchor once.

    Each `for` loop runs to the end of an epoch and the next begins another; `forever` runs through
    epoch after epoch. A loop that was left early is continued by the next one; `seek` and
    `load_state_dict` continue an earlier run. Rows that do not fill a batch on every rank sit the
    epoch out; each epoch has its own order.

    Args:
        pairs: Where pairs come from; its seed is the loader's.
        batch_size: Pairs in a batch, on each rank.
        transform: Applied to each batch of images, uint8 (n, 3, H, W), on `device`; its torch
            randomness depends on (seed, epoch, batch, rank) alone. `ident3d.augment` has some.
        device: Where batches go. Pinned memory is used for CUDA alone.
        num_workers: Processes that prepare batches; 0 for a thread, which reads one batch ahead.
        start_method: `"fork"` or `"spawn"`; the platform's own by default.
        rank: This process's number among `world_size`; both from `torch.distributed` by default,
            as it is when the loader is first used.
        world_size: How many processes share each epoch.
    """

    def __init__(
        self,
        pairs: Pairs,
        batch_size: int,
        *,
        transform: Transform | None = None,
        device: str | torch.device = "cpu",
        num_workers: int = 0,
        start_method: str | None = None,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        self.pairs = pairs
        self.batch_size = batch_size
        self.transform = transform
        self.device = torch.device(device)
        self._workers = num_workers
        self._start_method = start_method
        self._place = rank, world_size
        self._step = 0  # number of the batch handed over next, counted through all epochs
        # Batches from some step on, without end: reading ahead does not stop where an epoch does.
        self._stream: tuple[int, Iterator[TensorBatch]] = -1, iter(())
        if rank is not None or world_size is not None:
            len(self)  # refuses wrong ones here and now

    def __len__(self) -> int:
        """Batches in an epoch, on each rank."""
        return self._batches.per_epoch

    @property
    def rank(self) -> int:
        """This process's number among `world_size`."""
        return self._batches.rank

    @property
    def world_size(self) -> int:
        """How many processes share each epoch."""
        return self._batches.world_size

    @property
    def epoch(self) -> int:
        """The number of the epoch that runs, or ran last; the first is 0."""
        return max(self._step - 1, 0) // len(self)

    def __iter__(self) -> Iterator[TensorBatch]:
        """Run to the end of the epoch."""
        end = (self._step // len(self) + 1) * len(self)
        while self._step < end:
            yield self._next()

    def forever(self) -> Iterator[TensorBatch]:
        """Run through one epoch after another, without end."""
        while True:
            yield self._next()

    def seek(self, step: int) -> None:
        """Continue with batch `step`, counted through all epochs from 0."""
        if step < 0:
            raise ValueError(f"`step` must be at least 0, got {step}.")
        self._step = int(step)

    def state_dict(self) -> dict[str, Any]:
        """Say which batch comes next, and of which loader; the same on every rank."""
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
            f"PairLoader({self.pairs!r}, {len(self):,} batches of {self.batch_size}, "
            f"rank {self.rank} of {self.world_size})"
        )

    def _identity(self) -> dict[str, Any]:
        sizes = {"batch_size": self.batch_size, "world_size": self.world_size}
        return self.pairs.settings() | sizes

    @cached_property
    def _batches(self) -> "_PairBatches":
        return _PairBatches(self.pairs, self.batch_size, *_resolve(*self._place))

    def _next(self) -> TensorBatch:
        step, (upcoming, stream) = self._step, self._stream
        if upcoming != step:
            stream = self._open(step)
        self._stream = -1, iter(())  # a stream that fails is not continued
        batch = next(stream)
        self._stream = step + 1, stream
        self._step = step + 1
        return self._deliver(batch, step)

    def _open(self, step: int) -> Iterator[TensorBatch]:
        """Read batches from `step` on. Streams must not know the loader, or they outlive it."""
        pin = self.device.type == "cuda"
        if not self._workers:
            return _read_ahead(self._batches, step, pin)
        return iter(
            torch.utils.data.DataLoader(
                self._batches,
                batch_size=None,  # an item is a batch already
                sampler=itertools.count(step),
                num_workers=self._workers,
                multiprocessing_context=self._start_method,
                pin_memory=pin,
                worker_init_fn=_one_thread,
                generator=torch.Generator(),  # torch would draw a seed from the user's stream
            )
        )

    def _deliver(self, batch: TensorBatch, step: int) -> TensorBatch:
        """Move a batch to the device and transform its images there."""
        batch = batch.map(self._move)
        transform = self.transform
        if transform is None:
            return batch
        address = (*divmod(step, len(self)), self.rank)
        seed = np.random.SeedSequence([self.pairs.seed, *address, _TRANSFORM])
        with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(int(seed.generate_state(1, np.uint64)[0]))
            return batch.map(lambda view: view._replace(images=transform(view.images)))

    def _move(self, view: TensorView) -> TensorView:
        return TensorView(*(part.to(self.device, non_blocking=True) for part in view))


# Numbers that part random streams of one address (seed, epoch, batch, rank). SeedSequence takes
# [a, b] and [a, b, 0, 0] for the same, so a stream of fewer numbers needs one, too.
_TRANSFORM, _ORDER = 1, 2


class _PairBatches(torch.utils.data.Dataset[TensorBatch]):
    """Makes the batch of a step; runs in a thread or in workers."""

    def __init__(self, pairs: Pairs, batch_size: int, rank: int, world_size: int) -> None:
        self.rank, self.world_size = rank, world_size
        self._pairs = pairs
        self._size = batch_size
        self._order: tuple[int, np.ndarray] | None = None
        rows = len(pairs.data.latents)
        if not 1 <= batch_size * world_size <= rows:
            raise ValueError(
                f"`batch_size` must be between 1 and {rows // world_size}: {rows:,} rows "
                f"shared by {world_size} processes; got {batch_size}."
            )
        self.per_epoch = rows // (batch_size * world_size)

    def __getitem__(self, step: int) -> TensorBatch:
        epoch, number = divmod(step, self.per_epoch)
        start = (number * self.world_size + self.rank) * self._size
        anchors = self._permutation(epoch)[start : start + self._size]
        rng = np.random.default_rng([self._pairs.seed, epoch, number, self.rank])
        batch = self._pairs.gather(self._pairs.rows_for(anchors, rng))
        negatives = None if batch.negatives is None else _tensors(batch.negatives)
        return TensorBatch(_tensors(batch.anchors), _tensors(batch.positives), negatives)

    def _permutation(self, epoch: int) -> np.ndarray:
        if self._order is None or self._order[0] != epoch:
            rng = np.random.default_rng([self._pairs.seed, epoch, 0, 0, _ORDER])
            self._order = epoch, rng.permutation(len(self._pairs.data.latents))
        return self._order[1]


def _read_ahead(batches: _PairBatches, first: int, pin: bool) -> Iterator[TensorBatch]:
    """Read batches in a thread: each while the one before it is in use."""

    def read(step: int) -> TensorBatch:
        return batches[step].map(_pinned) if pin else batches[step]

    with ThreadPoolExecutor(1) as reader:
        ahead = reader.submit(read, first)
        for step in itertools.count(first + 1):
            current, ahead = ahead, reader.submit(read, step)
            yield current.result()


class ImageDataset(torch.utils.data.Dataset):
    """Images and their latents, one by one or in lists, for torch's own `DataLoader`.

    Args:
        data: What `ident3d.load` gives.
        transform: Applied to each image, a uint8 tensor (3, H, W).
        target_transform: Applied to each row's latents, a float32 tensor (d,).
    """

    def __init__(
        self,
        data: Dataset,
        transform: Transform | None = None,
        target_transform: Transform | None = None,
    ) -> None:
        self.data = data
        self.transform = transform
        self.target_transform = target_transform

    def __len__(self) -> int:
        return len(self.data.latents)

    def __getitem__(self, row: int) -> tuple[Any, Any]:
        return self.__getitems__([row])[0]

    def __getitems__(self, rows: list[int]) -> list[tuple[Any, Any]]:
        """Read several rows at once; torch's `DataLoader` asks for whole batches."""
        images = as_tensor(self.data.images[rows])
        targets = torch.from_numpy(self.data.latents[rows])
        transform, target_transform = self.transform or _same, self.target_transform or _same
        return [
            (transform(image), target_transform(target))
            for image, target in zip(images, targets, strict=True)
        ]

    def __repr__(self) -> str:
        lines = [
            f"Dataset {type(self).__name__}",
            f"    Number of datapoints: {len(self)}",
            f"    Root location: {self.data.path}",
        ]
        changes = {"Transform": self.transform, "Target transform": self.target_transform}
        lines += [f"    {label}: {change!r}" for label, change in changes.items() if change]
        return "\n".join(lines)


def as_tensor(images: np.ndarray) -> torch.Tensor:
    """Wrap images (n, H, W, 3) as a tensor (n, 3, H, W), uncopied: channels last in memory."""
    return torch.from_numpy(images).permute(0, 3, 1, 2)


def _tensors(view: View) -> TensorView:
    rows, latents = map(torch.from_numpy, view[:2])
    return TensorView(rows, latents, as_tensor(view.images))


def _pinned(view: TensorView) -> TensorView:
    return TensorView(*(part.pin_memory() for part in view))


def _resolve(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Check a place among processes that was given, or ask `torch.distributed`."""
    if rank is None and world_size is None:
        distributed = torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank(), distributed.get_world_size()
        return 0, 1
    if rank is None or world_size is None:
        raise ValueError("`rank` and `world_size` must be given together, or neither.")
    if not 0 <= rank < world_size:
        raise ValueError(f"`rank` must be between 0 and {world_size - 1}, got {rank}.")
    return rank, world_size


def _one_thread(_: int) -> None:
    # Each worker is one core's worth of work; FAISS would start a thread for every core in each.
    faiss.omp_set_num_threads(1)


def _same(value: Any) -> Any:
    return value
