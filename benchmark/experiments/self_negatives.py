"""With the anchor among its own negatives, as released, and without: which of the two trains.

The row is table1/5, Normal noise in a box and an unbounded model, in 4 to 10 dimensions. The figure
has R2 against steps, and why: the loss of the true latents against their scale. Where it is flat
at 0, no negative overlaps with a positive, and nothing is left to learn from.

ident3d benchmark run self-negatives --seeds 3 --out results/cpu
python -m ident3d.benchmark.experiments.self_negatives results/cpu docs/figures/self-negatives.png
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ident3d.errors import DataError

from ..data.synthetic import COMPARISON, Process, as_tensor, stream
from ..losses import make_objective
from ..results import Result, load_all
from ..results.result import Curves
from ..scoring import HELD_OUT
from ..settings.experiment import Experiment
from ..settings.run_settings import SyntheticSettings
from ..training.synthetic_run import run
from .tables_1_2 import EXPERIMENTS as ROWS

ROW = next(row for row in ROWS if row.id == "table1/5")
DIMS = (4, 6, 8, 10)
WORDS = {True: "with", False: "without"}
SCALES = 2.0 ** np.arange(-1, 6.25, 0.25)  # of the true latents


def settings_of(dim: int, own: bool) -> SyntheticSettings:
    """Return the settings of a point: `own` keeps an anchor among its own negatives."""
    settings = ROW.tiers["cpu"]
    assert isinstance(settings, SyntheticSettings)
    return settings.with_(dim=dim, self_negative=own, evaluations=20)


def true_losses(settings: SyntheticSettings) -> list[float]:
    """Return the loss of the true latents of one batch, times each of SCALES."""
    process, objective = Process.read(settings), make_objective(settings.loss, settings.model.dim)
    drawn = process.views(settings.training.batch, stream(0, COMPARISON), 0)
    with torch.no_grad():
        return [objective([as_tensor(view * s) for view in drawn]).item() for s in SCALES]


def curves(results: Sequence[Result]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return steps and R2, averaged over seeds, of every row that has records."""
    found: dict[str, list[Curves]] = {}
    for result in results:
        mine = result.experiment.startswith("self-negatives/") and result.protocol == HELD_OUT
        if mine and result.curves:
            found.setdefault(result.experiment, []).append(result.curves)
    if not found:
        raise DataError("There are no records of self-negatives/...; run them first.")
    return {
        name: (np.array(group[0]["step"]), np.array([c["r2"] for c in group], float).mean(0))
        for name, group in found.items()
    }


def draw(results: Sequence[Result], path: Path) -> None:
    """Write the figure to `path`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    found = curves(results)
    for number, dim in enumerate(DIMS):
        for own, line in ((True, "-"), (False, "--")):
            style: dict[str, Any] = {"color": f"C{number}", "linestyle": line}
            words = f"N = {dim}, {WORDS[own]}"
            if (name := f"self-negatives/n{dim}/{WORDS[own]}") in found:
                left.plot(*found[name], label=words, **style)
            right.plot(SCALES, true_losses(settings_of(dim, own)), label=words, **style)
    left.set(xlabel="steps", ylabel="R²", ylim=(0.5, 1.01))
    right.set(xscale="log", xlabel="scale of the true latents", ylabel="their loss", ylim=(0, 6.5))
    figure.legend(*right.get_legend_handles_labels(), loc="outside right center", frameon=False)
    figure.savefig(path, dpi=150)


def _experiments() -> Iterator[Experiment]:
    for dim in DIMS:
        for own, words in WORDS.items():
            name = f"self-negatives/n{dim}/{words}"
            title = f"table1/5 at N = {dim}, {words} the anchor among its own negatives"
            method = "InfoNCE" if own else "InfoNCE, no self-negatives"
            yield Experiment(name, title, method, {"cpu": settings_of(dim, own)}, run)


EXPERIMENTS = tuple(_experiments())

if __name__ == "__main__":
    draw(load_all(sys.argv[1], []), Path(sys.argv[2]))
