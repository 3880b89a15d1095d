"""Controls: what is reached without learning by gradients, from the same pairs as a run.

A score means something only beside them. Every control is a function of arrays: anchors and
positives, (n, p), to learn from; observations, (m, p), to embed; the number of factors; and a
generator. It returns embeddings, (m, dim). `pixel_r2` alone returns R2: it reads more pixels than
there are rows. Two more controls need no function: the observations as they are, and the encoder
of a run before its first step.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

RIDGE = 1e-4  # of the mean variance: pixels that never change have none
FEATURES = 1_000  # random ones, at most
ROWS_PER_FEATURE = 4  # pairs: with fewer, slow directions are found by chance
PENALTIES = np.logspace(-8, 2, 21)  # of a ridge, relative to the mean eigenvalue

Array = np.ndarray
Rng = np.random.Generator
Embed = Callable[[Array, Array, Array, int, Rng], Array]


@dataclass(frozen=True)
class Control:
    """A control that learns from pairs: its name for people, what it does, and the function."""

    name: str
    words: str
    embed: Embed


def slow_features(anchors: Array, positives: Array, observed: Array, dim: int, rng: Rng) -> Array:
    """Embed by linear slow feature analysis (Wiskott and Sejnowski 2002)."""
    return (observed - anchors.mean(0)) @ slow_directions(anchors, positives, dim)


def slow_directions(anchors: Array, positives: Array, dim: int) -> Array:
    """Return the directions in which a pair differs least, compared with all anchors, (p, dim).

    Along each of them, anchors have variance 1.
    """
    covariance = np.atleast_2d(np.cov(anchors.T))
    change = anchors - positives
    ridge = RIDGE * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    # The smallest generalised eigenvalues: little change, much spread.
    last = min(dim, len(covariance)) - 1
    _, directions = eigh(
        change.T @ change / len(change) + ridge, covariance + ridge, subset_by_index=(0, last)
    )
    return directions


def random_slow_features(
    anchors: Array, positives: Array, observed: Array, dim: int, rng: Rng
) -> Array:
    """Embed by slow features of random ones: whitened observations and their random ReLUs."""
    centre, whiten = whitening(anchors)
    columns = whiten.shape[1]
    count = min(FEATURES, max(len(anchors) // ROWS_PER_FEATURE - columns, 0))
    weights = rng.normal(size=(columns, count)) / np.sqrt(columns)
    bends = rng.normal(size=count)

    def features(x: np.ndarray) -> np.ndarray:
        x = (x - centre) @ whiten
        return np.column_stack([x, np.maximum(x @ weights + bends, 0)])

    return slow_features(features(anchors), features(positives), features(observed), dim, rng)


def fast_ica(anchors: Array, positives: Array, observed: Array, dim: int, rng: Rng) -> Array:
    """Embed by FastICA of the anchors (Hyvärinen 1999): no pairs, a linear mixing assumed."""
    from sklearn.decomposition import FastICA
    from sklearn.exceptions import ConvergenceWarning

    centre, whiten = whitening(anchors)
    whiten = whiten[:, -dim:]  # the principal components of most variance stand last
    model = FastICA(whiten=False, random_state=int(rng.integers(2**31)), tol=1e-3)
    with warnings.catch_warnings():
        # Where the mixing is not linear it may never settle: its last guess is the control.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit((anchors - centre) @ whiten)
    return model.transform((observed - centre) @ whiten)


def turned_slow_features(
    anchors: Array, positives: Array, observed: Array, dim: int, rng: Rng
) -> Array:
    """Embed by linear slow features, turned to the axes along which they are independent.

    Slow features have no axes of their own, and MCC asks for axes: pairs find the space, and
    factors that are independent and not normal let ICA find the axes, still without a network.
    """
    slow = slow_features(anchors, positives, np.concatenate([anchors, observed]), dim, rng)
    learned, seen = np.split(slow, [len(anchors)])
    return fast_ica(learned, learned, seen, dim, rng)


def pixel_r2(
    latents: np.ndarray,
    pixels: np.ndarray,
    fit: np.ndarray,
    scored: np.ndarray,
    least_norm: bool = False,
) -> np.ndarray:
    """Return the R2 of each factor read linearly off all pixels, (d,).

    There are more pixels than rows, so the fit needs a penalty: a ridge, chosen by leaving one
    fitted row out at a time, or, as the released code has it, next to none, which gives the
    solution of least norm. Solved in the rows, (n, n), never in the pixels, (n, p) of any dtype.
    `fit` and `scored` are the numbers of rows.
    """
    x = np.asarray(pixels, np.float32) - pixels[fit].mean(0, dtype=np.float32)
    gram = (x @ x[fit].T).astype(np.float64)  # (n, fitted)
    middle = latents[fit].mean(0)
    # Centred rows sum to 0: the smallest eigenvalue is 0, and its direction holds nothing.
    values, vectors = (part[..., 1:] for part in np.linalg.eigh(gram[fit]))
    turned = vectors.T @ (latents[fit] - middle)  # (fitted - 1, d)
    penalties = PENALTIES[:1] if least_norm else PENALTIES
    best, chosen = np.inf, np.zeros_like(latents[fit])
    for penalty in penalties * values.mean():
        shrink = 1 / (values.clip(0) + penalty)
        dual = vectors @ (shrink[:, None] * turned)
        # Leaving row i out, its residual is dual_i / inverse_ii.
        left_out = dual / (np.square(vectors) @ shrink)[:, None]
        if (error := np.square(left_out).sum()) < best:
            best, chosen = error, dual
    truth = latents[scored]
    residual = np.square(truth - middle - gram[scored] @ chosen).sum(0)
    return 1 - residual / np.square(truth - truth.mean(0)).sum(0)


def coarse(images: np.ndarray, side: int) -> np.ndarray:
    """Average images (n, H, W, 3) to side x side, flattened: (n, 3 side²) in [0, 1].

    They are uint8, or, where they were augmented, floats in [0, 1] already.
    """
    n, height, width, _ = images.shape
    rows, columns = (_edges(length, side) for length in (height, width))
    sums = np.add.reduceat(images.astype(np.float32), rows[:-1], axis=1)
    sums = np.add.reduceat(sums, columns[:-1], axis=2)  # (n, side, side, 3)
    area = np.diff(rows)[:, None] * np.diff(columns)
    white = 255 if images.dtype == np.uint8 else 1
    return (sums / (white * area[..., None])).reshape(n, -1)


def whitening(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean (p,) and a map (p, q) to uncorrelated columns of variance 1.

    Directions of less than `RIDGE` of the mean variance are left out.
    """
    values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(x.T)))
    kept = values > RIDGE * values.mean()
    return x.mean(0), vectors[:, kept] / np.sqrt(values[kept])


def _edges(length: int, parts: int) -> np.ndarray:
    return np.linspace(0, length, min(parts, length) + 1).round().astype(int)


IDENTITY, UNTRAINED = "identity", "untrained encoder"
CONTROLS = (
    Control(
        "linear slow features",
        "the directions in which a pair differs least, compared with all anchors; no gradient",
        slow_features,
    ),
    Control(
        "random-feature slow features",
        "the same in random ReLU features of whitened observations; no gradient",
        random_slow_features,
    ),
    Control("FastICA", "independent components of the anchors; no pairs", fast_ica),
    Control(
        "slow features, turned by FastICA",
        "linear slow features, and of them the independent components; no gradient",
        turned_slow_features,
    ),
)
# As records name them, in the order in which they are shown.
METHODS = tuple(f"Control: {c}" for c in (IDENTITY, UNTRAINED, *(c.name for c in CONTROLS)))
