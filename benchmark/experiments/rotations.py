"""How flat a learned metric's loss is: what it costs to turn true latents of aninfonce/linear.

Neighbours of that row have metrics that differ by 2.2. Turned into each other by 45 degrees, with
the metric that suits them best then, they lose nothing of R2, all of MCC, and this much of loss:

python -m ident3d.benchmark.experiments.rotations
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from ..data.synthetic import COMPARISON, Process, as_tensor, rotation, stream
from ..losses import Metric, infonce
from ..settings.run_settings import SyntheticSettings
from .aninfonce import EXPERIMENTS as ROWS

ROW = next(row for row in ROWS if row.id == "aninfonce/linear")
BATCHES = {512: 40, 2_048: 20}  # pairs in a batch -> how many batches
DEGREES = 45
Pair = tuple[Tensor, Tensor]  # latents of anchors and positives


def rises(pairs: Sequence[Pair], metric: np.ndarray, turn: np.ndarray) -> np.ndarray:
    """Return by how much each batch's loss rises if its latents are turned, (batches,).

    The turned latents have the best metric on the way from the harmonic means of the true one, as
    the rotation mixes it, to the arithmetic means.
    """
    low, high = 1 / np.diag(turn / metric @ turn.T), np.diag(turn * metric @ turn.T)

    def losses(share: float) -> np.ndarray:
        return _losses(pairs, low ** (1 - share) * high**share, turn)

    best = minimize_scalar(lambda share: losses(share).mean(), bounds=(0, 1), method="bounded")
    return losses(best.x) - _losses(pairs, metric, np.eye(len(metric)))


def turned(dim: int, planes: Sequence[tuple[int, int]], degrees: float = DEGREES) -> np.ndarray:
    """Return the rotation by an angle in some planes that share no axis, (dim, dim)."""
    found = np.eye(dim)
    cosine, sine = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    for i, j in planes:
        found[[i, i, j, j], [i, j, i, j]] = cosine, -sine, sine, cosine
    return found


def draw(settings: SyntheticSettings, batch: int, count: int, seed: int = 0) -> list[Pair]:
    """Draw the latents of some batches of a row."""
    process, rng = Process.read(settings), stream(seed, COMPARISON)
    views = (process.views(batch, rng, 0) for _ in range(count))
    return [(as_tensor(anchors), as_tensor(positives)) for anchors, positives in views]


def _losses(pairs: Sequence[Pair], metric: np.ndarray, turn: np.ndarray) -> np.ndarray:
    similarity, by = Metric(len(metric), metric.tolist()), as_tensor(turn.T)
    with torch.no_grad():
        return np.array([infonce(z @ by, p @ by, similarity=similarity).item() for z, p in pairs])


def _lines() -> Iterator[str]:
    """Yield the lines of the table that the docs show."""
    settings = ROW.tiers["cpu"]
    assert isinstance(settings, SyntheticSettings)
    metric = np.array(Process.read(settings).metrics[0])
    dim = len(metric)
    neighbours = [(k, k + 1) for k in range(0, dim, 2)]
    turns = {f"L = {metric[i]:.3g}, {metric[j]:.3g}": [(i, j)] for i, j in neighbours}
    cases = {words: turned(dim, planes) for words, planes in turns.items()}
    cases["all five pairs"] = turned(dim, neighbours)
    cases["a random rotation"] = rotation(dim)
    for batch, count in BATCHES.items():
        pairs = draw(settings, batch, count)
        true = _losses(pairs, metric, np.eye(dim)).mean()
        yield f"batch {batch:,}: loss of the true latents {true:.4f}"
        for words, turn in cases.items():
            rise = rises(pairs, metric, turn)
            share, std = 100 * rise.mean() / true, rise.std(ddof=1)
            yield f"  {words}: +{rise.mean():.5f} ({share:.3f} %), std over batches {std:.5f}"


if __name__ == "__main__":
    for line in _lines():
        print(line, flush=True)
