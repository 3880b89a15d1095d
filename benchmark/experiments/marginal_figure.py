"""Draw the marginal figure from records: R2, and the mass that is not uniform, by concentration.

python -m ident3d.benchmark.experiments.marginal_figure results/cpu docs/figures/marginal.png
"""

import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from ident3d.errors import DataError

from ..report.tables import mean_std
from ..results import Result, load_all
from .marginal import CONDITIONAL

LEFTMOST = 0.3  # where the uniform marginal stands on the logarithmic axis


def points(results: Sequence[Result]) -> list[tuple[float, float, float, float]]:
    """Return concentration, mean R2, its std and the mass difference, in order."""
    groups: dict[float, list[Result]] = defaultdict(list)
    for result in results:
        if result.experiment.startswith("marginal/"):
            groups[result.scores["concentration"]].append(result)
    if not groups:
        raise DataError("There are no records of marginal/...; run `benchmark run marginal` first.")
    found = []
    for kappa, group in sorted(groups.items()):
        mean, std = mean_std([result.scores["r2"] for result in group])
        found.append((kappa, mean, std or 0.0, group[0].scores["mass_difference"]))
    return found


def draw(results: Sequence[Result], path: Path) -> None:
    """Write the figure to `path`."""
    from matplotlib.figure import Figure

    kappa, r2, std, mass = zip(*points(results), strict=True)
    x = [k or LEFTMOST for k in kappa]
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    left = figure.add_subplot()
    left.errorbar(x, r2, std, color="black", marker="o", capsize=3, label="R²")
    left.axvline(CONDITIONAL, color="black", linestyle=":", label="conditional")
    left.set(xscale="log", ylim=(0, 1.03), ylabel="R²")
    left.set_xlabel("concentration of the marginal (leftmost point: uniform)")
    right = left.twinx()
    right.plot(x, mass, color="tab:blue", marker="s", label="mass difference to uniform")
    right.set(ylim=(0, 1.03))
    right.set_ylabel("mass difference to uniform", color="tab:blue")
    figure.legend(*_handles(left, right), loc="outside upper center", ncols=3, frameon=False)
    figure.savefig(path, dpi=150)


def _handles(*axes: object) -> tuple[list, list]:
    pairs = [pair for ax in axes for pair in zip(*ax.get_legend_handles_labels(), strict=True)]
    return [handle for handle, _ in pairs], [label for _, label in pairs]


if __name__ == "__main__":
    draw(load_all(sys.argv[1], []), Path(sys.argv[2]))
