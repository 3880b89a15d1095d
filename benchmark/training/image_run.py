"""One run of an image experiment: build, train, and score it on test and on training rows."""

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ident3d import metrics
from ident3d.conditionals import Normal, Product, parse
from ident3d.dataset import Dataset
from ident3d.factors import FACTORS
from ident3d.rows import evenly
from ident3d.spaces import UNIT_BOX

from ..data.images import Splits, sample_of
from ..encoders import make_encoder
from ..encoders.baselines import BASELINES
from ..encoders.theory import predicted_size, true_diagonal
from ..encoders.trained import Trained
from ..losses import Objective, make_objective
from ..results.records import image_fields
from ..scoring import AS_RELEASED, HELD_OUT, PROTOCOLS, PROVABLE, QUICK, scored_rows
from ..scoring.chance import turned_mcc
from ..scoring.embedding import embed
from ..scoring.matched_metric import match_metric
from ..settings.composed import plain
from ..settings.run_settings import FIT, THEORY, ImageSettings
from . import comparison
from .distributed import here
from .loop import Batches, pick_device
from .pixel_run import pixel_fields
from .wide_start import train_run

COMPARED = 4  # batches over which a loss is compared with that of the true latents
DEVIATION = 1 / 3**0.5  # of a latent uniform in [-1, 1]


def run(
    settings: ImageSettings, seed: int, checkpoint: Path | None, label: str
) -> list[dict[str, Any]]:
    """Do one run; return the fields of its records: both protocols, test and training rows.

    Ranks train together; the first alone scores, and the others return nothing.
    """
    torch.manual_seed(seed)
    data, loss, dim, ranks = Splits(settings), settings.loss, settings.model.dim, here()
    if loss.name in BASELINES and not ranks.first:
        return []
    if loss.name == "identity":
        return identity_records(data)
    if baseline := BASELINES.get(loss.name):
        return records(settings, data, baseline, {"seconds": 0.0})
    sample = sample_of(data.train[0].images, settings.data.rows)
    encoder = make_encoder(settings.model, sample, start_size(settings))
    if loss.name in BASELINES:
        return records(settings, data, encoder, {"seconds": 0.0})
    objective = make_objective(loss, dim, len(data.train))
    device = pick_device(settings.training.device)
    batches = data.batches(seed, device)
    rows = evenly(len(data.test), settings.data.watched)
    watched, latents = data.test.images[rows], data.test.latents[rows][:, data.columns]

    def evaluate(encoder: nn.Module) -> dict[str, float]:
        z_hat = embed(encoder, watched, label="score")
        each = metrics.linear_r2_per_factor(latents, z_hat)
        by_factor = {f"r2_{number}": float(r2) for number, r2 in enumerate(each)}
        return {"r2": float(each.mean()), "mcc": metrics.mcc(latents, z_hat), **by_factor}

    share = data.batches(seed, device, ranks)
    told = {"evaluate": evaluate, "checkpoint": checkpoint, "label": label}
    shared = train_run(settings, encoder, objective, batches, share, **told)
    if shared is None:
        return []
    found = records(settings, data, encoder, shared)
    if settings.data.pairs != "augmented":  # whose latents are those of their anchors
        compared = _against_truth(settings, data, encoder, objective, batches)
        for fields in found:
            fields["scores"] |= compared
    found[-1]["encoder"] = Trained(encoder, plain(settings), tuple(sample.shape))
    return found


def _against_truth(
    settings: ImageSettings,
    data: Splits,
    encoder: nn.Module,
    objective: Objective,
    batches: Batches,
) -> dict[str, float]:
    """Compare the loss reached and the size with those of the true latents."""
    names = [data.test.factors[column].name for column in data.columns]
    metrics = [true_diagonal(parse(text), names) for text in settings.data.conditionals]
    try:
        predicted = start_size(settings.with_(size=THEORY))
    except ValueError:
        predicted = None
    if settings.model.space == "sphere":  # the theory's radius is for latents on one
        predicted = None
    return comparison.against_truth(
        settings,
        encoder,
        objective,
        islice(batches(settings.training.steps), COMPARED),
        space=UNIT_BOX,
        metrics=[diagonal for diagonal in metrics if diagonal is not None],
        predicted=predicted,
    )


