"""Scores of embeddings against the true latents: the same code for a run and for its check."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ident3d import metrics

# The scores that embeddings and data alone prove: those of `score`, and those of the probes.
PROBES = (
    "kernel_r2",
    "kernel_r2_per_factor",
    "dci_disentanglement",
    "dci_completeness",
    "dci_informativeness",
)
SCORES = ("r2", "mcc", "mcc_spearman", "r2_per_factor", *PROBES)
POINTS = 300  # rows drawn in the predicted-against-true plots


def score(
    latents: np.ndarray, embeddings: np.ndarray, protocol: str, factors: Sequence[str]
) -> dict[str, Any]:
    """Score embeddings, (n, k), of rows with latents (n, d): the `scores` of a record.

    MCC matches factors to dimensions one to one, so it is None where k < d.
    """
    z, z_hat = np.asarray(latents, np.float64), np.asarray(embeddings, np.float64)
    held_out = protocol == "clean"
    matchable = z_hat.shape[1] >= z.shape[1]
    per_factor = metrics.linear_r2_per_factor(z, z_hat, held_out=held_out)
    return {
        "r2": float(np.mean(per_factor)),
        "mcc": metrics.mcc(z, z_hat) if matchable else None,
        "mcc_spearman": metrics.mcc(z, z_hat, method="spearman") if matchable else None,
        "r2_per_factor": dict(zip(factors, map(float, per_factor), strict=True)),
    }


def correlation(latents: np.ndarray, embeddings: np.ndarray) -> list[list[float]]:
    """Absolute correlations, true factors in rows and learned dimensions in columns."""
    z, z_hat = np.asarray(latents, np.float64), np.asarray(embeddings, np.float64)
    return np.abs(metrics.mcc_matrix(z, z_hat)).round(4).tolist()


def points(
    latents: np.ndarray, embeddings: np.ndarray, protocol: str, count: int = POINTS
) -> dict[str, list[list[float]]]:
    """Linear predictions of evenly spaced rows beside the truth: the `points` of a record."""
    z, z_hat = np.asarray(latents, np.float64), np.asarray(embeddings, np.float64)
    design = np.column_stack([z_hat, np.ones(len(z_hat))])
    fit, shown = np.arange(len(z)), np.arange(len(z))
    if protocol == "clean":  # a prediction is shown for rows that the fit has not seen
        fit, shown = fit[::2], shown[1::2]
    weights = np.linalg.lstsq(design[fit], z[fit], rcond=None)[0]
    shown = shown[:: max(1, len(shown) // count)][:count]
    predicted = design[shown] @ weights
    return {"true": z[shown].round(4).tolist(), "predicted": predicted.round(4).tolist()}
