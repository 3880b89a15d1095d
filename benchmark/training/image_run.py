"""One run of an image experiment: build, train, and score it on test and on training rows."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ident3d import metrics
from ident3d.conditionals import Normal, Product, parse
from ident3d.dataset import Dataset
from ident3d.factors import FACTORS
from ident3d.spaces import Box, Uniform

from ..data.images import ImageData
from ..data.synthetic import Process
from ..encoders import make_head
from ..encoders.image_encoders import image_encoder, mean_pixels, some_pixels
from ..results import scored_rows
from ..results.records import image_fields, matched
from ..scoring.embedding import embed
from ..settings.image_settings import ImageSettings, diagonal
from .loop import train
from .models import make_objective, predicted_size

UNTRAINED = ("identity", "pixels", "random")
DEVIATION = 1 / 3**0.5  # of a latent uniform in [-1, 1]


def run(
    settings: ImageSettings, seed: int, checkpoint: Path | None, label: str
) -> list[dict[str, Any]]:
    """Do one run; return the fields of its records: both protocols, test and training rows."""
    torch.manual_seed(seed)
    data = ImageData(settings)
    encoder = make_encoder(settings, data)
    if settings.loss in UNTRAINED:
        return records(settings, data, encoder, {"seconds": 0.0})
    objective = make_objective(settings)
    rows = np.linspace(0, len(data.test) - 1, min(settings.watched, len(data.test))).astype(int)
    watched, latents = data.test.images[rows], data.test.latents[rows][:, data.columns]

    def evaluate(encoder: nn.Module) -> dict[str, float]:
        z_hat = embed(encoder, watched, label="score")
        return {"r2": metrics.linear_r2(latents, z_hat), "mcc": metrics.mcc(latents, z_hat)}

    history = train(
        wrapped(encoder, settings),
        objective,
        data.batches(seed),
        settings,
        evaluate=evaluate,
        checkpoint=checkpoint,
        label=label,
    )
    shared = {"curves": history.curves, "seconds": history.seconds}
    if objective.metrics:
        shared["metric"] = [value for diagonal in objective.metrics for value in diagonal.tolist()]
    return records(settings, data, encoder, shared)


def make_encoder(settings: ImageSettings, data: ImageData) -> Callable[[Any], Any]:
    """Return the encoder, its space at the size that the settings say."""
    if settings.loss == "identity":
        return partial(some_pixels, count=settings.dim)
    if settings.loss == "pixels":
        return mean_pixels
    head = make_head(
        settings.model_space, settings.dim, size=start_size(settings), learnable=settings.learnable
    )
    return image_encoder(settings.encoder, settings.dim, head, data.sample())


def wrapped(encoder: nn.Module, settings: ImageSettings) -> nn.Module:
    """Return what is trained: the encoder, behind augmentations where they make the pairs."""
    if settings.pairs != "augmented":
        return encoder
    from ..data.batch_augment import SimCLR

    return nn.Sequential(SimCLR(), encoder)


def start_size(settings: ImageSettings) -> float:
    """Return the size that the model's space starts with."""
    if settings.size is not None:
        return settings.size
    conditional = parse(settings.conditionals[0])
    if isinstance(conditional, Product):  # the size at which one width for all would be right
        true = diagonal(conditional, [factor.name for factor in FACTORS])
        conditional = Normal((0.5 / float(np.mean(true))) ** 0.5)
    process = Process(Box(-1, 1), settings.dim, Uniform(), (conditional,))
    return predicted_size(settings, process, DEVIATION)


def records(
    settings: ImageSettings,
    data: ImageData,
    encoder: Callable[[Any], Any],
    shared: dict[str, Any],
) -> list[dict[str, Any]]:
    """Score an encoder in every way; the record that says the run is done comes last."""
    rows = min(settings.train_rows, len(data.train[0]))
    on_train = scored(data.train[0], encoder, "clean", rows)
    paper, clean = (scored(data.test, encoder, protocol) for protocol in ("paper", "clean"))
    for name in ("r2", "mcc"):
        clean["scores"][f"{name}_train"] = on_train["scores"][name]
    found = [paper | shared, clean | shared]
    if "metric" in shared:
        for fields in found:
            fields["metric_true"] = _true_metric(settings, fields)
    return found


def scored(
    data: Dataset, encoder: Callable[[Any], Any], protocol: str, rows: int | None = None
) -> dict[str, Any]:
    """Embed and score a split; return the fields of its record."""
    rows = scored_rows(protocol, len(data)) if rows is None else rows
    in_training = protocol == "paper"
    label = f"embed {data.split}"
    z_hat = embed(encoder, data.images, count=rows, train_mode=in_training, label=label)
    return image_fields(data, z_hat, protocol) | {"embeddings": z_hat}


def _true_metric(settings: ImageSettings, fields: dict[str, Any]) -> list[float] | None:
    """Return the true diagonal in the order in which the model found the factors."""
    names = fields["factors"]
    true = [diagonal(parse(text), names) for text in settings.conditionals]
    order = matched(np.array(fields["correlation"]))
    if None in true:
        return None
    return [diagonal_[factor] for diagonal_ in true for factor in order]