def identity_records(data: Splits) -> list[dict[str, Any]]:
    """Score all pixels by both protocols, and training rows as in table 5."""
    found = [pixel_fields(data.test, protocol)[0] for protocol in (AS_RELEASED, HELD_OUT)]
    on_train = pixel_fields(data.train[0], HELD_OUT)[0]
    found[-1]["scores"]["r2_train"] = on_train["scores"]["r2"]
    return found


def by_time(settings: ImageSettings) -> bool:
    """Whether pairs are frames of sequences."""
    return settings.data.pairs == "time"


def protocols_of(settings: ImageSettings) -> tuple[str, ...]:
    """Return the protocols that a run is scored by, `held-out` last.

    As released is one for 3DIdent. Sequences were scored on 10,000 frames of the training data:
    those scores stand in the record of `held-out`, as `mcc_spearman_train`.
    """
    return (HELD_OUT,) if by_time(settings) else (AS_RELEASED, HELD_OUT)


def start_size(settings: ImageSettings) -> float:
    """Return the size that the model's space starts with; 1 if it is to be fit."""
    if not isinstance(settings.model.size, str | None):
        return settings.model.size
    if settings.model.size == FIT:
        return 1.0
    conditional = parse(settings.data.conditionals[0])
    if isinstance(conditional, Product):  # the size at which one width for all would be right
        true = true_diagonal(conditional, [factor.name for factor in FACTORS])
        if true is None:
            raise ValueError("`size` must be given where a factor is not normal; set size=1.")
        conditional = Normal((0.5 / float(np.mean(true))) ** 0.5)
    return predicted_size(settings.model, settings.loss, UNIT_BOX, conditional, DEVIATION)


def records(
    settings: ImageSettings,
    data: Splits,
    encoder: Callable[[Any], Any],
    shared: dict[str, Any],
) -> list[dict[str, Any]]:
    """Score an encoder in every way; the record that says the run is done comes last."""
    trained = settings.data.rows or len(data.train[0])
    rows = np.arange(min(settings.data.train_rows, trained))
    on_train = scored(data.train[0], encoder, HELD_OUT, rows)
    found = [scored(data.test, encoder, name) | shared for name in protocols_of(settings)]
    for name in ("r2", "mcc", *(["mcc_spearman"] if by_time(settings) else [])):
        found[-1]["scores"][f"{name}_train"] = on_train["scores"][name]
    if by_time(settings):
        found[-1]["scores"] |= turned_mcc(
            data.test.latents[:, data.columns], found[-1]["embeddings"]
        )
    if "metric" in shared:
        for fields in found:
            fields["metric_true"] = _true_metric(settings, fields)
    return found


def scored(
    data: Dataset, encoder: Callable[[Any], Any], protocol: str, rows: np.ndarray | None = None
) -> dict[str, Any]:
    """Embed and score a protocol's rows of a split, or others; return the fields of its record.

    Other rows have no probes, which nobody keeps; nor have frames, whose ten thousand take longer
    to probe than a small run takes to train.
    """
    names = PROVABLE if rows is None and data.sequences is None else QUICK
    rows = scored_rows(protocol, len(data)) if rows is None else rows
    in_training, label = PROTOCOLS[protocol].train_mode, f"embed {data.split}"
    z_hat = embed(encoder, data.images, rows=rows, train_mode=in_training, label=label)
    return image_fields(data, z_hat, protocol, rows, names) | {"embeddings": z_hat}


def _true_metric(settings: ImageSettings, fields: dict[str, Any]) -> list[float | None] | None:
    """Return the true diagonals in the order in which the model found the factors."""
    found = [true_diagonal(parse(c), fields["factors"]) for c in settings.data.conditionals]
    known = [true for true in found if true is not None]
    if len(known) < len(found):
        return None
    return [v for true in match_metric(np.array(fields["correlation"]), known) for v in true]
