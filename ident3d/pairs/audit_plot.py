"""Plots of an audit: the differences z+ - z requested and served, and their spread by factor."""

from pathlib import Path
from typing import Any

import numpy as np

from .audit import Audit

_SUFFIXES = (".png", ".svg", ".pdf")
_COLOURS = {"nearest": "#d1495b", "weighted": "#edae49", "exact": "#00798c"}


def check_plot(path: Path) -> None:
    """Refuse, before any work is done, a plot that could not be written."""
    if path.suffix.lower() not in _SUFFIXES:
        raise ValueError(f"`plot` must end in {', '.join(_SUFFIXES)}; got {path.name!r}.")
    if not path.parent.is_dir():
        raise ValueError(f"`plot` must lie in a folder that exists; {path.parent} does not.")
    _figure()


def plot_audit(audit: Audit, path: Path) -> None:
    """Draw `audit` to a file."""
    figure = _figure()(figsize=(10, 4), layout="constrained")
    shapes, spreads = figure.subplots(1, 2)
    _draw_shapes(audit, shapes)
    _draw_spreads(audit, spreads)
    figure.suptitle(f"{audit.conditional} on {audit.rows:,} rows")
    figure.savefig(path, dpi=150)


def _draw_shapes(audit: Audit, axes: Any) -> None:
    """Draw histograms of all differences but those of fixed factors, as lines."""
    free = audit.differences["requested"].any(0)
    free |= ~free.any()  # where nothing is requested to change, all that is served shows
    pooled = {name: values[:, free].ravel() for name, values in audit.differences.items()}
    reach = max(np.abs(np.quantile(values, [0.001, 0.999])).max() for values in pooled.values())
    edges = np.linspace(-reach, reach, 121)
    for name, values in pooled.items():
        heights, _ = np.histogram(values, edges, density=True)
        requested = name == "requested"
        axes.plot(
            (edges[:-1] + edges[1:]) / 2,
            heights,
            color="black" if requested else _COLOURS[name],
            linestyle="--" if requested else "-",
            label=name,
        )
    axes.set(xlabel="z+ - z", ylabel="density", ylim=(0, None))
    axes.legend(frameon=False)


def _draw_spreads(audit: Audit, axes: Any) -> None:
    names = list(dict.fromkeys(factor.factor for factor in audit.factors))
    for method in audit.methods:
        own = [factor for factor in audit.factors if factor.method == method.method]
        served = [factor.served for factor in own]
        axes.plot(served, range(len(names)), "o", color=_COLOURS[method.method])
    requested = [factor.requested for factor in audit.factors[: len(names)]]
    axes.plot(requested, range(len(names)), "k|", markersize=14)
    axes.set(xlabel="spread of z+ - z (bars: requested)", xlim=(0, 1.05 * axes.get_xlim()[1]))
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()


def _figure() -> type:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("Plots need matplotlib: `pip install 'ident3d[plot]'`.") from error
    return Figure
