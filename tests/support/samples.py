"""Records for the tests of the leaderboard."""

import numpy as np
from ident3d.benchmark.results import Result

from ident3d.factors import FACTORS

NAMES = [factor.name for factor in FACTORS]


def record(method="InfoNCE", experiment="table4/1", seed=0, r2=0.9, mcc=0.8, **changes):
    """A valid record with every part that the pages draw."""
    rng = np.random.default_rng([seed, int(r2 * 1e6)])
    true = rng.uniform(-1, 1, (40, 10)).round(3)
    steps = np.arange(0, 100, 5)
    fields = {
        "method": method,
        "experiment": experiment,
        "tier": "small",
        "protocol": "held-out",
        "seed": seed,
        "scores": {"r2": r2, "mcc": mcc, "r2_per_factor": dict.fromkeys(NAMES, r2)},
        "data": {"name": "3dident", "fingerprint": "f" * 64, "split": "test", "rows": 80},
        "settings": {"steps": 100, "space": "box", "optimizer": {"name": "adam", "rate": 1e-4}},
        "curves": {"step": steps, "loss": 5 - steps / 50, "r2": r2 * steps / 100},
        "metric": rng.uniform(5, 25, 10),
        "metric_true": [5] * 5 + [25] * 5,
        "correlation": rng.uniform(0, 1, (10, 10)).round(3),
        "factors": NAMES,
        "points": {"true": true, "predicted": (0.9 * true).round(3)},
        "environment": {"python": "3.11", "gpu": None},
        "commit": "abc123",
        "seconds": 60.0 * (1 + seed),
        "command": f"ident3d benchmark run {experiment} --seed {seed}",
    }
    return Result(**fields | changes)
