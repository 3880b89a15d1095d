"""Rows 3, 4 and 5 of table 2, where only the corners of the box tell a rotation: MCC by budget.

The loss of row 3 does not see rotations, those of rows 4 and 5 have the wrong exponent. What budget
turns ten dimensions into the axes of the box? Steps and batches around those of the `cpu` tier,
whose own records are a point of each line.

ident3d benchmark run 'table2/[345]' corners --out results/cpu
python -m ident3d.benchmark.experiments.corners results/cpu docs/figures/corners.png
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

from ident3d.errors import DataError

from ..results import Result, load_all
from ..scoring import HELD_OUT
from ..scoring.chance import TABLE as CHANCE
from ..settings.experiment import Experiment
from ..training.synthetic_run import run
from .tables_1_2 import EXPERIMENTS as TABLES

ROWS = {row.id.removeprefix("table2/"): row for row in TABLES if row.id[:7] == "table2/"}
STUDIED = ("3", "4", "5")
BUDGETS = {128: (1_500, 6_000), 512: (750, 1_500, 6_000), 2_048: (750,)}  # batch -> steps
LINES = dict(zip(BUDGETS, (":", "-", "--"), strict=True))


def points(results: Sequence[Result]) -> dict[tuple[str, int], list[tuple[int, float]]]:
    """Return steps and MCC, averaged over seeds, of each row and batch that has records."""
    seeds: dict[tuple[str, int], dict[int, list[float]]] = {}
    for result in results:
        family, row, *rest = result.experiment.split("/")
        known = family == "corners" or (family == "table2" and row in STUDIED and not rest)
        if known and result.protocol == HELD_OUT and not result.control:
            settings = result.settings or {}
            found = seeds.setdefault((row, settings["batch"]), {})
            found.setdefault(settings["steps"], []).append(result.scores["mcc"])
    if not seeds:
        raise DataError("There are no records of corners/...; run `benchmark run corners` first.")
    return {
        key: [(steps, fmean(mcc)) for steps, mcc in sorted(found.items())]
        for key, found in sorted(seeds.items())
    }


def draw(results: Sequence[Result], path: Path) -> None:
    """Write the figure to `path`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.5, 3.6), layout="constrained")
    axes = figure.add_subplot()
    found = points(results)
    for (row, batch), values in found.items():
        steps, mcc = zip(*values, strict=True)
        words = f"table2/{row}, batch {batch:,}"
        axes.plot(steps, mcc, LINES[batch], color=f"C{STUDIED.index(row)}", marker="o", label=words)
    axes.axhspan(*CHANCE[10], color="0.85", label="chance: mean to 95th percentile")
    shown = sorted({step for values in found.values() for step, _ in values})
    axes.set(xscale="log", ylim=(0.5, 1.01), xlabel="steps", ylabel="MCC")
    axes.set_xticks(shown, [f"{step:,}" for step in shown])
    axes.minorticks_off()
    figure.legend(loc="outside right center", frameon=False)
    figure.savefig(path, dpi=150)


def _experiments() -> Iterator[Experiment]:
    for name in STUDIED:
        row = ROWS[name]
        for batch, budgets in BUDGETS.items():
            for steps in budgets:
                tiers = {"cpu": row.tiers["cpu"].with_(batch=batch, steps=steps)}
                words = f"{row.title}; batch {batch:,}, {steps:,} steps"
                yield Experiment(f"corners/{name}/b{batch}-s{steps}", words, row.method, tiers, run)


EXPERIMENTS = tuple(_experiments())

if __name__ == "__main__":
    draw(load_all(sys.argv[1], []), Path(sys.argv[2]))
