"""The drawings of the leaderboard: each takes records and returns inline SVG."""

import math
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from ident3d.metrics import match_columns

from ..results import Result
from ..scoring import describe
from .svg import Panel, Point, bounds, short, ticks
from .tables import Row, mean_std, show_pair, show_time

MAX_LINE = 300  # points of a drawn curve
MAX_CELLS = 40  # rows and columns of a drawn matrix
SERIES = 6  # colours in the style sheet
TIMES = (0.1, 1, 10, 60, 600, 3600, 36000, 86400, 864000)  # seconds that people have names for


def curve(results: Sequence[Result], name: str) -> Markup | None:
    """Draw one quantity over the training steps, a line per seed; None if nobody recorded it."""
    lines = _lines([(result, name) for result in results])
    if not lines:
        return None
    scale = 100 if describe(name).percent else 1
    last = [next(y for _, y in reversed(line) if y is not None) for line in lines]
    ends = ", ".join(short(v * scale) for v in last[:10])
    label = f"{describe(name).label} over training steps; it ends at {ends}."
    return _over_steps(lines, scale).render(label)


def curve_family(result: Result, names: Sequence[str], what: str) -> Markup | None:
    """Draw several quantities of one run together, such as all entries of a learned metric."""
    lines = _lines([(result, name) for name in names])
    if not lines:
        return None
    return _over_steps(lines).render(f"{what} over training steps, {len(lines)} lines.")


def predicted(row: Row) -> list[tuple[str, Markup]]:
    """Draw predicted against true, a panel per factor, from the first seed that kept points."""
    for result in row.results:
        if result.points and result.points["true"]:
            true = list(zip(*result.points["true"], strict=True))  # a tuple per factor
            panels = zip(true, zip(*result.points["predicted"], strict=True), strict=True)
            named = zip(factor_names(result, len(true)), panels, strict=True)
            return [(name, _scatter(name, *pair)) for name, pair in named][:MAX_CELLS]
    return []


def correlation(result: Result) -> Markup | None:
    """Draw the correlation matrix, learned dimensions ordered so that matches are diagonal."""
    if not result.correlation or not result.correlation[0]:
        return None
    values = np.array(
        [[0 if v is None else v for v in line] for line in result.correlation], dtype=float
    )
    values = np.abs(values).clip(0, 1)
    matched = match_columns(values)[1].tolist()
    order = matched + [c for c in range(values.shape[1]) if c not in set(matched)]
    names = factor_names(result, len(values))
    shown = values[:MAX_CELLS, order[:MAX_CELLS]]
    return _heatmap(shown, names, order)


