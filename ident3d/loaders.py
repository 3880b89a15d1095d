"""Torch loaders: batches of pairs, and single images with their latents.

    loader = PairLoader(Pairs(data, Normal(0.1), seed=0), batch_size=512, num_workers=4)
    for anchors, positives, _ in loader:
        anchors.images        # uint8 (512, 3, H, W), on `device`, or what `transform` made of it

What batch b of epoch e holds depends on (seed, e, b, rank) alone: the number of workers, the way
they start and interruptions change nothing.
"""

from collections.abc import Callable, Iterator
from typing import Any

import faiss
import numpy as np

from .dataset import Dataset
from .pairs import Batch, Pairs, View

try:
    import torch
except ImportError as error:
    raise ImportError(
        "Loaders need PyTorch: `pip install 'ident3d[torch]'`. `ident3d.Pairs` does without."
    ) from error

Transform = Callable[[Any], Any]


class PairLoader:
    """Iterates over epochs of pair batches; an epoch makes (nearly) every row an anchor once.

    Each `for` loop runs to the end of an epoch and the next begins another. A loop that was left
    early is continued by the next one, and so is an epoch restored with `load_state_dict`. Rows
    that do not fill a batch on every rank sit the epoch out; each epoch has its own order.

    Args:
        pairs: Where pairs come from; its seed is the loader's.
        batch_size: Pairs in a batch, on each rank.
        transform: Applied to each batch of images, uint8 (n, 3, H, W), on `device`; its torch
            randomness depends on (seed, epoch, batch, rank) alone. `ident3d.augment` has some.
        device: Where batches go. Pinned memory is used for CUDA alone.
        num_workers: Processes that prepare batches; 0 for this one.
        start_method: `"fork"` or `"spawn"`; the platform's own by default.
        rank: This process's number among `world_size`; both from `torch.distributed` by default.
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
        self.rank, self.world_size = _place(rank, world_size)
        rows = len(pairs.data.latents)
        if not 1 <= batch_size * self.world_size <= rows:
            raise ValueError(
                f"`batch_size` must be between 1 and {rows // self.world_size}: {rows:,} rows "
                f"shared by {self.world_size} processes; got {batch_size}."
            )
        self._position = _Position(rows // (batch_size * self.world_size))
        self._loader = torch.utils.data.DataLoader(
            _PairBatches(pairs, batch_size, self.rank, self.world_size),
            batch_size=None,  # an item is a batch already
            sampler=self._position,
            num_workers=num_workers,
            multiprocessing_context=start_method if num_workers else None,
            persistent_workers=num_workers > 0,
            pin_memory=self.device.type == "cuda",
            worker_init_fn=_one_thread,
            generator=torch.Generator(),  # torch would draw a worker seed from the user's stream
        )

    def __len__(self) -> int:
        """Batches in an epoch, on each rank."""
        return self._position.batches

    @property
    def epoch(self) -> int:
        """The number of the epoch that runs, or ran last; the first is 0."""
        return self._position.epoch

    def __iter__(self) -> Iterator[Batch]:
        """Run to the end of the epoch."""
        position = self._position
        if position.next >= len(self):
            position.epoch, position.next = position.epoch + 1, 0
        for batch in self._loader:
            position.next += 1  # before it is handed over, so that a state taken then is past it
            yield self._deliver(batch, position.next - 1)

    def state_dict(self) -> dict[str, Any]:
        """Say which batch comes next, and of which loader; the same on every rank."""
        return {"epoch": self.epoch, "batch": self._position.next, **self._identity()}

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
        self._position.epoch, self._position.next = epoch, batch

    def __repr__(self) -> str:
        return (
            f"PairLoader({self.pairs!r}, {len(self):,} batches of {self.batch_size}, "
            f"rank {self.rank} of {self.world_size})"
        )

    def _identity(self) -> dict[str, Any]:
        return {
            "seed": self.pairs.seed,
            "conditional": str(self.pairs.conditional),
            "method": self.pairs.method,
            "data": self.pairs.data.fingerprint,
            "batch_size": self.batch_size,
            "world_size": self.world_size,
        }

    def _deliver(self, batch: Batch, number: int) -> Batch:
        """Move a batch to the device and transform its images there."""
        seed = np.random.SeedSequence([self.pairs.seed, self.epoch, number, self.rank, 1])
        views = (view and self._move(view) for view in batch)
        if self.transform is None:
            return Batch(*views)
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices):
            torch.manual_seed(int(seed.generate_state(1, np.uint64)[0]))
            return Batch(
                *(view and view._replace(images=self.transform(view.images)) for view in views)
            )

    def _move(self, view: View) -> View:
        return View(*(part.to(self.device, non_blocking=True) for part in view))


class _PairBatches(torch.utils.data.Dataset):
    """Makes the batch of an address (epoch, number); runs in the workers."""

    def __init__(self, pairs: Pairs, batch_size: int, rank: int, world_size: int) -> None:
        self._pairs = pairs
        self._size = batch_size
        self._rank = rank
        self._world_size = world_size
        self._order: tuple[int, np.ndarray] | None = None

    def __getitem__(self, address: tuple[int, int]) -> Batch:
        epoch, number = address
        start = (number * self._world_size + self._rank) * self._size
        anchors = self._permutation(epoch)[start : start + self._size]
        rng = np.random.default_rng([self._pairs.seed, epoch, number, self._rank])
        batch = self._pairs.gather(self._pairs.rows_for(anchors, rng))
        return Batch(*(view and _tensors(view) for view in batch))

    def _permutation(self, epoch: int) -> np.ndarray:
        if self._order is None or self._order[0] != epoch:
            rng = np.random.default_rng([self._pairs.seed, epoch])
            self._order = epoch, rng.permutation(len(self._pairs.data.latents))
        return self._order[1]


class _Position(torch.utils.data.Sampler):
    """Where a loader stands; as a sampler, the addresses (epoch, number) left in the epoch.

    It does not know its loader: in a cycle, workers would outlive it until the garbage collector.
    """

    def __init__(self, batches: int) -> None:
        self.batches = batches
        self.epoch = 0
        self.next = 0  # number of the batch handed over next

    def __iter__(self) -> Iterator[tuple[int, int]]:
        yield from ((self.epoch, number) for number in range(self.next, self.batches))


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
        rows = np.asarray(rows)
        images = torch.from_numpy(self.data.images[rows]).permute(0, 3, 1, 2)
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
        for label, transform in [
            ("Transform", self.transform),
            ("Target transform", self.target_transform),
        ]:
            if transform is not None:
                text = repr(transform).replace("\n", "\n" + " " * (len(label) + 6))
                lines.append(f"    {label}: {text}")
        return "\n".join(lines)


def _tensors(view: View) -> View:
    """Wrap arrays as tensors, uncopied; images become (n, 3, H, W), channels last in memory."""
    rows, latents, images = map(torch.from_numpy, view)
    return View(rows, latents, images.permute(0, 3, 1, 2))


def _place(rank: int | None, world_size: int | None) -> tuple[int, int]:
    if (rank is None) != (world_size is None):
        raise ValueError("`rank` and `world_size` must be given together, or neither.")
    if rank is None:
        distributed = torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank(), distributed.get_world_size()
        return 0, 1
    if not 0 <= rank < world_size:
        raise ValueError(f"`rank` must be between 0 and {world_size - 1}, got {rank}.")
    return rank, world_size


def _one_thread(_: int) -> None:
    # Each worker is one core's worth of work; FAISS would start a thread for every core in each.
    faiss.omp_set_num_threads(1)


def _same(value: Any) -> Any:
    return value
