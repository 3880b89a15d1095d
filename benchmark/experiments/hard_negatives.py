"""Where the loss has its optimum when negatives are hard: at L+ - L-, by corollary B.1.

The true latents take the place of a trained encoder, so the loss is a function of the metric alone.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from ident3d.conditionals import Anisotropic
from ident3d.spaces import Sphere

from ..data.synthetic import COMPARISON, stream
from ..training.loop import Training


@dataclass(frozen=True, kw_only=True)
class HardNegatives(Training):
    """Settings of the scan; `steps` is the number of points of the curve."""

    dim: int = 20
    positive: float = 150.0  # L+, the same for all dimensions
    negative: float = 100.0  # L-
    anchors: int = 4000
    negatives: int = 64  # hard negatives of each anchor


def run(settings: HardNegatives, seed: int, checkpoint: Path | None, label: str) -> dict[str, Any]:
    """Scan the metric, and find the optimum."""
    margins = draw_margins(settings, stream(seed, COMPARISON))
    predicted = settings.positive - settings.negative

    def loss(metric: float) -> float:
        # -log(e^{-L d+} / (e^{-L d+} + sum e^{-L d-})), a convex function of L
        logits = np.column_stack([np.zeros(len(margins)), -metric * margins])
        return float(logsumexp(logits, axis=1).mean())

    grid = np.linspace(0, 2 * predicted, settings.steps + 1)[1:]
    optimum = minimize_scalar(loss, bounds=(0, 4 * predicted), method="bounded").x
    return {
        "scores": {
            "optimum": float(optimum),
            "optimum_predicted": predicted,
            "optimum_error": float(abs(optimum / predicted - 1)),
        },
        "curves": {"step": grid.tolist(), "loss": [loss(metric) for metric in grid]},
        "metric": [float(optimum)] * settings.dim,
        "metric_true": [predicted] * settings.dim,
    }


def draw_margins(settings: HardNegatives, rng: np.random.Generator) -> np.ndarray:
    """Return |z - z-|^2 - |z - z+|^2 of every anchor and hard negative, (anchors, negatives)."""
    space = Sphere()
    z = space.uniform(settings.anchors, settings.dim, rng)
    positives = Anisotropic((settings.positive,) * settings.dim).sample(z, rng, space)
    around = np.repeat(z, settings.negatives, axis=0)
    negatives = Anisotropic((settings.negative,) * settings.dim).sample(around, rng, space)
    near = np.square(positives - z).sum(1)
    far = np.square(negatives - around).sum(1).reshape(settings.anchors, settings.negatives)
    return far - near[:, None]
