"""The figure on marginals that are not uniform: R2 against the marginal's concentration.

Marginal and conditional are both von Mises-Fisher, so that "more concentrated" means one number.
"""

from collections.abc import Iterator
from dataclasses import replace

from ..settings.experiment import Experiment
from ..settings.synthetic_settings import Synthetic
from .tables_1_2 import CPU

CONDITIONAL = 10  # the concentration of positives around their anchor
CONCENTRATIONS = (0, 1, 3, 10, 30, 100, 300, 1000)
RUNNER = "ident3d.benchmark.experiments.marginal_study:run"


def _experiments() -> Iterator[Experiment]:
    for kappa in CONCENTRATIONS:
        paper = Synthetic(
            steps=300_000,
            evaluations=100,
            space="sphere",
            marginal=f"vmf:{kappa}" if kappa else "uniform",
            conditionals=(f"vmf:{CONDITIONAL}",),
            model_space="sphere",
            similarity="dot",
        )
        tiers = {"paper": paper, "cpu": replace(paper, evaluations=10, **CPU)}
        title = f"sphere, {paper.marginal}, vmf:{CONDITIONAL} → sphere, vMF"
        yield Experiment(f"marginal/{kappa}", title, "InfoNCE", tiers, {}, RUNNER)


EXPERIMENTS = tuple(_experiments())
