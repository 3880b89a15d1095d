"""Small SVG drawings for the pages: scales, ticks, axes. Colours come from the page's CSS.

Inline SVG follows dark mode and print, scales on a phone and needs no plotting library. Text
passes through `escape`.
"""

import math
from collections.abc import Callable, Sequence

from markupsafe import Markup, escape

Point = tuple[float | None, float | None]


class Panel:
    """One drawing with linear axes; give `log_x=True` for a logarithmic x axis."""

    def __init__(
        self,
        xlim: tuple[float, float],
        ylim: tuple[float, float],
        size: tuple[int, int] = (300, 200),
        margin: tuple[int, int, int, int] = (10, 10, 30, 38),  # top, right, bottom, left
        log_x: bool = False,
    ) -> None:
        self.xlim, self.ylim, self.size, self.margin = _wide(*xlim), _wide(*ylim), size, margin
        self.log_x = log_x
        self.parts: list[str] = []

    def x(self, value: float) -> float:
        """Map a data value to a horizontal position, kept inside the frame."""
        low, high = self.xlim
        if self.log_x:
            value, low, high = (math.log10(max(v, 1e-9)) for v in (value, low, high))
        left, right = self.margin[3], self.size[0] - self.margin[1]
        return left + (right - left) * _share(value, low, high)

    def y(self, value: float) -> float:
        """Map a data value to a vertical position, kept inside the frame."""
        top, bottom = self.margin[0], self.size[1] - self.margin[2]
        return bottom - (bottom - top) * _share(value, *self.ylim)

    def add(self, pattern: str, **values: object) -> None:
        """Append markup; text among the `values` is escaped, floats are shortened."""
        safe = {k: f"{v:.5g}" if isinstance(v, float) else escape(v) for k, v in values.items()}
        self.parts.append(pattern.format_map(safe))

    def text(
        self, x: float, y: float, text: str, css: str = "tick", anchor: str = "middle"
    ) -> None:
        """Write one label."""
        pattern = '<text x="{x}" y="{y}" class="{css}" text-anchor="{anchor}">{text}</text>'
        self.add(pattern, x=x, y=y, css=css, anchor=anchor, text=text)

    def rule(self, x1: float, y1: float, x2: float, y2: float, css: str) -> None:
        """Draw one straight line between two positions."""
        pattern = '<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" class="{css}"/>'
        self.add(pattern, x1=x1, y1=y1, x2=x2, y2=y2, css=css)

    def axes(
        self,
        xticks: Sequence[float],
        yticks: Sequence[float],
        xname: str = "",
        show_x: Callable[[float], str] = lambda v: short(v),
        show_y: Callable[[float], str] = lambda v: short(v),
    ) -> None:
        """Draw grid lines and tick labels; the frame itself stays empty."""
        left, right = self.margin[3], self.size[0] - self.margin[1]
        bottom = self.size[1] - self.margin[2]
        for value in yticks:
            self.rule(left, self.y(value), right, self.y(value), "grid")
            self.text(left - 6, self.y(value) + 3.5, show_y(value), anchor="end")
        for value in xticks:
            self.text(self.x(value), bottom + 14, show_x(value))
        if xname:
            self.text((left + right) / 2, self.size[1] - 2, xname, "axis")

    def line(self, points: Sequence[Point], css: str) -> None:
        """Draw a line through data points; a missing value leaves a gap."""
        path, start = "", "M"
        for x, y in points:
            if x is None or y is None:
                start = "M"
            else:
                path += f"{start}{self.x(x):.1f} {self.y(y):.1f}"
                start = "L"
        self.add('<path d="{path}" class="{css}"/>', path=path, css=css)

    def dots(self, points: Sequence[Point], css: str) -> None:
        """Draw many dots as one path of zero-length strokes with round caps: light to render."""
        path = "".join(
            f"M{self.x(x):.1f} {self.y(y):.1f}h0"
            for x, y in points
            if x is not None and y is not None
        )
        self.add('<path d="{path}" class="{css}"/>', path=path, css=css)

    def render(self, label: str, css: str = "plot") -> Markup:
        """Close the drawing; `label` is what a screen reader says."""
        pattern = Markup('<svg class="{}" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>')
        return pattern.format(css, *self.size, label, Markup("".join(self.parts)))


def ticks(low: float, high: float, count: int = 4) -> list[float]:
    """Round values between `low` and `high`, about `count` of them."""
    low, high = _wide(low, high)
    raw = (high - low) / count
    power = 10 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


def short(value: float) -> str:
    """Write a tick label: 2k for 2000, no trailing zeros."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}" if abs(value) > 1e-12 else "0"


def bounds(values: Sequence[float | None], pad: float = 0.04) -> tuple[float, float]:
    """Lowest and highest known value, with some room."""
    known = [v for v in values if v is not None] or [0.0]
    low, high = _wide(min(known), max(known))
    return low - pad * (high - low), high + pad * (high - low)


def _wide(low: float, high: float) -> tuple[float, float]:
    """Limits that a division survives, whatever a stranger's record holds."""
    low, high = sorted(min(max(float(v), -1e12), 1e12) for v in (low, high))
    if high - low > 1e-9 * max(abs(low), abs(high), 1e-3):
        return low, high
    room = max(abs(low), 1e-3) * 0.5
    return low - room, high + room


def _share(value: float, low: float, high: float) -> float:
    return min(max((value - low) / (high - low), 0.0), 1.0)
