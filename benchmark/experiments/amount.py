"""How many images identification takes: R2 and MCC by the number of pairs, beside supervision.

Row 1 of table 4 and its supervised counterpart in the `medium` tier, trained on the first pairs of
the split for the same number of steps. The lines of 25,000 pairs are table 4's own records.

ident3d benchmark run amount --tier medium --data DATA --out results
ident3d benchmark run table4/1 table4/supervised --set steps=1500 --tier medium --data DATA \
    --out results
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
STEPS = 1_500  # half of what row 1 has: enough to see every factor
STUDIED = {"1": "contrastive", "supervised": "supervised"}  # row of table 4 -> word


def points(results: Sequence[Result]) -> dict[str, dict[tuple[int, int], Result]]:
    """Return the record of every number of pairs and steps, the first seed's, by training.

    Of the same numbers, one that was trained with further outputs (`beyond`) stands first.
    """
    found: dict[str, dict[tuple[int, int], Result]] = {word: {} for word in STUDIED.values()}
    for result in sorted(results, key=lambda result: (result.seed, -_setting(result, "beyond"))):
        family, _, row = result.experiment.partition("/")
        word = STUDIED.get(row) if family == "table4" else row.partition("/")[0]
        if family not in ("table4", "amount") or word not in found or result.tier != TIER:
            continue
        if result.protocol == HELD_OUT and not result.control:
            amount = int(_setting(result, "rows")) or ALL, int(_setting(result, "steps"))
            found[word].setdefault(amount, result)
    if not any(found.values()):
        raise DataError("There are no records of amount/...; run `benchmark run amount` first.")
    return {word: dict(sorted(records.items())) for word, records in found.items()}


def draw(results: Sequence[Result], path: Path) -> None:
    """Write the figure to `path`: by images, by steps, and each factor by itself.

    Where all runs have the same number of images, there is no panel of these.
    """
    from matplotlib.figure import Figure

    found = points(results)
    several = len({pairs for records in found.values() for pairs, _ in records}) > 1
    figure = Figure(figsize=(10, 6.4), layout="constrained")
    panels = figure.subplot_mosaic([["images" if several else "steps", "steps"], list(found)])
    steps, factors = panels["steps"], [panels[word] for word in found]
    for color, panel, (word, records) in zip(("C0", "C1"), factors, found.items(), strict=True):
        if not records:
            panel.set_axis_off()
            continue
        for shade, ((pairs, count), result) in enumerate(records.items(), 1):
            plain = word == "contrastive" and not _setting(result, "beyond")
            label = f"{word}, {2 * pairs:,} images, {count:,} steps"
            label += ", no further outputs" if plain else ""
            style: dict[str, Any] = {"linestyle": ":" if plain else "-", "label": label}
            steps.plot(*_line(result, "r2"), color=color, alpha=shade / len(records), **style)
        most = list(records.values())[-1]
        for column, factor in enumerate(FACTORS):
            panel.plot(*_line(most, f"r2_{column}"), color=f"C{column}", label=factor.name)
        panel.set(title=f"{word}, most images and steps", xlabel="steps", ylim=(-0.1, 1))
        panel.set_ylabel("R² of a factor")
    if several:
        _draw_images(panels["images"], found)
    steps.set(xlabel="steps", ylabel="R²", ylim=(0, 1), title="by steps")
    steps.legend(frameon=False, fontsize="small")
    [panel for panel in factors if panel.lines][-1].legend(frameon=False, fontsize="small", ncols=2)
    figure.savefig(path, dpi=150)


def _draw_images(panel: Any, found: dict[str, dict[tuple[int, int], Result]]) -> None:
    """Draw scores by the number of images, of runs of equally many steps."""
    for color, (word, records) in zip(("C0", "C1"), found.items(), strict=True):
        alike = {pairs: result for (pairs, count), result in records.items() if count == STEPS}
        for score, line, label in (("r2", "-", "R²"), ("mcc", "--", "MCC")):
            scores = [result.scores[score] for result in alike.values()]
            images = [2 * pairs for pairs in alike]
            panel.plot(images, scores, line, color=color, marker="o", label=f"{word}, {label}")
    panel.set(xscale="log", xlabel="images", xlim=(2 * PAIRS[0] / 1.3, 2 * ALL * 1.3))
    panel.set_xticks(amounts := [2 * pairs for pairs in (*PAIRS, ALL)], [f"{n:,}" for n in amounts])
    panel.minorticks_off()
    panel.set(ylim=(0, 1), title=f"by images, after {STEPS:,} steps")
    panel.legend(frameon=False, fontsize="small")


def _setting(result: Result, name: str) -> float:
    """Return a number of a run's settings; 0 where they do not say it."""
    return (result.settings or {}).get(name) or 0


def _line(result: Result, name: str) -> tuple[list[float], list[float]]:
    """Return steps and values of a curve; both are empty where there is none."""
    curves: dict[str, Any] = result.curves or {}
    values = curves.get(name, [])
    return curves.get("step", [])[: len(values)], values


def _experiments() -> Iterator[Experiment]:
    rows = {row.id: row for row in ROWS}
    for name, word in STUDIED.items():
        row = rows[f"table4/{name}"]
        for pairs in PAIRS:
            tiers = {TIER: row.tiers[TIER].with_(rows=pairs, steps=STEPS)}
            title = f"{row.title}; {pairs:,} pairs, {2 * pairs:,} images"
            yield Experiment(
                f"amount/{word}/{pairs}", title, row.method, tiers, run, {}, plan, Splits
            )


EXPERIMENTS = tuple(_experiments())

if __name__ == "__main__":
    draw(load_all(sys.argv[1], []), Path(sys.argv[2]))
