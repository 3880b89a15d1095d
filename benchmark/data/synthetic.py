"""Synthetic data: latents of a process, mixed into observations. Fresh pairs for every step."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import special_ortho_group
from torch import Tensor, nn

from ident3d.conditionals import Conditional, parse
from ident3d.spaces import Space, Unbounded, Uniform, parse_space, sample_marginal

from ..encoders.theory import true_diagonal
from ..scoring.matched_metric import blocks_of
from ..settings.run_settings import SyntheticSettings
from ..training.distributed import ALONE, Ranks
from ..training.loop import Batch, Batches

# What random numbers are for: each use has its own stream of a seed.
MIXING, BATCHES, SCORING, WHITENING, COMPARISON, CONTROLS = range(6)


@dataclass(frozen=True)
class Process:
    """p(z) and one or more p(z+ | z), on a space."""

    space: Space
    dim: int
    marginal: Uniform | Conditional
    conditionals: tuple[Conditional, ...]  # one for each process of an ensemble
    hard: Conditional | None = None  # of the hard negatives
    hard_count: int = 0  # hard negatives of each anchor
    hard_from: int = 0  # the step at which they join
    turn: np.ndarray | None = None  # columns: the noise's axes, if they are not the space's

    @classmethod
    def read(cls, settings: SyntheticSettings) -> "Process":
        """Read the process that settings describe in words."""
        data, dim = settings.data, settings.model.dim
        conditionals = tuple(map(parse, data.conditionals))
        for conditional in conditionals:
            conditional.check(dim)
        return cls(
            space=parse_space(data.space),
            dim=dim,
            marginal=Uniform() if data.marginal == "uniform" else parse(data.marginal),
            conditionals=conditionals,
            hard=parse(data.hard) if data.hard else None,
            hard_count=data.hard_count,
            hard_from=data.hard_from,
            turn=rotation(dim) if data.turned else None,
        )

    @property
    def names(self) -> list[str]:
        """Names of the latents."""
        return [f"z{index}" for index in range(self.dim)]

    @property
    def metrics(self) -> list[list[float]]:
        """The diagonals L of conditionals exp(-d'Ld), one for each process that has one."""
        found = (true_diagonal(conditional, self.names) for conditional in self.conditionals)
        return [diagonal for diagonal in found if diagonal is not None]

    @property
    def blocks(self) -> list[list[int]]:
        """Dimensions that no process tells apart: the model finds them up to a rotation."""
        return blocks_of(self.metrics)

    def anchors(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw from the marginal, (n, dim)."""
        return sample_marginal(self.marginal, self.space, n, self.dim, rng)

    def views(self, n: int, rng: np.random.Generator, step: int) -> list[np.ndarray]:
        """Draw the latents of a step: anchors and positives of each process, hard negatives."""
        views = []
        for conditional in self.conditionals:
            anchors = self.anchors(n, rng)
            views += [anchors, self._positives(conditional, anchors, rng)]
        if self.hard is not None and self.hard_count and step >= self.hard_from:
            around = np.repeat(views[0], self.hard_count, axis=0)
            views.append(self.hard.sample(around, rng, self.space))
        return views

    def _positives(
        self, conditional: Conditional, anchors: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Draw positives; where the noise is turned, again until they are inside the space."""
        if self.turn is None:
            return conditional.sample(anchors, rng, self.space)
        positives, left = anchors.copy(), np.arange(len(anchors))
        while len(left):
            noise = conditional.sample(np.zeros((len(left), self.dim)), rng, Unbounded())
            drawn = anchors[left] + noise @ self.turn.T
            inside = self.space.contains(drawn)
            positives[left[inside]] = drawn[inside]
            left = left[~inside]
        return positives


def scored_anchors(settings: SyntheticSettings, process: Process, seed: int) -> np.ndarray:
    """Draw the latents that a run is scored on, (scored, dim)."""
    z = process.anchors(settings.data.scored, stream(seed, SCORING))
    return -z if settings.data.opposite else z


def rotation(dim: int) -> np.ndarray:
    """Return a random rotation, (dim, dim), the same one every time."""
    return special_ortho_group.rvs(dim, random_state=dim)


def batches(
    process: Process, mixing: nn.Module, size: int, seed: int, ranks: Ranks = ALONE
) -> Batches:
    """Return the endless batches of a run, from any step on; of each, the part of a rank.

    A batch depends on `(seed, step)` alone, so a run that goes on sees what it would have seen.
    """

    def source(first: int) -> Iterator[Batch]:
        for step in itertools.count(first):
            yield draw_batch(process, mixing, size, stream(seed, BATCHES, step), step, ranks)

    return source


def draw_batch(
    process: Process,
    mixing: nn.Module,
    size: int,
    rng: np.random.Generator,
    step: int = 0,
    ranks: Ranks = ALONE,
) -> Batch:
    """Draw the batch of a step, and return a rank's part of it: mixed views, and their latents."""
    views = [as_tensor(view[ranks.share(len(view))]) for view in process.views(size, rng, step)]
    latents = torch.cat(views)
    with torch.no_grad():
        mixed = mixing(latents)
    return Batch(mixed.split([len(view) for view in views]), latents)


def stream(seed: int, purpose: int, *place: int) -> np.random.Generator:
    """Return the generator of one purpose of a run."""
    return np.random.default_rng([seed, purpose, *place])


def as_tensor(latents: np.ndarray) -> Tensor:
    """Return latents as networks take them."""
    return torch.from_numpy(latents.astype(np.float32))
