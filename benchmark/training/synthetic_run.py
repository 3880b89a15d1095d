"""One run of a synthetic experiment: build, train, and score it."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ident3d import metrics

from .. import scoring
from ..data.mixing import Mixing, make_mixing
from ..data.synthetic import (
    COMPARISON,
    MIXING,
    SCORING,
    WHITENING,
    Process,
    as_tensor,
    batches,
    draw_batch,
    stream,
)
from ..encoders import make_encoder
from ..encoders.theory import predicted_size
from ..losses import InfoNCE, Metric, Objective, make_objective
from ..scoring.matched_metric import match_metric, metric_errors
from ..settings.run_settings import SyntheticSettings
from .loop import train

SAMPLE = 20_000  # observations from which encoders take their statistics
COMPARED = 20  # batches over which a loss is compared with that of the true latents
CURVES = 20  # learned diagonals longer than this get no curves


def run(
    settings: SyntheticSettings, seed: int, checkpoint: Path | None, label: str
) -> list[dict[str, Any]]:
    """Do one run; return the fields of its records, one for each protocol."""
    torch.manual_seed(seed)
    process, loss = Process.read(settings), settings.loss
    mixing = make_mixing(process.dim, stream(seed, MIXING))
    z = process.anchors(settings.data.scored, stream(seed, SCORING))
    if settings.data.opposite:
        z = -z
    with torch.no_grad():
        observed = mixing(as_tensor(z))
    if loss.name == "identity":
        return records(process, z, observed.numpy(), {"seconds": 0.0})
    encoder = build(settings, process, mixing, seed)
    objective = make_objective(loss, process.dim, len(process.conditionals))

    def evaluate(encoder: nn.Module) -> dict[str, float]:
        z_hat = embed(encoder, observed)
        scores = {"r2": metrics.linear_r2(z, z_hat), "mcc": metrics.mcc(z, z_hat)}
        return scores | _parts(process, z, z_hat) | _diagonals(objective)

    history = train(
        encoder,
        objective,
        batches(process, mixing, settings.training.batch, seed),
        settings.training,
        evaluate=evaluate,
        checkpoint=checkpoint,
        label=label,
    )
    z_hat = embed(encoder, observed)
    shared: dict[str, Any] = {"curves": history.curves, "seconds": history.seconds}
    further: dict[str, float] = against_truth(settings, mixing, encoder, objective, seed)
    if learned := objective.metrics:
        shared["metric"] = [value for diagonal in learned for value in diagonal]
        if len(learned) == len(process.metrics):
            true = match_metric(metrics.mcc_matrix(z, z_hat), process.metrics)
            shared["metric_true"] = [value for diagonal in true for value in diagonal]
            if (loss.name, loss.similarity) == ("infonce", "metric") and not process.hard_count:
                further |= metric_errors(shared["metric"], shared["metric_true"])
    return records(process, z, z_hat, shared, further)


def build(settings: SyntheticSettings, process: Process, mixing: Mixing, seed: int) -> nn.Module:
    """Return the encoder, its space at the size that the settings say."""
    sample = process.anchors(SAMPLE, stream(seed, WHITENING))
    with torch.no_grad():
        observed = mixing(as_tensor(sample))
    model, size = settings.model, settings.model.size
    if size is None:
        deviation = float(sample.std(axis=0).mean())
        conditional = process.conditionals[0]
        size = predicted_size(model, settings.loss, process.space, conditional, deviation)
    return make_encoder(model, observed, size)


def embed(encoder: nn.Module, observed: Tensor) -> np.ndarray:
    """Embed observations in eval mode, float64."""
    device = next(encoder.parameters()).device
    encoder.eval()
    with torch.no_grad():
        return encoder(observed.to(device)).cpu().double().numpy()


def against_truth(
    settings: SyntheticSettings,
    mixing: Mixing,
    encoder: nn.Module,
    objective: Objective,
    seed: int,
) -> dict[str, float]:
    """Compare the loss reached with that of the true latents."""
    loss, process = settings.loss, Process.read(settings)
    if (loss.name, loss.similarity) != ("infonce", "metric") or process.hard_count:
        return {}
    device = next(encoder.parameters()).device
    truth = InfoNCE(loss, process.dim)
    truth.similarity = Metric(process.dim, process.metrics[0])
    truth.to(device)
    encoder.eval()
    reached, possible = [], []
    with torch.no_grad():
        for place in range(COMPARED):
            rng = stream(seed, COMPARISON, place)
            batch = draw_batch(process, mixing, settings.training.batch, rng).to(device)
            lengths = [len(view) for view in batch.views]
            assert batch.latents is not None
            embedded = encoder(torch.cat(batch.views)).split(lengths)
            reached.append(objective(embedded).item())
            possible.append(truth(batch.latents.split(lengths)).item())
    mean, mean_true = float(np.mean(reached)), float(np.mean(possible))
    return {"loss": mean, "loss_true": mean_true, "loss_gap": mean / mean_true - 1}


def records(
    process: Process,
    z: np.ndarray,
    z_hat: np.ndarray,
    shared: Mapping[str, Any],
    further: Mapping[str, float] = MappingProxyType({}),
) -> list[dict[str, Any]]:
    """Score embeddings by both protocols; the record that says the run is done comes last."""
    further = {**_parts(process, z, z_hat), **further}
    if len(process.blocks) > 1:
        further["mcc_block"] = metrics.block_mcc(z, z_hat, process.blocks)
    found = []
    for protocol in (scoring.AS_RELEASED, scoring.HELD_OUT):
        scores = scoring.score(z, z_hat, protocol, process.names, synthetic=True)
        found.append(
            {
                "protocol": protocol,
                "scores": scores | further,
                "factors": process.names,
                "correlation": scoring.correlation(z, z_hat),
                "points": scoring.points(z, z_hat, protocol, synthetic=True),
                **shared,
            }
        )
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
