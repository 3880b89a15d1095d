"""What training minimises: losses as modules over the embedded views of a batch.

Each takes `(embedded views, latents)` and holds the learned parts of its loss, if there are any.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ident3d.errors import choose

from .functions import (
    Dot,
    Importance,
    Lp,
    Metric,
    alignment_uniformity,
    ensemble,
    infonce,
    spectral,
    supervised,
    tricl,
)
from .similarities import Similarity


def make_similarity(name: str, dim: int, start: float = 1.0) -> Similarity:
    """Return a similarity by its name; learned diagonals begin at `start`."""
    table = {
        "dot": Dot,
        "l1": lambda: Lp(1),
        "l2": lambda: Lp(2),
        "l3": lambda: Lp(3),
        "metric": lambda: Metric(dim, start),
        "importance": lambda: Importance(dim, start),
    }
    return choose(table, name, "similarity")()


class Contrastive(nn.Module):
    """InfoNCE. Views: anchors, positives, and k times as many hard negatives if there are any."""

    def __init__(self, similarity: Similarity, tau: float = 1.0, **options: object) -> None:
        super().__init__()
        self.similarity, self.tau, self.options = similarity, tau, options

    def forward(self, views: Sequence[Tensor], latents: Tensor | None = None) -> Tensor:
        """Return the loss."""
        anchors, positives, *hard = views
        extra = hard[0].unflatten(0, (len(anchors), -1)) if hard else None  # (n, k, d)
        return infonce(
            anchors,
            positives,
            similarity=self.similarity,
            tau=self.tau,
            hard_negatives=extra,
            **self.options,
        )

    @property
    def metrics(self) -> list[Tensor]:
        """The learned diagonals."""
        return _learned(self.similarity)


class Ensemble(nn.Module):
    """InfoNCE summed over processes. Views: anchors and positives of each process in turn."""

    def __init__(
        self, similarities: Sequence[Similarity], tau: float = 1.0, **options: object
    ) -> None:
        super().__init__()
        self.similarities = nn.ModuleList(similarities)
        self.tau, self.options = tau, options

    def forward(self, views: Sequence[Tensor], latents: Tensor | None = None) -> Tensor:
        """Return the loss."""
        pairs = list(zip(views[::2], views[1::2], strict=True))
        return ensemble(pairs, similarities=self.similarities, tau=self.tau, **self.options)

    @property
    def metrics(self) -> list[Tensor]:
        """The learned diagonals, one for each process."""
        return [similarity.value for similarity in self.similarities]


class Pooled(nn.Module):
    """One loss over the pairs of all processes, which it cannot tell apart. Views as `Ensemble`."""

    def __init__(self, objective: Contrastive) -> None:
        super().__init__()
        self.objective = objective

    def forward(self, views: Sequence[Tensor], latents: Tensor | None = None) -> Tensor:
        """Return the loss."""
        return self.objective((torch.cat(views[::2]), torch.cat(views[1::2])))

    @property
    def metrics(self) -> list[Tensor]:
        """The learned diagonals."""
        return self.objective.metrics


class AlignmentUniformity(nn.Module):
    """The limit of InfoNCE in many negatives, as two terms."""

    def __init__(self, similarity: Similarity, tau: float = 1.0) -> None:
        super().__init__()
        self.similarity, self.tau = similarity, tau

    def forward(self, views: Sequence[Tensor], latents: Tensor | None = None) -> Tensor:
        """Return the loss."""
        return alignment_uniformity(*views, similarity=self.similarity, tau=self.tau)

    @property
    def metrics(self) -> list[Tensor]:
        """The learned diagonals."""
        return _learned(self.similarity)


class TriFactor(nn.Module):
    """TriCL: a learned importance of each dimension, and decorrelation."""

    def __init__(self, importance: Importance, form: str = "spectral") -> None:
        super().__init__()
        self.importance, self.form = importance, form

    def forward(self, views: Sequence[Tensor], latents: Tensor | None = None) -> Tensor:
        """Return the loss."""
        return tricl(*views, similarity=self.importance, form=self.form)

    @property
    def metrics(self) -> list[Tensor]:
        """The learned importance."""
        return [self.importance.value]


class Spectral(nn.Module):
    """The spectral contrastive loss."""

    metrics: Sequence[Tensor] = ()

    def forward(self, views: Sequence[Tensor], latents: Tensor | None = None) -> Tensor:
        """Return the loss."""
        return spectral(*views)


class Supervised(nn.Module):
    """Mean squared error to the true latents of all views."""

    metrics: Sequence[Tensor] = ()

    def forward(self, views: Sequence[Tensor], latents: Tensor | None = None) -> Tensor:
        """Return the loss."""
        return supervised(torch.cat(list(views)), latents)


def _learned(similarity: Similarity) -> list[Tensor]:
    return [similarity.value] if isinstance(similarity, nn.Module) else []
