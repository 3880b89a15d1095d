"""Scores of embeddings against the true latents: the same code for a run and for its check.

`SCORES` is the one table of them. A measure is a function of latents (n, d), embeddings (n, k) and
`held_out`; it returns scores by name, an array (d,) for one value per factor. A new score is such
a function and a line in the table: it is then computed, verified and shown.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ident3d import metrics

from .probes import dci, kernel_ridge

POINTS = 300  # rows drawn in the predicted-against-true plots
Measure = Callable[[np.ndarray, np.ndarray, bool], Mapping[str, float | np.ndarray | None]]


def linear(z: np.ndarray, z_hat: np.ndarray, held_out: bool) -> dict[str, float | np.ndarray]:
    """Read each factor off the embeddings by an affine map."""
    per_factor = metrics.linear_r2_per_factor(z, z_hat, held_out=held_out)
    return {"r2": float(per_factor.mean()), "r2_per_factor": per_factor}


def matching(z: np.ndarray, z_hat: np.ndarray, held_out: bool) -> dict[str, float | None]:
    """Match factors to dimensions one to one; where k < d there is no such match."""
    if z_hat.shape[1] < z.shape[1]:
        return {"mcc": None, "mcc_spearman": None}
    return {
        "mcc": metrics.mcc(z, z_hat),
        "mcc_spearman": metrics.mcc(z, z_hat, method="spearman"),
    }


@dataclass(frozen=True)
class Score:
    """What is known of a score, for computing, checking and showing it."""

    name: str
    label: str  # for people
    measure: Measure | None = None  # None: embeddings and data alone cannot prove it
    probe: bool = False  # slow, and moves a little between versions of scikit-learn
    percent: bool = True  # a fraction of 1 that people read in percent
    shown: bool = False  # a column of the leaderboard; the others stand on the methods' pages
    meaning: str = ""  # said on the leaderboard


_LINE = "Share of the true factors' variance that a linear map of the representation explains."
_MATCH = (
    "Mean absolute correlation of true factors and learned dimensions under the best "
    "one-to-one match."
)
SCORES = {
    score.name: score
    for score in (
        Score("r2", "R²", linear, shown=True, meaning=_LINE),
        Score("mcc", "MCC", matching, shown=True, meaning=_MATCH),
        Score("mcc_spearman", "MCC (Spearman)", matching),
        Score("r2_per_factor", "R² per factor", linear),
        Score("kernel_r2", "kernel R²", kernel_ridge, probe=True),
        Score("kernel_r2_per_factor", "kernel R² per factor", kernel_ridge, probe=True),
        Score("dci_disentanglement", "DCI disentanglement", dci, probe=True),
        Score("dci_completeness", "DCI completeness", dci, probe=True),
        Score("dci_informativeness", "DCI informativeness", dci, probe=True),
        Score("r2_train", "R² train"),
        Score("mcc_train", "MCC train"),
        Score("r2_content", "R² content"),
        Score("r2_style", "R² style"),
        Score("mcc_block", "MCC block"),
        Score("accuracy_domain", "accuracy domain"),
    )
}
PROVABLE = tuple(name for name, score in SCORES.items() if score.measure)
PROBES = tuple(name for name in PROVABLE if SCORES[name].probe)
QUICK = tuple(name for name in PROVABLE if not SCORES[name].probe)
SHOWN = tuple(name for name, score in SCORES.items() if score.shown)


def describe(name: str) -> Score:
    """Return what is known of a score; of anybody's own, that it is a plain number."""
    return SCORES.get(name) or Score(name, name.replace("_", " "), percent=False)


def score(
    latents: np.ndarray,
    embeddings: np.ndarray,
    protocol: str,
    factors: Sequence[str],
    names: Collection[str] = QUICK,
) -> dict[str, Any]:
    """Score embeddings, (n, k), of rows with latents (n, d): the `scores` of a record."""
    z, z_hat = np.asarray(latents, np.float64), np.asarray(embeddings, np.float64)
    found: dict[str, Any] = {}
    for measure in dict.fromkeys(SCORES[name].measure for name in names):
        if measure is not None:
            found |= measure(z, z_hat, protocol == "clean")
    for name, value in found.items():
        if isinstance(value, np.ndarray):
            found[name] = dict(zip(factors, value.tolist(), strict=True))
    return {name: found[name] for name in names}


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
