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
from .protocols import fit_and_score

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


def isometry(z: np.ndarray, z_hat: np.ndarray, held_out: bool) -> dict[str, float | None]:
    """Measure how alike factors and representation are as spaces, whatever the rotation.

    The affine map is fitted from factors to representation, so that a direction of the factors
    which is lost counts. Distances are Euclidean, of rows that stand next to each other.
    """
    design = z - z.mean(0)
    if z_hat.shape[1] < z.shape[1]:
        return {"isometry": None, "distance_correlation": None}
    stretch = np.linalg.svd(
        np.linalg.lstsq(design, z_hat - z_hat.mean(0), rcond=None)[0], compute_uv=False
    )
    true, found = (np.linalg.norm(np.diff(rows, axis=0), axis=1) for rows in (z, z_hat))
    known = stretch[0] > 0 and np.ptp(found) > 0 and np.ptp(true) > 0
    return {
        "isometry": float(stretch[-1] / stretch[0]) if known else 0.0,
        "distance_correlation": float(np.corrcoef(true, found)[0, 1]) if known else 0.0,
    }


@dataclass(frozen=True)
class Score:
    """What is known of a score, for computing, checking and showing it."""

    name: str
    label: str  # for people
    measure: Measure | None = None  # None: embeddings and data alone cannot prove it
    probe: bool = False  # slow, and moves a little between versions of scikit-learn
    percent: bool = True  # a fraction of 1 that people read in percent
    bar: bool = True  # if in percent: between 0 and 1, the more the better
    shown: bool = False  # a column of the leaderboard; the others stand on the methods' pages
    beside: bool = False  # a column where the Spearman MCC is what is published
    meaning: str = ""  # said on the leaderboard


_LINE = "Share of the true factors' variance that a linear map of the representation explains."
_MATCH = (
    "Mean absolute correlation of true factors and learned dimensions under the best "
    "one-to-one match. Of more dimensions than factors the best are picked, so a wide "
    "representation scores higher by chance."
)
_BLOCKS = (
    "MCC where factors that no pair tells apart are one block, inside which any rotation is right. "
    "No more than this follows from the loss of AnInfoNCE."
)
_TURNED = "The same representation turned at random, 50 times: its MCC if nothing chose the axes."
_ISOMETRY = (
    "Smallest over largest singular value of the affine map from factors to representation: "
    "1 if all directions are stretched alike."
)
_DISTANCES = "Correlation of Euclidean distances between rows, in factors and in representation."
_GAP = (
    "Loss reached above that of the true latents on the same batches, relative to it. Well above "
    "0: not optimised. Below 0: the loss prefers something else to the truth."
)
_CLASS = "Accuracy of a linear classifier of classes; chance is `chance_class` of the record."
_READ = (
    "Mean accuracy of linear classifiers that tell whether a view was made grey, or its "
    "brightness, contrast, saturation or hue changed; chance is 50."
)
_KERNEL = "Mean over factors of R² by kernel ridge; chance is 0."
SCORES = {
    score.name: score
    for score in (
        Score("r2", "R²", linear, shown=True, meaning=_LINE),
        Score("mcc", "MCC", matching, shown=True, meaning=_MATCH),
        Score("mcc_block", "MCC by blocks", shown=True, meaning=_BLOCKS),
        Score("loss_gap", "Loss gap", bar=False, shown=True, meaning=_GAP),
        Score("mcc_spearman", "MCC (Spearman)", matching, beside=True, meaning=_MATCH),
        Score("mcc_turned", "MCC (Spearman), turned at random", beside=True, meaning=_TURNED),
        Score("mcc_turned_95", "the same, 95th percentile"),
        Score("mcc_spearman_train", "MCC (Spearman) train"),
        *(
            Score(f"{name}_{kind}", f"{words}, {kind}", shown=True, meaning=meaning)
            for kind in ("backbone", "projected")
            for name, words, meaning in (
                ("class", "Class", _CLASS),
                ("augmentations", "Augmentations", _READ),
                ("kernel_r2", "kernel R²", _KERNEL),
            )
        ),
        *(
            Score(f"{name}_{kind}", f"{name}, {kind}")
            for kind in ("backbone", "projected")
            for name in ("grayscale", "brightness", "contrast", "saturation", "hue")
        ),
        Score("chance_class", "class by chance", bar=False),
        Score("chance_augmentations", "augmentation by chance", bar=False),
        Score("isometry", "Isometry", isometry, meaning=_ISOMETRY),
        Score("distance_correlation", "Distances", isometry, meaning=_DISTANCES),
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
        Score("mcc_noise", "MCC, axes of the noise"),
        Score("accuracy_domain", "accuracy domain"),
        Score("accuracy_knn", "kNN accuracy"),
        Score("metric_error", "error of L, matched", bar=False),
        Score("metric_error_sorted", "error of L, both sorted", bar=False),
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
    *,
    synthetic: bool = False,
) -> dict[str, Any]:
    """Score embeddings, (n, k), of rows with latents (n, d): the `scores` of a record.

    Rows come in the order of `protocols.scored_rows`; synthetic ones in any.
    """
    z, z_hat = np.asarray(latents, np.float64), np.asarray(embeddings, np.float64)
    fit, scored = fit_and_score(protocol, len(z), synthetic)
    held_out = len(fit) < len(z)
    if held_out:  # a measure fits on even rows
        order = np.empty(len(z), int)
        order[::2], order[1::2] = fit, scored
        z, z_hat = z[order], z_hat[order]
    found: dict[str, Any] = {}
    for measure in dict.fromkeys(SCORES[name].measure for name in names):
        if measure is not None:
            found |= measure(z, z_hat, held_out)
    for name, value in found.items():
        if isinstance(value, np.ndarray):
            found[name] = dict(zip(factors, value.tolist(), strict=True))
    return {name: found[name] for name in names}


def correlation(latents: np.ndarray, embeddings: np.ndarray) -> list[list[float]]:
    """Absolute correlations, true factors in rows and learned dimensions in columns."""
    z, z_hat = np.asarray(latents, np.float64), np.asarray(embeddings, np.float64)
    return np.abs(metrics.mcc_matrix(z, z_hat)).round(4).tolist()


def points(
    latents: np.ndarray,
    embeddings: np.ndarray,
    protocol: str,
    count: int = POINTS,
    *,
    synthetic: bool = False,
) -> dict[str, list[list[float]]]:
    """Linear predictions of evenly spaced rows beside the truth: the `points` of a record."""
    z, z_hat = np.asarray(latents, np.float64), np.asarray(embeddings, np.float64)
    design = np.column_stack([z_hat, np.ones(len(z_hat))])
    fit, shown = fit_and_score(protocol, len(z), synthetic)
    weights = np.linalg.lstsq(design[fit], z[fit], rcond=None)[0]
    shown = shown[:: max(1, len(shown) // count)][:count]
    predicted = design[shown] @ weights
    return {"true": z[shown].round(4).tolist(), "predicted": predicted.round(4).tolist()}
