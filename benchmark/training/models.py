"""From settings to what is trained: the encoder of a synthetic experiment, and its objective."""

from collections.abc import Callable

import torch
from torch import nn

from ident3d.errors import choose

from ..data.synthetic import WHITENING, Process, as_tensor, stream
from ..encoders import make_head, mlp
from ..encoders.theory import stretch
from ..encoders.whitened import SPREAD, Whitened
from ..losses.objectives import (
    AlignmentUniformity,
    Contrastive,
    Ensemble,
    Pooled,
    Spectral,
    Supervised,
    TriFactor,
    make_similarity,
)
from ..losses.similarities import Similarity
from ..settings.synthetic_settings import Synthetic

SAMPLE = 20_000  # observations from which mean and covariance are taken


def make_encoder(settings: Synthetic, mixing: nn.Module, seed: int) -> nn.Module:
    """Return the encoder, its space at the size that the settings say."""
    process = settings.process
    sample = process.anchors(SAMPLE, stream(seed, WHITENING))
    size = settings.size
    if size is None:
        size = predicted_size(settings, process, float(sample.std(axis=0).mean()))
    head = make_head(settings.model_space, settings.dim, size=size, learnable=settings.learnable)
    with torch.no_grad():
        observed = mixing(as_tensor(sample))
    builders = {
        "mlp": lambda: mlp(settings.dim, head, widths=settings.widths),
        "whitened": lambda: Whitened(
            observed, head, settings.widths or (64, 64, 64), SPREAD[settings.model_space]
        ),
    }
    return choose(builders, settings.encoder, "encoder")()


def predicted_size(settings: Synthetic, process: Process, deviation: float) -> float:
    """Return the size of the model's space at the optimum.

    A box is as wide as the latents' times the stretch; an unbounded model's features start with
    standard deviation 1, so its scale is the latents' deviation times the stretch.
    """
    if settings.loss == "supervised":
        factor = 1.0
    else:
        factor = stretch(process.conditionals[0], settings.similarity, settings.tau)
    if settings.model_space == "sphere":
        return factor
    if settings.model_space == "box":
        return factor * (process.space.high - process.space.low)
    return factor * deviation


def make_objective(settings: Synthetic) -> nn.Module:
    """Return what training minimises."""
    return choose(OBJECTIVES, settings.loss, "loss")(settings)


def _similarity(settings: Synthetic) -> Similarity:
    return make_similarity(settings.similarity, settings.dim, settings.metric_start)


def _contrastive(settings: Synthetic) -> Contrastive:
    return Contrastive(
        _similarity(settings),
        settings.tau,
        negatives=settings.negatives,
        symmetric=settings.symmetric,
    )


def _ensemble(settings: Synthetic) -> Ensemble:
    similarities = [_similarity(settings) for _ in settings.conditionals]
    return Ensemble(
        similarities,
        settings.tau,
        negatives=settings.negatives,
        symmetric=settings.symmetric,
    )


OBJECTIVES: dict[str, Callable[[Synthetic], nn.Module]] = {
    "infonce": _contrastive,
    "alignment-uniformity": lambda settings: AlignmentUniformity(
        _similarity(settings), settings.tau
    ),
    "pooled": lambda settings: Pooled(_contrastive(settings)),
    "ensemble": _ensemble,
    "spectral": lambda settings: Spectral(),
    "tricl": lambda settings: TriFactor(
        make_similarity("importance", settings.dim, settings.metric_start)
    ),
    "supervised": lambda settings: Supervised(),
}
