"""One run of a synthetic experiment: build, train, and score it."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ident3d import metrics

from ..data.mixing import Mixing, make_mixing
from ..data.synthetic import COMPARISON, MIXING, SCORING, as_tensor, batches, draw_batch, stream
from ..losses.objectives import Contrastive
from ..losses.similarities import Metric
from ..scoring import scores as scoring
from ..settings.synthetic_settings import Synthetic
from .loop import train
from .models import make_encoder, make_objective

COMPARED = 20  # batches over which a loss is compared with that of the true latents
CURVES = 20  # learned diagonals longer than this get no curves


def run(settings: Synthetic, seed: int, checkpoint: Path | None, label: str) -> dict[str, Any]:
    """Do one run; return the fields of its record."""
    torch.manual_seed(seed)
    process = settings.process
    mixing = make_mixing(settings.dim, stream(seed, MIXING))
    z = process.anchors(settings.scored, stream(seed, SCORING))
    if settings.opposite:
        z = -z
    with torch.no_grad():
        observed = mixing(as_tensor(z))
    if settings.loss == "identity":
        return {"seconds": 0.0} | _described(settings, z, observed.numpy())
    encoder, objective = make_encoder(settings, mixing, seed), make_objective(settings)

    def evaluate(encoder: nn.Module) -> dict[str, float]:
        z_hat = embed(encoder, observed)
        scores = {"r2": metrics.linear_r2(z, z_hat), "mcc": metrics.mcc(z, z_hat)}
        return scores | _parts(settings, z, z_hat) | _diagonals(objective)

    source = batches(process, mixing, settings.batch, seed)
    history = train(
        encoder, objective, source, settings, evaluate=evaluate, checkpoint=checkpoint, label=label
    )
    fields = _described(settings, z, embed(encoder, observed))
    if learned := [diagonal.tolist() for diagonal in objective.metrics]:
        fields["metric"] = [value for diagonal in learned for value in diagonal]
        fields["metric_true"] = _matched(learned, settings.true_metrics)
    fields["scores"] |= against_truth(settings, mixing, encoder, objective, seed)
    return fields | {"curves": history.curves, "seconds": history.seconds}


def embed(encoder: nn.Module, observed: Tensor) -> np.ndarray:
    """Embed observations in eval mode, float64."""
    device = next(encoder.parameters()).device
    encoder.eval()
    with torch.no_grad():
        return encoder(observed.to(device)).cpu().double().numpy()


def against_truth(
    settings: Synthetic, mixing: Mixing, encoder: nn.Module, objective: nn.Module, seed: int
) -> dict[str, float]:
    """Compare a learned metric, and the loss reached, with those of the true latents."""
    if settings.similarity != "metric" or settings.loss != "infonce" or settings.hard_count:
        return {}
    device = next(encoder.parameters()).device
    truth = Contrastive(_true_similarity(settings), settings.tau, **objective.options).to(device)
    encoder.eval()
    reached, possible = [], []
    with torch.no_grad():
        for place in range(COMPARED):
            rng = stream(seed, COMPARISON, place)
            batch = draw_batch(settings.process, mixing, settings.batch, rng).to(device)
            lengths = [len(view) for view in batch.views]
            embedded = encoder(torch.cat(batch.views)).split(lengths)
            reached.append(objective(embedded).item())
            possible.append(truth(batch.latents.split(lengths)).item())
    loss, loss_true = float(np.mean(reached)), float(np.mean(possible))
    learned = np.sort(objective.metrics[0].detach().cpu().numpy())
    true = np.sort(settings.true_metrics[0])
    return {
        "loss": loss,
        "loss_true": loss_true,
        "loss_gap": loss / loss_true - 1,
        "metric_error": float(np.abs(learned / true - 1).max()),
    }


def _true_similarity(settings: Synthetic) -> Metric:
    similarity = Metric(settings.dim)
    value = torch.tensor(settings.true_metrics[0], dtype=torch.float64)
    similarity.raw.data = (value + torch.log(-torch.expm1(-value))).float()
    return similarity


def _described(settings: Synthetic, z: np.ndarray, z_hat: np.ndarray) -> dict[str, Any]:
    names = [f"z{index}" for index in range(settings.dim)]
    scores = scoring.score(z, z_hat, "clean", names) | _parts(settings, z, z_hat)
    if len(settings.blocks) > 1:
        scores["mcc_block"] = metrics.block_mcc(z, z_hat, settings.blocks)
    return {
        "scores": scores,
        "factors": names,
        "correlation": scoring.correlation(z, z_hat),
        "points": scoring.points(z, z_hat, "clean"),
    }


def _parts(settings: Synthetic, z: np.ndarray, z_hat: np.ndarray) -> dict[str, float]:
    """R2 of the dimensions that vary least in a pair, content, and most, style."""
    if len(settings.true_metrics) != 1 or len(set(settings.true_metrics[0])) != 2:
        return {}
    true, per_factor = np.array(settings.true_metrics[0]), metrics.linear_r2_per_factor(z, z_hat)
    return {
        "r2_content": float(per_factor[true == true.max()].mean()),
        "r2_style": float(per_factor[true == true.min()].mean()),
    }


def _diagonals(objective: nn.Module) -> dict[str, float]:
    """Curves of what is learned of the metric."""
    values = [v for diagonal in objective.metrics for v in diagonal.tolist()]
    return {f"metric_{i}": v for i, v in enumerate(values)} if len(values) <= CURVES else {}


def _matched(learned: list[list[float]], true: list[tuple[float, ...]]) -> list[float] | None:
    """Order the true diagonal as the learned one: a model may find dimensions in any order."""
    if len(learned) != 1 or len(true) != 1:
        return None
    ordered = np.empty(len(true[0]))
    ordered[np.argsort(learned[0])] = np.sort(true[0])
    return ordered.tolist()
