"""How many images identification takes: R2 and MCC by the number of pairs, beside supervision.

Row 1 of table 4 and its supervised counterpart in the `medium` tier, trained on the first pairs of
the split for the same number of steps. The lines of 25,000 pairs are table 4's own records.

ident3d benchmark run table4/1 table4/supervised amount --tier medium --data DATA --out results
python -m ident3d.benchmark.experiments.amount results docs/figures/amount.png
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ident3d.errors import DataError
from ident3d.factors import FACTORS

from ..data.images import Splits
from ..results import Result, load_all
from ..scoring import HELD_OUT
from ..settings.experiment import Experiment
from ..settings.tiers import TIERS
from ..training.cost import plan
from ..training.image_run import run
from .table4 import EXPERIMENTS as ROWS

TIER = "medium"
SIZE = TIERS[TIER].images
assert SIZE is not None  # it is a tier of images
ALL = SIZE.rows[0]
PAIRS = (1_250, 3_750, 12_500)  # and all of them, which are rows of table 4
STUDIED = {"1": "contrastive", "supervised": "supervised"}  # row of table 4 -> word


def points(results: Sequence[Result]) -> dict[str, dict[int, Result]]:
    """Return the record of every number of pairs, the first seed's, for each way to train."""
    found: dict[str, dict[int, Result]] = {word: {} for word in STUDIED.values()}
    for result in sorted(results, key=lambda result: result.seed):
        family, _, row = result.experiment.partition("/")
        word = STUDIED.get(row) if family == "table4" else row.partition("/")[0]
        if family not in ("table4", "amount") or word not in found or result.tier != TIER:
            continue
        if result.protocol == HELD_OUT and not result.control:
            pairs = (result.settings or {}).get("rows") or ALL
            found[word].setdefault(pairs, result)
    if not any(found.values()):
        raise DataError("There are no records of amount/...; run `benchmark run amount` first.")
    return found


def draw(results: Sequence[Result], path: Path) -> None:
    """Write the figure to `path`: by images, by steps, and each factor by itself."""
    from matplotlib.figure import Figure

    found = points(results)
    figure = Figure(figsize=(10, 6.4), layout="constrained")
    (images, steps), factors = figure.subplots(2, 2)
    for number, (word, records) in enumerate(found.items()):
        for score, line in (("r2", "-"), ("mcc", "--")):
            values = [
                (2 * pairs, record.scores[score]) for pairs, record in sorted(records.items())
            ]
            label = f"{word}, {'R²' if score == 'r2' else 'MCC'}"
            images.plot(
                *zip(*values, strict=True), line, marker="o", color=f"C{number}", label=label
            )
        for shade, (pairs, record) in enumerate(sorted(records.items())):
            curves, strength = record.curves or {}, (shade + 1) / (len(records) + 1)
            label = f"{word}, {2 * pairs:,} images"
            style: dict[str, Any] = {"color": f"C{number}", "alpha": strength, "label": label}
            steps.plot(curves.get("step", []), curves.get("r2", []), **style)
        names, panel = [factor.name for factor in FACTORS], factors[number]
        for column, name in enumerate(names):
            values = [
                (2 * pairs, record.scores["r2_per_factor"][name])
                for pairs, record in sorted(records.items())
            ]
            panel.plot(*zip(*values, strict=True), marker=".", color=f"C{column}", label=name)
        panel.set(
            title=word, xscale="log", xlabel="images", ylabel="R² of a factor", ylim=(-0.05, 1)
        )
    images.set(xscale="log", xlabel="images", ylim=(0, 1), title="by images")
    steps.set(xlabel="steps", ylabel="R²", ylim=(0, 1), title="by steps")
    images.legend(frameon=False, fontsize="small")
    steps.legend(frameon=False, fontsize="small", ncols=2)
    factors[-1].legend(frameon=False, fontsize="small", ncols=2)
    figure.savefig(path, dpi=150)


def _experiments() -> Iterator[Experiment]:
    rows = {row.id: row for row in ROWS}
    for name, word in STUDIED.items():
        row = rows[f"table4/{name}"]
        for pairs in PAIRS:
            tiers = {TIER: row.tiers[TIER].with_(rows=pairs)}
            title = f"{row.title}; {pairs:,} pairs, {2 * pairs:,} images"
            yield Experiment(
                f"amount/{word}/{pairs}", title, row.method, tiers, run, {}, plan, Splits
            )


EXPERIMENTS = tuple(_experiments())

if __name__ == "__main__":
    draw(load_all(sys.argv[1], []), Path(sys.argv[2]))
