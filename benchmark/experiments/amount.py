"""How many images identification takes: R2 and MCC by the number of pairs, beside supervision.

Row 1 of table 4 and its supervised counterpart in the `medium` tier, trained on the first pairs of
the split for the same number of steps. The lines of 25,000 pairs are table 4's own records. The
last command draws the figure and prints the table of docs/images.md.

ident3d benchmark run amount --workers 2 --tier medium --data DATA --out results
ident3d benchmark controls amount table4/1 --tier medium --data DATA --out results
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
CONTROL = "Control: linear slow features"
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


def linear_control(results: Sequence[Result]) -> dict[int, Result]:
    """Return the record of linear slow features on as many pairs, by their number."""
    found = {}
    for result in results:
        family, _, row = result.experiment.partition("/")
        word, _, pairs = row.partition("/")
        asked = result.method == CONTROL and result.protocol == HELD_OUT and result.tier == TIER
        if asked and family == "amount" and word == "contrastive":
            found[int(pairs)] = result
        elif asked and result.experiment == "table4/1":
            found[ALL] = result
    return dict(sorted(found.items()))


def table(results: Sequence[Result]) -> str:
    """Return the scores by the number of images as Markdown: pairs, supervision, the control."""
    names = [factor.name.replace("_", " ") for factor in FACTORS]
    head = ["images", "training", "R²", "MCC", "R² on training rows", *names]
    lines = [head, ["---"] * len(head)]
    trained = [(word, _by_images(records)) for word, records in points(results).items()]
    for word, records in (*trained, ("linear slow features", linear_control(results))):
        for pairs, result in records.items():
            scores = result.scores
            told = [scores["r2"], scores["mcc"], scores.get("r2_train")]
            cells = ["" if score is None else f"{score:.3f}" for score in told]
            factors = [round(scores["r2_per_factor"][factor.name], 2) for factor in FACTORS]
            # 0 is added so that what rounds to nothing has no sign.
            lines.append([f"{2 * pairs:,}", word, *cells, *(f"{r2 + 0:.2f}" for r2 in factors)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def draw(results: Sequence[Result], path: Path) -> None:
    """Write the figure to `path`: by images and by steps, the mean and each factor by itself."""
    from matplotlib.figure import Figure

    found = points(results)
    figure = Figure(figsize=(10, 9.6), layout="constrained")
    (images, steps), factors_by_images, factors_by_steps = figure.subplots(3, 2)
    amounts = {word: _by_images(records) for word, records in found.items()}
    _draw_amounts(images, {**amounts, "linear": linear_control(results)})
    for color, (word, records) in enumerate(found.items()):
        _draw_factors(factors_by_images[color], amounts[word])
        factors_by_images[color].set_title(f"{word}, after {STEPS:,} steps")
        whole = {count: result for (pairs, count), result in records.items() if pairs == ALL}
        _draw_curves(steps, whole, word, f"C{color}")
        panel = factors_by_steps[color]
        for number, factor in enumerate(FACTORS if whole else ()):
            curve = _line(whole[max(whole)], f"r2_{number}")
            panel.plot(*curve, color=f"C{number}", label=factor.name)
        panel.set(title=f"{word}, {2 * ALL:,} images", xlabel="steps")
        panel.set(ylabel="R² of a factor", ylim=(-0.1, 1.03))
    steps.set(xlabel="steps", ylabel="R²", ylim=(0, 1.03), title=f"{2 * ALL:,} images")
    for panel in (images, steps):
        panel.legend(frameon=False, fontsize="small")
    factors_by_steps[-1].legend(frameon=False, fontsize="small", ncols=2)
    figure.savefig(path, dpi=150)


def _draw_amounts(panel: Any, amounts: dict[str, dict[int, Result]]) -> None:
    """Draw the mean scores by the number of images: of each training, and of the control."""
    for color, (word, records) in zip(("C0", "C1", "grey"), amounts.items(), strict=True):
        for score, style, label in (("r2", "o-", "R²"), ("mcc", "s--", "MCC")):
            scores = [result.scores[score] for result in records.values()]
            images = [2 * pairs for pairs in records]
            panel.plot(images, scores, style, color=color, label=f"{word}, {label}")
    _scale_images(panel)
    panel.set(ylabel="R², MCC", ylim=(0, 1.03), title=f"after {STEPS:,} steps")


def _draw_curves(panel: Any, whole: dict[int, Result], word: str, color: str) -> None:
    """Draw R² during training, a line for each number of steps, the longest run the darkest."""
    for shade, (count, result) in enumerate(whole.items(), 1):
        plain = word == "contrastive" and not _setting(result, "beyond")
        label = f"{word}, {count:,} steps{', no further outputs' if plain else ''}"
        style: dict[str, Any] = {"linestyle": ":" if plain else "-", "label": label}
        panel.plot(*_line(result, "r2"), color=color, alpha=shade / len(whole), **style)


def _by_images(records: dict[tuple[int, int], Result]) -> dict[int, Result]:
    """Return the records of runs of equally many steps by their number of pairs."""
    return {pairs: result for (pairs, count), result in records.items() if count == STEPS}


def _draw_factors(panel: Any, records: dict[int, Result]) -> None:
    """Draw every factor's score by the number of images."""
    for number, factor in enumerate(FACTORS):
        scores = [result.scores["r2_per_factor"][factor.name] for result in records.values()]
        panel.plot([2 * pairs for pairs in records], scores, color=f"C{number}", marker="o")
    _scale_images(panel)
    panel.set(ylabel="R² of a factor", ylim=(-0.1, 1.03))


def _scale_images(panel: Any) -> None:
    """Put the study's numbers of images under a panel."""
    panel.set(xscale="log", xlabel="images", xlim=(2 * PAIRS[0] / 1.3, 2 * ALL * 1.3))
    panel.set_xticks(amounts := [2 * pairs for pairs in (*PAIRS, ALL)], [f"{n:,}" for n in amounts])
    panel.minorticks_off()


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
    records = load_all(sys.argv[1], [])
    draw(records, Path(sys.argv[2]))
    print(table(records))
