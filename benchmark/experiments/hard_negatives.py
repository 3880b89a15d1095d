"""Where the loss has its optimum when negatives are hard: at L+ - L-, by corollary B.1.

The true latents take the place of a trained encoder, so the loss is a function of the metric alone.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from ident3d.conditionals import Anisotropic
from ident3d.spaces import Sphere

from ..data.synthetic import COMPARISON, stream
from ..settings.composed import Composed


@dataclass(frozen=True, kw_only=True)
class Scan:
    """What is scanned."""

    steps: int = 50  # points of the curve
    dim: int = 20
    positive: float = 150.0  # L+, the same for all dimensions
    negative: float = 100.0  # L-
    anchors: int = 4000
    negatives: int = 64  # hard negatives of each anchor


@dataclass(frozen=True, kw_only=True)
class ScanSettings(Composed):
    """Settings of a run that trains nothing."""

    scan: Scan = field(default_factory=Scan)


def run(settings: ScanSettings, seed: int, checkpoint: Path | None, label: str) -> dict[str, Any]:
    """Scan the metric, and find the optimum."""
    scan = settings.scan
    margins = draw_margins(scan, stream(seed, COMPARISON))
    predicted = scan.positive - scan.negative

    def loss(metric: float) -> float:
        # -log(e^{-L d+} / (e^{-L d+} + sum e^{-L d-})), a convex function of L
        logits = np.column_stack([np.zeros(len(margins)), -metric * margins])
        return float(logsumexp(logits, axis=1).mean())

    grid = np.linspace(0, 2 * predicted, scan.steps + 1)[1:]
    optimum = minimize_scalar(loss, bounds=(0, 4 * predicted), method="bounded").x
    return {
        "scores": {
            "optimum": float(optimum),
            "optimum_predicted": predicted,
            "optimum_error": float(abs(optimum / predicted - 1)),
        },
        "curves": {"step": grid.tolist(), "loss": [loss(metric) for metric in grid]},
        "metric": [float(optimum)] * scan.dim,
        "metric_true": [predicted] * scan.dim,
    }


def draw_margins(scan: Scan, rng: np.random.Generator) -> np.ndarray:
    """Return |z - z-|^2 - |z - z+|^2 of every anchor and hard negative, (anchors, negatives)."""
    space = Sphere()
    z = space.uniform(scan.anchors, scan.dim, rng)
    positives = Anisotropic((scan.positive,) * scan.dim).sample(z, rng, space)
    around = np.repeat(z, scan.negatives, axis=0)
    negatives = Anisotropic((scan.negative,) * scan.dim).sample(around, rng, space)
    near = np.square(positives - z).sum(1)
    far = np.square(negatives - around).sum(1).reshape(scan.anchors, scan.negatives)
    return far - near[:, None]
