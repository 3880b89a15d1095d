"""A trained model beside the true latents: how far its loss is from theirs, and its size."""

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ident3d.spaces import Space

from ..encoders.heads import head_of
from ..encoders.theory import latent_size
from ..losses import InfoNCE, Metric, Objective, make_objective
from ..losses.alignment_uniformity import AlignmentUniformity
from ..losses.ensemble import Ensemble, Pooled
from ..settings.run_settings import Settings
from .loop import Batch
from .sizes import best_scale

LEAST = 1e-6  # of a loss that others are compared with in relation to it


def against_truth(
    settings: Settings,
    encoder: nn.Module,
    objective: Objective,
    batches: Iterable[Batch],
    *,
    space: Space,
    metrics: Sequence[Sequence[float]],
    predicted: float | None,
) -> dict[str, float]:
    """Return the mean losses of a model and of the true latents, and what sizes they have.

    The true latents are taken times the number that makes their loss least, with the same
    negatives, so the gap holds neither a wrong size nor too few negatives. Beside a sphere model
    they are projected to a sphere: no such model could have them as they are. Where the metric is
    learned they have the true one. Losses whose optimum is not known give nothing.

    Batches have latents, which lie on `space`; `metrics` are the true diagonals, of each process
    that has one; `predicted` is the size that the theory has for infinitely many negatives.
    """
    truth = _truth(settings, metrics)
    if truth is None:
        return {}
    device = next(encoder.parameters()).device
    truth.to(device)
    encoder.eval()
    embedded: list[list[Tensor]] = []
    latents: list[Sequence[Tensor]] = []
    with torch.no_grad():
        for batch in batches:
            assert batch.latents is not None
            embedded.append([encoder(view.to(device)) for view in batch.views])
            true = batch.latents.to(device)
            if settings.model.space == "sphere":  # where the model is, whatever the latents' space
                true = functional.normalize(true, dim=-1)
            latents.append(true.split([len(view) for view in batch.views]))
        scale = 1.0 if truth.metrics else best_scale(truth, latents)
        mean = np.mean([objective(views).item() for views in embedded])
        mean_true = np.mean([truth([scale * v for v in views]).item() for views in latents])
    found = {"loss": float(mean), "loss_true": float(mean_true)}
    if mean_true > LEAST:
        found["loss_gap"] = float(mean / mean_true - 1)
    if truth.metrics:
        return found
    if settings.model.space == "unbounded":  # whose features may grow as well as its scale
        found["size"] = torch.cat([views[0] for views in embedded]).std(0).mean().item()
    else:
        found["size"] = head_of(encoder).size.mean().item()
    if predicted is not None:
        deviation = torch.cat([views[0] for views in latents]).std(0).mean().item()
        found["size_predicted"] = predicted
        found["size_true"] = scale * latent_size(settings.model.space, space, deviation)
    return found


def _truth(settings: Settings, metrics: Sequence[Sequence[float]]) -> Objective | None:
    """Return the run's loss with the true metrics in it; None if its optimum is not known."""
    dim, data = settings.model.dim, settings.data
    truth = make_objective(settings.loss, dim, len(data.conditionals))
    if not isinstance(truth, InfoNCE | AlignmentUniformity | Ensemble | Pooled):
        return None
    if not truth.metrics:
        return truth
    if data.hard_count or len(metrics) != len(data.conditionals):
        return None
    if isinstance(truth, InfoNCE):
        truth.similarity = Metric(dim, metrics[0])
    elif isinstance(truth, Ensemble):
        true = [Metric(dim, diagonal) for diagonal in metrics]
        truth.similarity, truth.similarities = true[0], list(true)
        truth.learned = nn.ModuleList(true[1:])
    else:  # one metric for several processes has no true value
        return None
    return truth
