"""Marginals that are not uniform: rows, what is measured of them, and the figure of it.

Marginal and conditional are both von Mises-Fisher, so that "more concentrated" means one number.
The figure is R2, and the mass that is not uniform, by concentration. Where the marginal is narrower
than the conditional, training makes R2 worse than the observations and the untrained encoder have
it, so both stand in the figure:

ident3d benchmark run marginal --seeds 3 --out results/cpu
ident3d benchmark controls marginal --seeds 3 --out results/cpu
python -m ident3d.benchmark.experiments.marginal results/cpu docs/figures/marginal.png
"""

import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
from scipy.integrate import quad

from ident3d.conditionals import VMF
from ident3d.errors import DataError

from ..data.mixing import make_mixing
from ..data.synthetic import COMPARISON, MIXING, Process, as_tensor, stream
from ..results import Result, load_all
from ..scoring import HELD_OUT
from ..scoring.controls import METHODS
from ..settings.experiment import Experiment
from ..settings.run_settings import SyntheticSettings
from ..training import synthetic_run
from .tables_1_2 import PAPER, in_tiers

CONDITIONAL = 10  # the concentration of positives around their anchor
CONCENTRATIONS = (0, 1, 3, 10, 30, 100, 300, 1000)
CLASSIFIED = 4096  # observations of each domain, half of them to fit on
# The controls that the figure has: their lines, and what it calls them.
DRAWN = dict(zip(METHODS[:2], (("--", "raw observations"), ("-.", "untrained")), strict=True))
LEFTMOST = 0.3  # where the uniform marginal stands on the figure's logarithmic axis


def run(
    settings: SyntheticSettings, seed: int, checkpoint: Path | None, label: str
) -> list[dict[str, Any]]:
    """Do a run, and say how far its marginal is from the uniform one."""
    found = synthetic_run.run(settings, seed, checkpoint, label)
    process = Process.read(settings)
    kappa = process.marginal.concentration if isinstance(process.marginal, VMF) else 0.0
    for fields in found:
        fields["scores"] |= {
            "concentration": kappa,
            "mass_difference": mass_difference(kappa, process.dim),
        }
    return found


def run_mismatch(
    settings: SyntheticSettings, seed: int, checkpoint: Path | None, label: str
) -> list[dict[str, Any]]:
    """Do a run, and say how well training and test observations can be told apart."""
    found, accuracy = run(settings, seed, checkpoint, label), domain_accuracy(settings, seed)
    for fields in found:
        fields["scores"]["accuracy_domain"] = accuracy
    return found


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


def domain_accuracy(settings: SyntheticSettings, seed: int) -> float:
    """Return the held-out accuracy of a small network that tells training from test rows."""
    from sklearn.neural_network import MLPClassifier
    from sklearn.preprocessing import StandardScaler

    rng, process = stream(seed, COMPARISON), Process.read(settings)
    mixing = make_mixing(process.dim, stream(seed, MIXING))
    train = process.anchors(CLASSIFIED, rng)
    test = process.anchors(CLASSIFIED, rng) * (-1 if settings.data.opposite else 1)
    x = mixing(as_tensor(np.concatenate([train, test]))).numpy()
    y = np.repeat([0, 1], CLASSIFIED)
    order = rng.permutation(len(y))
    fit, held_out = order[::2], order[1::2]
    scaler = StandardScaler().fit(x[fit])
    model = MLPClassifier((32,), early_stopping=True, max_iter=100, random_state=seed)
    model.fit(scaler.transform(x[fit]), y[fit])
    return float(model.score(scaler.transform(x[held_out]), y[held_out]))


def points(results: Sequence[Result]) -> list[tuple[float, float, float, float]]:
    """Return concentration, mean R2, its std and the mass difference, in order."""
    groups: dict[float, list[Result]] = defaultdict(list)
    for result in _held_out(results):
        if not result.control:
            groups[result.scores["concentration"]].append(result)
    if not groups:
        raise DataError("There are no records of marginal/...; run `benchmark run marginal` first.")
    found = []
    for kappa, group in sorted(groups.items()):
        r2 = [result.scores["r2"] for result in group]
        std = stdev(r2) if len(r2) > 1 else 0.0
        found.append((kappa, fmean(r2), std, group[0].scores["mass_difference"]))
    return found


def control_points(results: Sequence[Result], method: str) -> list[tuple[float, float]]:
    """Return concentration and mean R2 of a control, in order; empty if it has no records."""
    groups: dict[float, list[float]] = defaultdict(list)
    for result in _held_out(results):
        if result.control and result.method == method:
            groups[float(result.experiment.removeprefix("marginal/"))].append(result.scores["r2"])
    return [(kappa, fmean(values)) for kappa, values in sorted(groups.items())]


def _held_out(results: Sequence[Result]) -> Iterator[Result]:
    return (
        result
        for result in results
        if result.experiment.startswith("marginal/") and result.protocol in (HELD_OUT, "clean")
    )


def draw(results: Sequence[Result], path: Path) -> None:
    """Write the figure to `path`."""
    from matplotlib.figure import Figure

    kappa, r2, std, mass = zip(*points(results), strict=True)
    x = [k or LEFTMOST for k in kappa]
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    left = figure.add_subplot()
    left.errorbar(x, r2, std, color="black", marker="o", capsize=3, label="trained")
    for method, (line, words) in DRAWN.items():
        if found := control_points(results, method):
            kappas, means = zip(*found, strict=True)
            left.plot([k or LEFTMOST for k in kappas], means, line, color="0.6", label=words)
    left.axvline(CONDITIONAL, color="black", linestyle=":", label="conditional")
    left.set(xscale="log", ylim=(0, 1.03), ylabel="R²")
    left.set_xlabel("concentration of the marginal (leftmost point: uniform)")
    right = left.twinx()
    right.plot(x, mass, color="tab:blue", marker="s", label="mass difference to uniform")
    right.set(ylim=(0, 1.03))
    right.set_ylabel("mass difference to uniform", color="tab:blue")
    figure.legend(*_handles(left, right), loc="outside upper center", ncols=3, frameon=False)
    figure.savefig(path, dpi=150)


def _handles(*axes: Any) -> tuple[list[Any], list[str]]:
    pairs = [pair for ax in axes for pair in zip(*ax.get_legend_handles_labels(), strict=True)]
    return [handle for handle, _ in pairs], [label for _, label in pairs]


def _experiments() -> Iterator[Experiment]:
    for kappa in CONCENTRATIONS:
        paper = PAPER.with_(
            marginal=f"vmf:{kappa}" if kappa else "uniform",
            conditionals=(f"vmf:{CONDITIONAL}",),
            model_space="sphere",
            similarity="dot",
        )
        title = f"sphere, {paper.data.marginal}, vmf:{CONDITIONAL} → sphere, vMF"
        yield Experiment(f"marginal/{kappa}", title, "InfoNCE", in_tiers(paper), run)


EXPERIMENTS = tuple(_experiments())

if __name__ == "__main__":
    draw(load_all(sys.argv[1], []), Path(sys.argv[2]))
