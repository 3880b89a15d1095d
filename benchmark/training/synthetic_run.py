"""One run of a synthetic experiment: build, train, and score it."""

import math
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ident3d import metrics

from ..data.mixing import make_mixing
from ..data.synthetic import (
    COMPARISON,
    MIXING,
    WHITENING,
    Process,
    as_tensor,
    batches,
    draw_batch,
    scored_anchors,
    stream,
)
from ..encoders import make_encoder
from ..encoders.theory import predicted_size
from ..encoders.trained import Trained
from ..losses import Objective, make_objective
from ..results.records import score_fields
from ..scoring import AS_RELEASED, HELD_OUT
from ..scoring.matched_metric import match_metric, metric_errors
from ..settings.composed import plain
from ..settings.run_settings import THEORY, SyntheticSettings
from . import comparison
from .distributed import here
from .loop import Batch
from .wide_start import train_run

SAMPLE = 20_000  # observations from which encoders take their statistics
# Pairs over which a loss is compared with that of the true latents. A few hundred narrow pairs are
# told apart by chance, and the best size of the latents then has no bound.
COMPARED = 10_240
CURVES = 20  # learned diagonals longer than this get no curves


def run(
    settings: SyntheticSettings, seed: int, checkpoint: Path | None, label: str
) -> list[dict[str, Any]]:
    """Do one run with a random mixing; return the fields of its records, one for each protocol."""
    mixing = make_mixing(settings.model.dim, stream(seed, MIXING))
    return run_mixed(settings, mixing, seed, checkpoint, label)


def run_mixed(
    settings: SyntheticSettings, mixing: nn.Module, seed: int, checkpoint: Path | None, label: str
) -> list[dict[str, Any]]:
    """Do one run with a given mixing; return the fields of its records, one for each protocol.

    Ranks train together; the first alone scores, and the others return nothing.
    """
    torch.manual_seed(seed)
    process, loss, ranks = Process.read(settings), settings.loss, here()
    z = scored_anchors(settings, process, seed)
    with torch.no_grad():
        observed = mixing(as_tensor(z))
    if loss.name == "identity":
        return records(process, z, observed.numpy(), {"seconds": 0.0}) if ranks.first else []
    encoder = build(settings, process, mixing, seed)
    objective = make_objective(loss, process.dim, len(process.conditionals))
    whole = batches(process, mixing, settings.training.batch, seed)
    share = batches(process, mixing, settings.training.batch, seed, ranks)

    def evaluate(encoder: nn.Module) -> dict[str, float]:
        z_hat = embed(encoder, observed)
        scores = {"r2": metrics.linear_r2(z, z_hat), "mcc": metrics.mcc(z, z_hat)}
        return scores | _parts(process, z, z_hat) | _diagonals(objective)

    told = {"evaluate": evaluate, "checkpoint": checkpoint, "label": label}
    shared = train_run(settings, encoder, objective, whole, share, **told)
    if shared is None:
        return []
    z_hat = embed(encoder, observed)
    further: dict[str, float] = against_truth(settings, mixing, encoder, objective, seed)
    if "metric" in shared and len(objective.metrics) == len(process.metrics):
        true = match_metric(metrics.mcc_matrix(z, z_hat), process.metrics)
        shared["metric_true"] = [value for diagonal in true for value in diagonal]
        if (loss.name, loss.similarity) == ("infonce", "metric") and not process.hard_count:
            further |= metric_errors(shared["metric"], shared["metric_true"])
    found = records(process, z, z_hat, shared, further)
    found[-1]["encoder"] = Trained(encoder, plain(settings), (SAMPLE, observed.shape[1]))
    return found


def build(settings: SyntheticSettings, process: Process, mixing: nn.Module, seed: int) -> nn.Module:
    """Return the encoder, its space at the size that the settings say; at 1 if it is to be fit."""
    with torch.no_grad():
        observed = mixing(as_tensor(process.anchors(SAMPLE, stream(seed, WHITENING))))
    size = settings.model.size
    if size == THEORY:
        size = _predicted(settings, process, seed)
        if size is None:
            raise ValueError(
                f"`size` must be given for {settings.loss.similarity} in a {settings.model.space}, "
                "where the theory predicts none; set size=1."
            )
    return make_encoder(settings.model, observed, 1.0 if isinstance(size, str | None) else size)


def embed(encoder: nn.Module, observed: Tensor) -> np.ndarray:
    """Embed observations in eval mode, float64."""
    device = next(encoder.parameters()).device
    encoder.eval()
    with torch.no_grad():
        return encoder(observed.to(device)).cpu().double().numpy()


def against_truth(
    settings: SyntheticSettings,
    mixing: nn.Module,
    encoder: nn.Module,
    objective: Objective,
    seed: int,
) -> dict[str, float]:
    """Compare the loss reached and the size with those of the true latents."""
    process, size = Process.read(settings), settings.training.batch
    drawn = [
        draw_batch(process, mixing, size, stream(seed, COMPARISON, place), settings.training.steps)
        for place in range(math.ceil(COMPARED / size))
    ]
    if process.turn is not None:  # the loss knows the axes of the noise alone
        turn = as_tensor(process.turn)
        drawn = [Batch(b.views, None if b.latents is None else b.latents @ turn) for b in drawn]
    return comparison.against_truth(
        settings,
        encoder,
        objective,
        drawn,
        space=process.space,
        metrics=process.metrics,
        predicted=_predicted(settings, process, seed),
    )


def _predicted(settings: SyntheticSettings, process: Process, seed: int) -> float | None:
    """Return the size that the theory predicts; None where it predicts none."""
    deviation = float(process.anchors(SAMPLE, stream(seed, WHITENING)).std(axis=0).mean())
    try:
        return predicted_size(
            settings.model, settings.loss, process.space, process.conditionals[0], deviation
        )
    except ValueError:
        return None


def records(
    process: Process,
    z: np.ndarray,
    z_hat: np.ndarray,
    shared: Mapping[str, Any],
    further: Mapping[str, float] = MappingProxyType({}),
) -> list[dict[str, Any]]:
    """Score embeddings by both protocols; the record that says the run is done comes last."""
    further = {**_parts(process, z, z_hat), **further}
    if process.turn is not None:
        further["mcc_noise"] = metrics.mcc(z @ process.turn, z_hat)
    if len(process.blocks) > 1:
        further["mcc_block"] = metrics.block_mcc(z, z_hat, process.blocks)
    found = []
    for protocol in (AS_RELEASED, HELD_OUT):
        fields = score_fields((z, process.names), z_hat, protocol, synthetic=True)
        fields["scores"] |= further
        found.append({**fields, **shared})
    return found


def _parts(process: Process, z: np.ndarray, z_hat: np.ndarray) -> dict[str, float]:
    """R2 of the dimensions that vary least in a pair, content, and most, style."""
    if len(process.metrics) != 1 or len(set(process.metrics[0])) != 2:
        return {}
    true, per_factor = np.array(process.metrics[0]), metrics.linear_r2_per_factor(z, z_hat)
    return {
        "r2_content": float(per_factor[true == true.max()].mean()),
        "r2_style": float(per_factor[true == true.min()].mean()),
    }


def _diagonals(objective: Objective) -> dict[str, float]:
    """Curves of what is learned of the metric."""
    values = [value for diagonal in objective.metrics for value in diagonal]
    return {f"metric_{i}": v for i, v in enumerate(values)} if len(values) <= CURVES else {}
