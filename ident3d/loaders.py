"""Torch loaders: batches of pairs, and single images with their latents.

    loader = PairLoader(Pairs(data, Normal(0.1), seed=0), batch_size=512, num_workers=4)
    for anchors, positives in loader:           # one epoch; `loader.forever()` goes on
        anchors.images        # uint8 (512, 3, H, W), on `device`, or what `transform` made of it

What batch b of epoch e holds depends on (seed, e, b, rank) alone: the number of workers, the way
they start and interruptions change nothing.
"""

import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import faiss
import numpy as np
from PIL import Image

from .dataset import Dataset, load
from .errors import whole
from .pairs import Pairs, View
from .pairs.batches import ViewTuple, describe
from .pairs.buffers import Allocate, Buffers, Shape
from .pairs.epochs import TRANSFORM, BatchMaker, Resumable, read_ahead

try:
    import torch
except ImportError as error:
    raise ImportError(
        "Loaders need PyTorch: `pip install 'ident3d[torch]'`. `ident3d.Pairs` does without."
    ) from error

from .augment import draw_for_each, takes_pil

Transform = Callable[[Any], Any]


class TensorView(NamedTuple):
    """Some rows of a data set, as tensors."""

    rows: torch.Tensor  # int64 (n,)
    latents: torch.Tensor  # float32 (n, d)
    images: torch.Tensor  # uint8 (n, 3, H, W), channels last in memory

    def map(self, change: Callable[[torch.Tensor], torch.Tensor]) -> "TensorView":
        """Change rows, latents and images in the same way."""
        return TensorView(*map(change, self))

    def __repr__(self) -> str:
        return f"TensorView({len(self.rows):,} rows: {describe(self.images)})"


class TensorBatch(ViewTuple[TensorView]):
    """A batch as tensors."""

    __slots__ = ()


class PairLoader(Resumable[TensorBatch]):
    """The batches of `Pairs.epochs` as tensors: prepared by workers, moved and transformed.

    Each `for` loop runs one epoch, or the rest of one that was left early.

    Args:
        pairs: Where pairs come from; its seed is the loader's.
        batch_size: Pairs in a batch, on each rank.
        transform: Applied to each batch of images, uint8 (n, 3, H, W), on `device`; its torch
            randomness depends on (seed, epoch, batch, rank) alone. `ident3d.augment` has some.
            torchvision's random ones, which draw once for all they get, are applied to each image.
        device: Where batches go. Pinned memory is used for CUDA alone.
        num_workers: Processes that prepare batches; 0 for a thread, which reads one batch ahead and
            is the quickest where images are in memory.
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
        if not isinstance(pairs, Pairs):
            raise TypeError(
                "`pairs` must be what `ident3d.Pairs(data, conditional, seed)` gives, got "
                f"{type(pairs).__name__}."
            )
        super().__init__(pairs, batch_size)
        self.transform = None if transform is None else draw_for_each(transform)
        self.device = torch.device(device)
        self._workers = whole(num_workers, "num_workers", 0)
        self._start_method = start_method
        self._place = rank, world_size
        self._made: BatchMaker | None = None
        if rank is not None or world_size is not None:
            len(self)  # refuses wrong ones here and now

    def _maker(self) -> BatchMaker:
        """Give what makes this rank's batches; the process group may be made after the loader."""
        place = _resolve(*self._place)
        if self._made is None or (self._made.rank, self._made.world_size) != place:
            self._made = BatchMaker(self.pairs, self.batch_size, *place)
            self._stream = -1, iter(())  # of another rank
        return self._made

    def _open(self, step: int) -> Iterator[TensorBatch]:
        pin = self.device.type == "cuda"
        if not self._workers and pin:
            return read_ahead(_TensorBatches(self._maker(), _pinned).pinned, step)
        make = _TensorBatches(self._maker(), Buffers())
        if not self._workers:
            return read_ahead(make.__getitem__, step)
        return iter(
            torch.utils.data.DataLoader(
                make,
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
        batch = batch.map(lambda view: view.map(self._move))
        transform = self.transform
        if transform is None:
            return batch
        address = (*divmod(step, len(self)), self.rank)
        seed = np.random.SeedSequence([self.pairs.seed, *address, TRANSFORM])
        with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            # torch's own seeds the streams of all cards, which nobody would put back.
            seeded = torch.default_generator if self.device.type == "cpu" else torch
            seeded.manual_seed(int(seed.generate_state(1, np.uint64)[0]))
            return batch.map(lambda view: view._replace(images=transform(view.images)))

    def _move(self, part: torch.Tensor) -> torch.Tensor:
        # Elsewhere memory could be used again before the device has read it.
        return part.to(self.device, non_blocking=self.device.type == "cuda")


class _TensorBatches(torch.utils.data.Dataset[TensorBatch]):
    """Makes the batch of a step; runs in a thread or in workers."""

    def __init__(self, make: BatchMaker, allocate: Allocate) -> None:
        self._make, self._allocate = make, allocate

    def __getitem__(self, step: int) -> TensorBatch:
        return TensorBatch(*map(_tensors, self._make(step, self._allocate)))

    def pinned(self, step: int) -> TensorBatch:
        """Make it in memory that a GPU reads directly; what lies there already is not copied."""
        return self[step].map(lambda view: view.map(torch.Tensor.pin_memory))


class ImageDataset(torch.utils.data.Dataset):
    """Images and their latents, one by one or in lists, for torch's own `DataLoader`.

    Args:
        data: What `ident3d.load` gives, or the path to give it.
        transform: Applied to each image, a uint8 tensor (3, H, W); to a PIL image where it holds
            torchvision's `ToTensor` or `PILToTensor`, which take no tensor.
        target_transform: Applied to each row's latents, a float32 tensor (d,).
    """

    def __init__(
        self,
        data: Dataset | str | os.PathLike,
        transform: Transform | None = None,
        target_transform: Transform | None = None,
    ) -> None:
        self.data = load(data) if isinstance(data, str | os.PathLike) else data
        self.transform = transform
        self.target_transform = target_transform

    def __len__(self) -> int:
        return len(self.data.latents)

    def __getitem__(self, row: int) -> tuple[Any, Any]:
        return self.__getitems__([row])[0]

    def __getitems__(self, rows: list[int]) -> list[tuple[Any, Any]]:
        """Read several rows at once; torch's `DataLoader` asks for whole batches."""
        pixels = self.data.images[rows]
        pil = self.transform is not None and takes_pil(self.transform)
        images = map(Image.fromarray, pixels) if pil else as_tensor(pixels)
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


def _pinned(shape: Shape) -> np.ndarray:
    """Give memory that a GPU reads directly.

    torch uses it again by itself, once nobody holds it and the GPU has read it.
    """
    return torch.empty(shape, dtype=torch.uint8, pin_memory=True).numpy()


def _tensors(view: View) -> TensorView:
    rows, latents = map(torch.from_numpy, view[:2])
    return TensorView(rows, latents, as_tensor(view.images))


def _resolve(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Check a place among processes that was given, or ask `torch.distributed`."""
    if rank is None and world_size is None:
        distributed = torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank(), distributed.get_world_size()
        return 0, 1
    if rank is None or world_size is None:
        raise ValueError("`rank` and `world_size` must be given together, or neither.")
    return rank, world_size


def _one_thread(_: int) -> None:
    # Each worker is one core's worth of work; FAISS would start a thread for every core in each.
    faiss.omp_set_num_threads(1)


def _same(value: Any) -> Any:
    return value