def metric(results: Sequence[Result]) -> Markup | None:
    """Draw the learned diagonal metric of each seed as dots, the true one as bars behind.

    A dimension stands at the place of the true value that it was matched with, as the record has
    it; values are sorted where there is no truth.
    """
    learned = [line for line in map(_in_order, results) if line]
    if not learned:
        return None
    truth = sorted(
        v for v in next((r.metric_true for r in results if r.metric_true), []) if v is not None
    )
    count = max(len(truth), *(len(line) for line in learned))
    values = [v for line in (*learned, truth) for v in line]
    panel = Panel((0.4, count + 0.6), (min(0, *values, 0), bounds(values)[1]), (480, 200))
    panel.axes(
        range(1, count + 1, max(1, count // 12)), ticks(*panel.ylim), "dimension, by true value"
    )
    for place, value in enumerate(truth, start=1):
        y = panel.y(value)
        panel.rule(panel.x(place - 0.38), y, panel.x(place + 0.38), y, "truth")
    for number, line in enumerate(learned):
        panel.dots(list(enumerate(line, start=1)), f"dots big series-{number % SERIES}")
    listed = ", ".join(short(v) for v in learned[0][:20])
    return panel.render(f"Learned metric, by true value, first seed: {listed}.", "plot wide")


def _in_order(result: Result) -> list[float]:
    """Return a learned metric in the order of the true values of its dimensions."""
    metric = result.metric or []
    true = result.metric_true or []
    if len(true) != len(metric):
        true = metric
    pairs = [(t, v) for t, v in zip(true, metric, strict=True) if t is not None and v is not None]
    return [value for _, value in sorted(pairs)]


def per_factor(row: Row) -> list[tuple[str, float | None, float | None, Markup]]:
    """R2 of each factor, in their own order: name, mean, std and a bar."""
    tables = [r.scores.get("r2_per_factor") or {} for r in row.results]
    place = {name: number for number, name in enumerate(row.first.factors or [])}
    named = dict.fromkeys(name for table in tables for name in table)  # files sort them by name
    names = sorted(named, key=lambda name: place.get(name, len(place)))
    found = [(name, *mean_std([table.get(name) for table in tables])) for name in names]
    return [(name, mean, std, bar(mean, None)) for name, mean, std in found]


def bar(
    value: float | None, published: float | None, chance: tuple[float, float] | None = None
) -> Markup:
    """Draw a thin bar for a share of 1, with marks at the published value and at chance.

    `chance` is the mean of random rotations and their 95th percentile, a tick each.
    """
    panel = Panel((0, 1), (0, 1), (100, 6), (0, 0, 0, 0))
    panel.add('<rect width="100" height="4" y="1" rx="2" class="track"/>')
    if value is not None:
        panel.add(
            '<rect width="{w}" height="4" y="1" rx="2" class="fill"/>', w=float(panel.x(value))
        )
    for place in chance or ():
        panel.add(
            '<rect x="{x}" width="1" height="6" class="chance-mark"/>', x=panel.x(place) - 0.5
        )
    if published is not None:
        panel.add('<rect x="{x}" width="1.6" height="6" class="mark"/>', x=panel.x(published) - 0.8)
    body = Markup("".join(panel.parts))
    pattern = Markup(
        '<svg class="bar" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">'
        "{}</svg>"
    )
    return pattern.format(body)


def time_chart(rows: Sequence[Row], score: str, colours: dict[str, int]) -> Markup | None:
    """Draw a score against the training time; every dot leads to its method's page."""
    dots: list[tuple[Row, float, float]] = []
    for row in rows:
        seconds, mean = row.seconds, row.score(score)[0]
        if seconds and mean is not None:  # what was not trained has no place on a log scale
            dots.append((row, seconds, mean))
    if not dots:
        return None
    times = [max(x, 0.05) for _, x, _ in dots]
    low = max(0.0, math.floor(min(y for *_, y in dots) * 10 - 0.2) / 10)
    panel = Panel(
        (min(times) / 1.5, max(times) * 1.5), (low, 1.0), (520, 300), (14, 14, 34, 40), log_x=True
    )
    marks = [t for t in TIMES if panel.xlim[0] <= t <= panel.xlim[1]]
    panel.axes(
        marks or [times[0]],
        ticks(*panel.ylim, 5),
        "training time",
        show_time,
        lambda v: f"{v * 100:.3g}",
    )
    name = describe(score).label
    for row, x, y in dots:
        first = row.first
        told = f"{name} {show_pair(score, *row.score(score))}"
        panel.add(
            '<a href="methods/{page}#{anchor}" tabindex="-1"><circle cx="{x}" cy="{y}" r="5"'
            ' class="spot series-{colour}"><title>{title}</title></circle></a>',
            page=row.page,
            anchor=row.anchor,
            x=panel.x(x),
            y=panel.y(y),
            colour=colours[row.family] % SERIES,
            title=f"{first.method}, {first.experiment}: {told}, {show_time(x)}",
        )
    return panel.render(
        f"{name} in percent against training time of {len(dots)} rows; "
        "the tables below hold the same numbers.",
        "plot chart",
    )


def factor_names(result: Result, count: int) -> list[str]:
    """Names of the true factors, or numbers where the record gives none that fit."""
    names = result.factors or []
    return names if len(names) == count else [f"factor {i + 1}" for i in range(count)]


def thin(points: list[Point]) -> list[Point]:
    """Keep at most `MAX_LINE` evenly spaced points, always the last."""
    step = max(1, math.ceil(len(points) / MAX_LINE))
    return points[::step] + ([points[-1]] if (len(points) - 1) % step else [])


def _lines(wanted: Sequence[tuple[Result, str]]) -> list[list[Point]]:
    """Return the named curves as points, those that hold any."""
    lines = []
    for result, name in wanted:
        curves = result.curves or {}
        values = curves.get(name, [])
        line = thin(list(zip(curves.get("step", range(len(values))), values, strict=False)))
        if any(y is not None for _, y in line):
            lines.append(line)
    return lines


def _over_steps(lines: Sequence[list[Point]], scale: float = 1) -> Panel:
    xs, ys = ([point[axis] for line in lines for point in line] for axis in (0, 1))
    panel = Panel((0, bounds(xs, 0)[1]), bounds(ys))
    panel.axes(
        ticks(*panel.xlim, 3), ticks(*panel.ylim, 5), "step", show_y=lambda v: short(v * scale)
    )
    for number, line in enumerate(lines):
        panel.line(line, f"line series-{number % SERIES}")
    return panel


def _scatter(name: str, true: Sequence, guess: Sequence) -> Markup:
    low, high = bounds(true)
    panel = Panel((low, high), (low, high), (160, 160), (8, 8, 20, 30))
    panel.axes(ticks(low, high, 3), ticks(low, high, 3))
    panel.rule(panel.x(low), panel.y(low), panel.x(high), panel.y(high), "truth thin")
    panel.dots(list(zip(true, guess, strict=True)), "dots series-0")
    return panel.render(f"Predicted against true {name}, {len(true)} rows.")


def _heatmap(values: np.ndarray, names: Sequence[str], order: Sequence[int]) -> Markup:
    rows, columns = values.shape
    cell = 30 if max(rows, columns) <= 14 else 16
    left, top = 118, 20
    size = (left + columns * cell + 4, top + rows * cell + 4)
    panel = Panel((0, 1), (0, 1), size, (0, 0, 0, 0))
    for r in range(rows):
        panel.text(left - 8, top + r * cell + cell / 2 + 4, names[r][:18], anchor="end")
        for c in range(columns):
            value = float(values[r, c])
            panel.add(
                '<rect x="{x}" y="{y}" width="{s}" height="{s}" rx="3" class="cell"'
                ' fill-opacity="{o}"/>',
                x=left + c * cell, y=top + r * cell, s=cell - 2, o=round(value, 2),
            )  # fmt: skip
            if cell == 30:
                css = "value" if value < 0.55 else "value mid" if value < 0.78 else "value strong"
                place = (left + c * cell + cell / 2 - 1, top + r * cell + cell / 2 + 3)
                panel.text(*place, f"{value * 100:.0f}", css)
    for c in range(columns):
        panel.text(left + c * cell + cell / 2 - 1, top - 7, str(order[c] + 1))
    best = ", ".join(f"{names[i]} {values[i, i]:.2f}" for i in range(min(rows, columns, 12)))
    return panel.render(f"Correlation of true factors and learned dimensions. Matched: {best}.")
