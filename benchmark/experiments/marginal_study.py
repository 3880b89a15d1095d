"""Runs whose marginal is not uniform, or is another one where it is scored."""

from pathlib import Path
from typing import Any

import numpy as np
from scipy.integrate import quad

from ident3d.conditionals import VMF

from ..data.mixing import make_mixing
from ..data.synthetic import COMPARISON, MIXING, as_tensor, stream
from ..settings.synthetic_settings import Synthetic
from ..training import synthetic_run

CLASSIFIED = 4096  # observations of each domain, half of them to fit on


def run(settings: Synthetic, seed: int, checkpoint: Path | None, label: str) -> dict[str, Any]:
    """Do a run, and say how far its marginal is from the uniform one."""
    fields = synthetic_run.run(settings, seed, checkpoint, label)
    marginal = settings.process.marginal
    kappa = marginal.concentration if isinstance(marginal, VMF) else 0.0
    fields["scores"] |= {
        "concentration": kappa,
        "mass_difference": mass_difference(kappa, settings.dim),
    }
    return fields


def run_mismatch(
    settings: Synthetic, seed: int, checkpoint: Path | None, label: str
) -> dict[str, Any]:
    """Do a run, and say how well training and test observations can be told apart."""
    fields = run(settings, seed, checkpoint, label)
    fields["scores"]["accuracy_domain"] = domain_accuracy(settings, seed)
    return fields


def mass_difference(concentration: float, dim: int) -> float:
    """Return the probability mass by which vMF(concentration) and uniform differ on a sphere.

    It is their total variation distance, an integral over the height w = z'mu alone.
    """
    if concentration == 0:
        return 0.0

    def shape(w: float, kappa: float) -> float:
        return np.exp(kappa * (w - 1)) * (1 - w * w) ** ((dim - 3) / 2)

    # The mass sits within a few 1 / kappa of the pole: tell the integrator where to look.
    breaks = [w for k in (1, 5, 25) if -1 < (w := 1 - k / concentration) < 1]
    total, flat = (
        quad(shape, -1, 1, args=(kappa,), points=breaks, limit=200)[0]
        for kappa in (concentration, 0.0)
    )
    gap = quad(
        lambda w: abs(shape(w, concentration) / total - shape(w, 0.0) / flat),
        -1,
        1,
        points=breaks,
        limit=200,
    )
    return min(1.0, gap[0] / 2)


def domain_accuracy(settings: Synthetic, seed: int) -> float:
    """Return the held-out accuracy of a small network that tells training from test rows."""
    from sklearn.neural_network import MLPClassifier
    from sklearn.preprocessing import StandardScaler

    rng = stream(seed, COMPARISON)
    mixing = make_mixing(settings.dim, stream(seed, MIXING))
    train = settings.process.anchors(CLASSIFIED, rng)
    test = settings.process.anchors(CLASSIFIED, rng) * (-1 if settings.opposite else 1)
    x = mixing(as_tensor(np.concatenate([train, test]))).numpy()
    y = np.repeat([0, 1], CLASSIFIED)
    order = rng.permutation(len(y))
    fit, held_out = order[::2], order[1::2]
    scaler = StandardScaler().fit(x[fit])
    model = MLPClassifier((32,), early_stopping=True, max_iter=100, random_state=seed)
    model.fit(scaler.transform(x[fit]), y[fit])
    return float(model.score(scaler.transform(x[held_out]), y[held_out]))
