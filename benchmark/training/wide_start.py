"""Runs, from their start on: with many outputs, of which the slowest are kept, and a fitted size.

With as many outputs as there are factors, each must hold a factor, and an output that has settled
for something else, such as the square of another one, does not let go: a minimum of the loss, but
not the least one. With many outputs there is room for everything that pairs share. What changes
least between an anchor and its positive, of all that is there, are then the factors themselves:
their squares and products change more. Pairs tell which directions these are; no latents do.
"""

import time
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ..encoders.backbones import SPREAD
from ..encoders.heads import Unbounded, head_of
from ..encoders.widened import Widened
from ..losses import Objective, make_objective
from ..losses.beyond import OUTPUTS as MORE
from ..losses.beyond import Beyond
from ..scoring.controls import slow_directions
from ..settings.run_settings import FIT, ImageSettings, Loss, Settings, SyntheticSettings, Training
from .distributed import here
from .gradients import autocast
from .loop import Batch, Batches, pick_device, train
from .sizes import fit_size

OUTPUTS = 32  # of the wide encoder
BATCHES = 24  # from which the slowest directions are computed


def train_run(
    settings: ImageSettings | SyntheticSettings,
    encoder: nn.Module,
    objective: Objective,
    whole: Batches,
    share: Batches,
    **how: Any,
) -> dict[str, Any] | None:
    """Start wide and fit the size, where asked to, train, and return fields that all records have.

    The first rank fits the size to the `whole` batches; each trains on its `share` of them, as
    `how` tells `train`. Others than the first, which alone scores, return None.
    """
    first, kept, training = here().first, how.get("checkpoint"), settings.training
    before = 0.0
    if training.wide_steps and not (kept and kept.exists()):
        before = wide_start(settings, encoder, whole, share, kept)
    if training.wide_steps and training.seconds:
        training = replace(training, seconds=training.seconds * (1 - _wide_share(training)))
    if settings.model.size == FIT and first:
        head_of(encoder).resize(fit_size(encoder, objective, whole(0), training))
    trained: nn.Module = encoder
    minimised: nn.Module = objective
    if settings.loss.beyond:
        trained = Widened(encoder, MORE)
        minimised = Beyond(objective, settings.model.dim, settings.loss.beyond)
        scored = how["evaluate"]
        how |= {"evaluate": lambda _: scored(encoder)}  # without what training adds
    history = train(trained, minimised, share, training, before=before, **how)
    if not first:
        return None
    learned = [value for diagonal in objective.metrics for value in diagonal]
    fields = {"curves": history.curves, "seconds": history.before + history.seconds}
    return fields | ({"metric": learned} if learned else {})


def wide_start(
    settings: Settings,
    encoder: nn.Module,
    whole: Batches,
    share: Batches,
    checkpoint: Path | None = None,
) -> float:
    """Train `encoder` with many outputs for `wide_steps`; leave it with the slowest of them.

    Pairs are compared as in row 1 of table 4, in a space without bounds, whatever the model's own:
    all rows start alike. The first rank alone has the result; training starts with its weights. It
    has a checkpoint of its own, beside that of the training. Returns the seconds that it took.
    """
    training = settings.training
    assert training.wide_steps is not None
    features, last = _parts(encoder)
    head = Unbounded(OUTPUTS)
    wide = nn.Sequential(features, nn.Linear(last.in_features, OUTPUTS), head)
    names = ("negatives", "symmetric", "self_negative")
    loss = Loss(**{name: getattr(settings.loss, name) for name in names})
    objective = make_objective(loss, OUTPUTS)
    told = replace(
        training,
        steps=training.wide_steps,
        lr=training.wide_lr or training.lr,
        evaluations=1,
        seconds=training.seconds and training.seconds * _wide_share(training),
    )
    if here().first:
        head.resize(fit_size(wide, objective, whole(0), told))
    own = checkpoint and checkpoint.with_name(f"{checkpoint.stem}-wide{checkpoint.suffix}")
    history = train(wide, objective, share, told, checkpoint=own, label="wide start")
    trained = time.monotonic()
    if here().first:
        found = [_embed(features, batch, settings) for batch in islice(whole(0), BATCHES)]
        anchors, positives = (np.concatenate(views) for views in zip(*found, strict=True))
        _keep(last, anchors, positives, SPREAD[settings.model.space])
    return history.seconds + time.monotonic() - trained


def _wide_share(training: Training) -> float:
    """Return how much of a run, by steps, is its wide start: as much of a time budget is its."""
    wide = training.wide_steps or 0
    return wide / (wide + training.steps)


def _parts(encoder: nn.Module) -> tuple[nn.Sequential, nn.Linear]:
    """Return what makes an encoder's features, and the linear map that follows, before its head."""
    layers = list(encoder.children()) if isinstance(encoder, nn.Sequential) else []
    last = layers[-2] if len(layers) > 2 else None
    if not isinstance(last, nn.Linear):
        raise ValueError("`wide_steps` must be none: this encoder does not end with a linear map.")
    return nn.Sequential(*layers[:-2]), last


def _embed(features: nn.Module, batch: Batch, settings: Settings) -> list[np.ndarray]:
    """Return the features of anchors and positives, normalised as in training."""
    device = pick_device(settings.training.device)
    views = [view.to(device) for view in batch.views[:2]]
    with torch.no_grad(), autocast(device, settings.training.precision)():
        both = features(torch.cat(views)).double().cpu().numpy()
    return np.split(both, 2)


def _keep(last: nn.Linear, anchors: np.ndarray, positives: np.ndarray, spread: float) -> None:
    """Let the last map give the slowest directions of features, (n, p), each of some deviation."""
    slow = spread * slow_directions(anchors, positives, last.out_features)  # (p, dim)
    with torch.no_grad():
        last.weight.copy_(torch.from_numpy(slow.T))
        last.bias.copy_(torch.from_numpy(-anchors.mean(0) @ slow))
