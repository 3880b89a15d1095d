"""The figure of the audit of augmentations: which factors they move, and how.

ident3d benchmark run augmentation-audit --data DATA --seeds 2 --out results/cpu
python -m ident3d.benchmark.readout.audit_figure results/cpu docs/figures/augmentations.png
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from scipy.stats import norm

from ident3d.errors import DataError

from ..results import Result, load_all
from .latent_audit import AUGMENTATIONS

DEVIATION = 1 / 3**0.5  # of a latent uniform in [-1, 1]
COLUMNS = {
    "own_r2": "read of images as they are, R²",
    "own_error": "own error",
    "simclr_r2": "read of views, R²",
    "simclr_bias": "bias",
    "simclr_spread": "spread",
    "simclr_net": "net spread",
    "simclr_kurtosis": "excess kurtosis",
}


def records(results: Sequence[Result], reader: str) -> list[Result]:
    """Return the records of a reader, one for each seed."""
    found = [result for result in results if result.experiment == f"augmentation-audit/{reader}"]
    if not found:
        raise DataError(f"There are no records of augmentation-audit/{reader}; run it first.")
    return found


def mean_score(found: Sequence[Result], score: str) -> dict[str, float]:
    """Return a score of each factor, averaged over seeds."""
    return {
        factor: fmean(result.scores[score][factor] for result in found)
        for factor in found[0].scores[score]
    }


def markdown_table(found: Sequence[Result]) -> str:
    """Write the implied conditional under SimCLR's policy, a factor in each line."""
    values = {score: mean_score(found, score) for score in COLUMNS}
    lines = ["| factor | " + " | ".join(COLUMNS.values()) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for factor in values["own_r2"]:
        cells = [f"{values[score][factor]:.2f}" for score in COLUMNS]
        lines.append(f"| `{factor}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw(results: Sequence[Result], path: Path, reader: str = "hardened") -> None:
    """Write the figure to `path`: net spreads by augmentation, then the shape under the policy."""
    from matplotlib.figure import Figure

    found = records(results, reader)
    figure = Figure(figsize=(11, 6.4), layout="constrained")
    parts = np.asarray(figure.subfigures(1, 2, width_ratios=(1, 1.25)))
    _draw_spreads(parts[0], found)
    _draw_shapes(parts[1], found)
    figure.savefig(path, dpi=150)


def _draw_spreads(part: Any, found: Sequence[Result]) -> None:
    """Draw a table of colours: how far each augmentation moves each factor."""
    axes = part.subplots()
    columns = {name: mean_score(found, f"{name}_net") for name in AUGMENTATIONS}
    factors = list(columns["simclr"])
    shares = np.array([[columns[name][f] / DEVIATION for name in columns] for f in factors])
    axes.imshow(shares, vmin=0, vmax=1.2, cmap="Greys", aspect="auto")
    for (row, column), share in np.ndenumerate(shares):
        colour = "white" if share > 0.7 else "black"
        axes.text(column, row, f"{share:.2f}", ha="center", va="center", color=colour, fontsize=7)
    axes.set_xticks(range(len(columns)), list(columns), rotation=60, ha="right", fontsize=8)
    known = mean_score(found, "own_r2")  # of a factor that is not read nothing can be said
    names = [f"{factor} ({known[factor]:.2f})" for factor in factors]
    axes.set_yticks(range(len(factors)), names, fontsize=8)
    axes.set_title("net spread in deviations of the factor (R² without augmentation)", fontsize=9)


def _draw_shapes(part: Any, found: Sequence[Result]) -> None:
    """Draw what is read of SimCLR's views about the truth, beside what the theory assumes."""
    first = found[0]
    assert first.points is not None and first.factors is not None
    errors = np.array(first.points["predicted"]) - np.array(first.points["true"])
    grid = np.linspace(-2, 2, 400)
    # One width for all factors, as InfoNCE has it: the mean of their squared spreads.
    width = np.sqrt(np.mean([first.scores["simclr_spread"][name] ** 2 for name in first.factors]))
    for axes, name, error in zip(
        part.subplots(5, 2, sharex=True).flat, first.factors, errors.T, strict=False
    ):
        bars = axes.hist(error, np.linspace(-2, 2, 41), density=True, color="0.75", label="read")
        axes.plot(grid, norm.pdf(grid, 0.0, width), "k-", lw=1, label="assumed by InfoNCE")
        own = (first.scores[f"own_{what}"][name] for what in ("bias", "error"))
        axes.plot(grid, norm.pdf(grid, *own), "C0:", lw=1.2, label="the reader's own error")
        axes.set(yticks=[], ylim=(0, 1.15 * max(bars[0].max(), 1 / width / 2.5)))
        axes.set_title(name, fontsize=8, pad=2)
        axes.tick_params(labelsize=7)
    part.supxlabel("read of a SimCLR view, less the truth", fontsize=9)
    handles = axes.get_legend_handles_labels()
    part.legend(*handles, loc="outside upper center", ncols=3, frameon=False, fontsize=8)


if __name__ == "__main__":
    loaded = load_all(sys.argv[1], [])
    draw(loaded, Path(sys.argv[2]))
    for reader in ("hardened", "plain"):
        print(f"{reader}\n\n{markdown_table(records(loaded, reader))}\n")
