"""Pairs of several processes: a loss for each of them, or one for all."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..settings.run_settings import Loss
from .infonce import infonce
from .objective import Objective
from .similarities import Similarity

Batches = Sequence[tuple[Tensor, Tensor]]  # anchors and positives of each process


def ensemble(batches: Batches, *, similarities: Sequence[Similarity], **options: Any) -> Tensor:
    """Return the sum of `infonce` over processes, each with its own pairs and its own metric."""
    if len(similarities) != len(batches):
        raise ValueError(
            f"`similarities` must be as many as the processes, {len(batches)}, "
            f"got {len(similarities)}."
        )
    losses = [
        infonce(anchors, positives, similarity=similarity, **options)
        for (anchors, positives), similarity in zip(batches, similarities, strict=True)
    ]
    return torch.stack(losses).sum()


def pooled(batches: Batches, *, similarity: Similarity, **options: Any) -> Tensor:
    """Return `infonce` over the pairs of all processes, which it cannot tell apart."""
    anchors, positives = (torch.cat(views) for views in zip(*batches, strict=True))
    return infonce(anchors, positives, similarity=similarity, **options)


class Ensemble(Objective):
    """InfoNCE summed over processes."""

    function = staticmethod(ensemble)

    def __init__(self, settings: Loss, dim: int, processes: int = 1) -> None:
        super().__init__(settings, dim, processes)
        more = [Objective(settings, dim).similarity for _ in range(processes - 1)]
        self.similarities = [self.similarity, *more]
        # The first is there already as `similarity`: a checkpoint has each tensor once.
        self.learned = nn.ModuleList(s for s in more if isinstance(s, nn.Module))

    def forward(self, views: Sequence[Tensor], latents: Tensor | None = None) -> Tensor:
        """Return the loss."""
        return ensemble(self.pairs(views), similarities=self.similarities, **self.options)


class Pooled(Objective):
    """One InfoNCE, one metric, for the pairs of all processes."""

    function = staticmethod(pooled)

    def forward(self, views: Sequence[Tensor], latents: Tensor | None = None) -> Tensor:
        """Return the loss."""
        return pooled(self.pairs(views), similarity=self.similarity, **self.options)
