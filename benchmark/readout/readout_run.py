"""One run of a read-out: train an encoder by augmentations, then see what can be read off it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ident3d.augment import SimCLR, to_float
from ident3d.errors import DataError
from ident3d.loaders import PairLoader
from ident3d.pairs import Pairs

from ..data.images import sample_of
from ..encoders import make_encoder
from ..encoders.projected import Projected
from ..encoders.trained import Trained
from ..losses import make_objective
from ..results.result import MAX_DIM
from ..settings.composed import plain
from ..training.cost import training_cost
from ..training.distributed import ALONE, Ranks, here
from ..training.loop import Batch, Batches, pick_device, train
from .image_sources import ImageSet, read_source
from .linear_readout import Embed, Fit, in_batches, readout_scores
from .readout_settings import ReadoutSettings

PIXELS, UNTRAINED = "pixels", "random"  # losses that train nothing
# source -> rows to train on as published; a split is taken for one of 3DIdent's size
ROWS = {"digits": 3_500, "cifar10": 50_000, "photographs": 1_281_167, "split": 250_000}


def run(
    settings: ReadoutSettings, seed: int, checkpoint: Path | None, label: str
) -> list[dict[str, Any]]:
    """Do one run; return the fields of its record.

    Ranks train together; the first alone scores, and the others return nothing.
    """
    torch.manual_seed(seed)
    data, loss, ranks = settings.data, settings.loss, here()
    images, test = read_source(data)
    fit = Fit(images, test, data.fitted, data.scored)
    fields: dict[str, Any] = {"data": test.described(), "seconds": 0.0}
    if loss.name == PIXELS:
        return [fields | {"scores": readout_scores(fit, raw_pixels, seed, data.strength)}]
    sample = sample_of(images.images)
    encoder = make_encoder(settings.model, sample, _size(settings))
    if not isinstance(encoder, Projected):
        raise ValueError(f"`encoder` must have a projection, as small-conv; got {encoder}.")
    if loss.name != UNTRAINED:
        objective = make_objective(loss, settings.model.dim)
        history = train(
            encoder,
            objective,
            augmented_batches(images, settings, seed, ranks),
            settings.training,
            checkpoint=checkpoint,
            label=label,
        )
        fields |= {"curves": history.curves, "seconds": history.seconds}
        if objective.metrics and settings.model.dim <= MAX_DIM:
            fields["metric"] = objective.metrics[0]
    if not ranks.first:
        return []
    fields["scores"] = readout_scores(fit, both_features(encoder), seed, data.strength)
    fields["encoder"] = Trained(encoder, plain(settings), tuple(sample.shape))
    return [fields]


def view_loader(
    images: ImageSet,
    settings: ReadoutSettings,
    seed: int,
    transform: SimCLR | None = None,
    ranks: Ranks = ALONE,
) -> PairLoader:
    """Return batches of images, each twice, as an augmentation makes views of it."""
    return PairLoader(
        Pairs(images, None, seed, method="augmented"),
        settings.training.batch // ranks.world,
        transform=transform,
        device=pick_device(settings.training.device),
        rank=ranks.rank,
        world_size=ranks.world,
    )


def augmented_batches(
    images: ImageSet, settings: ReadoutSettings, seed: int, ranks: Ranks = ALONE
) -> Batches:
    """Return the endless batches of a run: two views of each image. Step s has always the same."""
    loader = view_loader(images, settings, seed, SimCLR(strength=settings.data.strength), ranks)

    def source(first: int) -> Iterator[Batch]:
        loader.seek(first)
        for batch in loader.forever():
            yield Batch((batch.anchors.images, batch.positives.images))

    return source


def both_features(encoder: Projected) -> Embed:
    """Return what embeds images by the backbone and by the projection, in eval mode."""
    device = next(encoder.parameters()).device
    encoder.eval()

    @torch.no_grad()
    def embed(images: Tensor) -> dict[str, np.ndarray]:
        features = encoder.features(images.to(device))
        projected: Tensor = nn.Sequential(encoder.projection, encoder.head)(features)
        return {"backbone": features.cpu().numpy(), "projected": projected.cpu().numpy()}

    return in_batches(embed)


def raw_pixels(images: Tensor) -> dict[str, np.ndarray]:
    """Return all values of images, flattened: they stand where a backbone's features would."""
    return {"backbone": to_float(images).flatten(1).numpy()}


def _size(settings: ReadoutSettings) -> float:
    """Return the size that the model's space starts with."""
    if isinstance(settings.model.size, str | None):
        raise ValueError("`size` must be a number here: no conditional is known; set size=1.")
    return settings.model.size


def plan(settings: ReadoutSettings, _tier: str) -> str:
    """Tell steps, batches, memory, disk and time of a run; one piece of a step is measured.

    Data that is not there yet is taken to have its published size.
    """
    data = settings.data
    try:
        images, test = read_source(data)
        side, rows = int(images.images.shape[1]), len(images)
        lines = [f"data: {images.name}, {rows:,} rows of {side} px to train on"]
        lines += [f"read-outs: fitted on {min(data.fitted, rows):,} of them"]
        lines[-1] += f", scored on {min(data.scored, len(test)):,} others"
    except (DataError, OSError):
        side, rows = data.side, ROWS[data.source]
        lines = [f"data: {data.folder} is not there yet; taken as {rows:,} images of {side} px"]
    if settings.loss.name in (PIXELS, UNTRAINED):
        lines.append("no training")
    else:
        cost = training_cost(settings.model, settings.loss, settings.training, lines, side, rows)
        lines = list(cost.words)
    return "\n".join(f"  {line}" for line in lines)
