"""The splits of an image experiment, and the batches of their pairs, by `ident3d.Pairs`."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ident3d.augment import SimCLR
from ident3d.conditionals import parse
from ident3d.dataset import Dataset, PairedRows, load
from ident3d.errors import DataError
from ident3d.factors import varying
from ident3d.loaders import PairLoader, TensorBatch, as_tensor
from ident3d.pairs import Pairs
from ident3d.rows import evenly

from ..encoders.baselines import BASELINES
from ..losses import OBJECTIVES
from ..settings.run_settings import ImageSettings
from ..training.distributed import ALONE, Ranks
from ..training.loop import Batch, Batches

SAMPLE = 1_000  # images from which encoders take their statistics


def sample_of(images: Any, rows: int | None = None) -> torch.Tensor:
    """Return some of the first rows, or of all, (n, 3, H, W): encoders take statistics from it."""
    return as_tensor(images[evenly(rows or len(images), SAMPLE)])


class FirstRows:
    """The first rows of a split, in memory, as all that pairs are made of."""

    path = None  # an index of them is kept in memory
    classes = None

    def __init__(self, data: Dataset, rows: int) -> None:
        self.images, self.latents = data.images[:rows], data.latents[:rows]
        self.factors, self.fingerprint = data.factors, f"{data.fingerprint}, {rows} rows"
        self.pairs: PairedRows | None = None
        if made := data.pairs:
            images: Any = made.images[:rows]  # an array, which pairs read as they do files
            self.pairs = PairedRows(images, made.latents[:rows], made.conditional)


class Splits:
    """What an experiment trains on, one split for each process, and what it is scored on."""

    def __init__(self, settings: ImageSettings) -> None:
        self.settings, data = settings, settings.data
        if len(data.splits) != len(data.conditionals):
            raise ValueError(
                f"`splits` must name a split for each of the {len(data.conditionals)} "
                f"conditionals, got {len(data.splits)}."
            )
        self.train = [load(Path(data.folder) / name) for name in data.splits]
        self.test = load(Path(data.folder) / data.test)
        self.columns = np.flatnonzero(varying(self.test.latents))
        wider = data.pairs == "time" and settings.model.dim > len(self.columns)
        if len(self.columns) != settings.model.dim and not wider:
            names = ", ".join(self.test.factors[i].name for i in self.columns)
            raise ValueError(
                f"`dim` must be the number of factors that vary in {self.test.path}, which are "
                f"{len(self.columns)} ({names}); got {settings.model.dim}."
            )
        if settings.loss.name not in BASELINES:  # which need no pairs
            for split, conditional in zip(self.train, data.conditionals, strict=True):
                self._check(split, conditional)

    def batches(self, seed: int, device: torch.device, ranks: Ranks = ALONE) -> Batches:
        """Return the endless batches of a run, or a rank's parts of them.

        Step s has the same ones wherever it begins. Ranks share the anchors of one process, and
        each draws what is drawn for its own: positives that are looked up, augmentations.
        """
        loaders = [
            PairLoader(
                self._pairs(process, seed),
                self.settings.training.batch // ranks.world,
                transform=SimCLR() if self.settings.data.pairs == "augmented" else None,
                device=device,
                rank=ranks.rank,
                world_size=ranks.world,
            )
            for process in range(len(self.train))
        ]

        def source(first: int) -> Iterator[Batch]:
            for loader in loaders:
                loader.seek(first)
            for processes in zip(*(loader.forever() for loader in loaders), strict=True):
                yield self._batch(processes)

        return source

    def _pairs(self, process: int, seed: int) -> Pairs:
        """Return the pairs of a process, whose positives are any of the images that are there.

        The first process has the run's own seed, so that rows which differ in their pairing alone
        have the same anchors.
        """
        data = self.settings.data
        if process:
            seed = int(np.random.SeedSequence([seed, process]).generate_state(1)[0])
        split = self.train[process]
        return Pairs(
            split.to_memory() if data.rows is None else FirstRows(split, data.rows),
            None if data.pairs == "augmented" else data.conditionals[process],
            seed,
            method=data.pairs,
            candidates="all",
            negatives=data.hard if data.hard_count else None,
            negatives_per_anchor=max(data.hard_count, 1),
            negatives_method="weighted",
        )

    def _batch(self, processes: Sequence[TensorBatch]) -> Batch:
        views = [view for batch in processes for view in batch if view is not None]
        images = tuple(view.images for view in views)
        loss = OBJECTIVES.get(self.settings.loss.name)
        if loss is not None and loss.reconstructs:
            return Batch(images, torch.cat(images))
        latents = torch.cat([view.latents for view in views])[:, self.columns]
        return Batch(images, latents)

    def _check(self, split: Dataset, conditional: str) -> None:
        batch, rows = self.settings.training.batch, self.settings.data.rows or len(split)
        if rows > len(split):
            raise ValueError(
                f"`rows` must be at most {len(split)}, the rows of {split.path}; got {rows}."
            )
        if batch > rows:
            raise ValueError(f"`batch` must be at most {rows}, the rows to train on; got {batch}.")
        if self.settings.data.pairs != "exact":
            return
        if split.pairs is None:
            raise DataError(
                f"{split.path} holds no rendered positives; render it with --pairs {conditional}, "
                "or set pairs=nearest."
            )
        rendered, wanted = (parse(c, split.factors) for c in (split.pairs.conditional, conditional))
        if str(rendered) != str(wanted):
            raise DataError(
                f"The positives of {split.path} were drawn from {rendered}, not from {wanted}; "
                "render a split of them, or set conditionals."
            )
