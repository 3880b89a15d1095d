"""Images to train and score on: splits held in memory where they fit, and batches of pairs.

A batch depends on `(seed, step)` alone, so a run that was cut off sees what it would have seen.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ident3d.conditionals import parse
from ident3d.dataset import Dataset, load
from ident3d.errors import DataError, choose
from ident3d.factors import Factor
from ident3d.pairs import Pairs

from ..settings.image_settings import ImageSettings
from ..training.loop import Batch
from .synthetic import BATCHES, stream

IN_MEMORY = 4 << 30  # bytes: a split smaller than this is read once and kept
SAMPLE = 1_000  # images from which encoders take their statistics

PAIRINGS = {
    "exact": "Positives rendered for their anchors.",
    "nearest": "As the paper: the row nearest to a draw from the conditional.",
    "weighted": "A row drawn among the nearest, in proportion to the conditional's density.",
    "augmented": "The anchor itself; the encoder's augmentations make the difference.",
}


@dataclass(frozen=True)
class Pool:
    """Images with their latents, as `ident3d.pairs` looks them up."""

    images: Any
    latents: np.ndarray
    factors: tuple[Factor, ...]
    fingerprint: str
    classes: None = None
    path: None = None
    pairs: None = None

    def __len__(self) -> int:
        return len(self.latents)


class PairSource:
    """Draws the pairs of one process from one split.

    Rendered positives and anchors lie in one pool, anchors first. Exact pairs take a row and its
    partner; the others look their positives up in the whole pool, so that every way of pairing
    has the same images to choose from.
    """

    def __init__(self, data: Dataset, conditional: str, settings: ImageSettings) -> None:
        self.count = len(data)
        self.method = settings.pairs
        choose(PAIRINGS, self.method, "pairs")
        self.pool = pool(data)
        self.images, self.latents = self.pool.images, self.pool.latents
        self._hard_count = settings.hard_count
        if self.method == "exact":
            _check_rendered(data, conditional)
        elif self.method != "augmented":
            self._pairs = _look_ups(self.pool, conditional, self.method)
        if self._hard_count:
            self._hard = _look_ups(self.pool, settings.hard, "weighted")

    def draw(self, n: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Return rows of the pool: anchors, positives, hard negatives if any."""
        if self.method == "exact":
            anchors = rng.choice(self.count, n, replace=n > self.count)
            views = [anchors, anchors + self.count]
        elif self.method == "augmented":
            anchors = rng.choice(len(self.pool), n, replace=n > len(self.pool))
            views = [anchors, anchors]
        else:
            views = list(self._pairs.draw(n, rng))
        if self._hard_count:
            views.append(self._hard_negatives(*views, rng))
        return views

    def _hard_negatives(
        self, anchors: np.ndarray, positives: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Look rows up near the anchors, `hard_count` for each; never the positive itself."""
        found = self._hard.rows_for(np.repeat(anchors, self._hard_count), rng).positives.copy()
        clash = found == np.repeat(positives, self._hard_count)
        found[clash] = rng.integers(len(self.pool), size=clash.sum())
        return found


class ImageData:
    """The splits of one experiment."""

    def __init__(self, settings: ImageSettings) -> None:
        self.settings = settings
        root = Path(settings.data)
        self.train = [load(root / name) for name in settings.splits]
        self.test = load(root / settings.test)
        if len(settings.splits) != len(settings.conditionals):
            raise ValueError(
                f"`splits` must name a split for each of the {len(settings.conditionals)} "
                f"conditionals, got {len(settings.splits)}."
            )
        self.columns = np.flatnonzero(np.ptp(self.test.latents, axis=0) > 0)
        if len(self.columns) != settings.dim:
            names = ", ".join(self.test.factors[i].name for i in self.columns)
            raise ValueError(
                f"`dim` must be the number of factors that vary in {self.test.path}, which are "
                f"{len(self.columns)} ({names}); got {settings.dim}."
            )

    @cached_property
    def sources(self) -> list[PairSource]:
        """Where the pairs of each process come from."""
        return [
            PairSource(data, conditional, self.settings)
            for data, conditional in zip(self.train, self.settings.conditionals, strict=True)
        ]

    def sample(self) -> torch.Tensor:
        """Return some training images, from which encoders take their statistics."""
        count = len(self.train[0])
        rows = np.linspace(0, count - 1, min(count, SAMPLE)).astype(int)
        return torch.from_numpy(self.train[0].images[rows])

    def draw(self, seed: int, step: int) -> Batch:
        """Return the batch of one step."""
        rng = stream(seed, BATCHES, step)
        views, latents = [], []
        for source in self.sources:
            for rows in source.draw(self.settings.batch, rng):
                views.append(torch.from_numpy(source.images[rows]))
                latents.append(source.latents[rows][:, self.columns])
        return Batch(tuple(views), torch.from_numpy(np.concatenate(latents)))

    def batches(self, seed: int) -> Callable[[int], Iterator[Batch]]:
        """Return the endless batches of a run, the next one read while one is trained on."""

        def source(first: int) -> Iterator[Batch]:
            with ThreadPoolExecutor(1) as reader:
                step, ahead = first, reader.submit(self.draw, seed, first)
                while True:
                    batch, step = ahead.result(), step + 1
                    ahead = reader.submit(self.draw, seed, step)
                    yield batch

        return source


def in_memory(images: Any) -> Any:
    """Read images that fit into memory; leave others where they are."""
    return images[:] if np.prod(images.shape, dtype=np.int64) <= IN_MEMORY else images


class Joined:
    """Two arrays of images as one; neither is copied."""

    def __init__(self, first: Any, second: Any) -> None:
        self.first, self.second = first, second
        self.shape = (len(first) + len(second), *first.shape[1:])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        rows = np.asarray(rows)
        found = np.empty((len(rows), *self.shape[1:]), np.uint8)
        late = rows >= len(self.first)
        found[~late] = self.first[rows[~late]]
        found[late] = self.second[rows[late] - len(self.first)]
        return found


def pool(data: Dataset) -> Pool:
    """Return all images of a split, anchors first, then the rendered positives."""
    images, latents = in_memory(data.images), data.latents
    if data.pairs is not None:
        images = Joined(images, in_memory(data.pairs.images))
        latents = np.concatenate([latents, data.pairs.latents])
    return Pool(images, latents, data.factors, data.fingerprint)


def _look_ups(pool: Pool, conditional: str, method: str) -> Pairs:
    return Pairs(pool, parse(conditional, pool.factors), seed=0, method=method)


def _check_rendered(data: Dataset, conditional: str) -> None:
    if data.pairs is None:
        raise DataError(
            f"{data.path} holds no rendered positives; render it with --pairs {conditional}, "
            "or set pairs=nearest."
        )
    if str(parse(data.pairs.conditional, data.factors)) != str(parse(conditional, data.factors)):
        raise DataError(
            f"The positives of {data.path} were drawn from {data.pairs.conditional}, not from "
            f"{conditional}; render a split of them, or set conditionals."
        )
