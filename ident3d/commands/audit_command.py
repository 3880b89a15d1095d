"""`ident3d audit PATH --conditional normal:0.1`: what is requested against what is served."""

from pathlib import Path
from types import SimpleNamespace

import click
import numpy as np

from ..conditionals import parse
from ..dataset import Dataset, load
from ..factors import FACTORS
from ..pairs.audit import AUDITED, Audit
from ..pairs.audit import audit as measure
from ..pairs.audit_plot import check_plot, plot_audit
from ..pairs.transitions import transitions
from ..rows import row_latents
from .options import echo, examples, json_option, table


@click.command(
    epilog=examples(
        "ident3d audit 3dident/train --conditional normal:0.1 --plot audit.png",
        "ident3d audit --rows 250000 --conditional normal:0.1",
        "ident3d audit kitti-masks/train --conditional time:5",
    )
)
@click.argument("path", type=click.Path(path_type=Path), required=False)
@click.option("--conditional", help="normal:0.1, or x=normal:0.1,others=fixed; default: rendered.")
@click.option(
    "--method", "methods", type=click.Choice(AUDITED), multiple=True,
    help="nearest, weighted or exact; may be repeated. All that work by default.",
)  # fmt: skip
@click.option(
    "--rows", type=click.IntRange(2, 10**7), help="Instead of PATH: uniform latents alone."
)
@click.option(
    "--pairs", type=click.IntRange(2, 10**7), default=20_000, show_default=True, help="How many."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--plot", type=click.Path(path_type=Path), help="Draw the audit: a .png, .svg, .pdf.")
@json_option
def audit(
    path: Path | None,
    conditional: str | None,
    methods: tuple[str, ...],
    rows: int | None,
    pairs: int,
    seed: int,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Compare the conditional requested with the pairs that a data set serves.

    With --rows 250000 instead of PATH it tells, before any image is rendered, what look-ups among
    that many uniform rows would serve. Pairs by time, time:5, request nothing: it tells how factors
    change between their frames.
    """
    if path is not None and conditional and conditional.startswith("time:"):
        if methods or rows or plot:
            raise click.UsageError("Pairs by time take neither --method, --rows nor --plot.")
        return show_transitions(path, conditional, pairs, seed, as_json)
    if plot is not None:
        check_plot(plot)
    data: Dataset | SimpleNamespace
    if path is not None and rows is None:
        data, name = load(path), str(path)
    elif path is None and rows is not None:
        data, name = synthetic(rows, conditional, seed), "uniform latents"
    else:
        raise click.UsageError("Give either PATH or --rows.")
    found = measure(data, conditional, methods or None, pairs=pairs, seed=seed)
    if plot is not None:
        plot_audit(found, plot)
    record = {"path": None if path is None else str(path), **found.to_record()}
    echo(record, text(found, name), as_json)


def show_transitions(path: Path, conditional: str, pairs: int, seed: int, as_json: bool) -> None:
    """Say how factors change between the frames of pairs by time; nothing is requested of them."""
    found = transitions(load(path), conditional, pairs=pairs, seed=seed)
    rows = [
        [
            t.factor,
            f"{t.spread:.4f}",
            f"{t.still:.1%}",
            "-" if t.excess_kurtosis is None else f"{t.excess_kurtosis:.2f}",
            "-" if t.shape is None else f"{t.shape:.2f}",
        ]
        for t in found.factors
    ]
    header = ["factor", "spread", "unchanged", "excess kurtosis", "shape"]
    lines = [
        f"{path}: {found.conditional}, {found.pairs:,} pairs, changes of unit latents",
        "",
        table(rows, header),
        "",
        "Shape is the exponent of the generalized normal law that fits best: normal 2, Laplace 1.",
    ]
    echo({"path": str(path), **found.to_record()}, "\n".join(lines), as_json)


def synthetic(rows: int, conditional: str | None, seed: int) -> SimpleNamespace:
    """Stand in for a data set of uniform rows, each with a positive from the true conditional."""
    if conditional is None:
        raise ValueError("`--conditional` is needed with `--rows`.")
    latents = row_latents(seed, "train", range(rows))
    rng = np.random.default_rng([seed, 3])
    positives = parse(conditional).sample(latents, rng).astype(np.float32)
    return SimpleNamespace(
        latents=latents,
        factors=FACTORS,
        fingerprint=f"uniform-{seed}-{rows}",
        classes=None,
        path=None,
        pairs=SimpleNamespace(latents=positives, conditional=conditional),
    )


def text(found: Audit, name: str) -> str:
    """Lay the audit out: methods side by side, then every factor, then what it means."""
    methods = [method.method for method in found.methods]
    summary = [
        [
            method.method,
            f"{method.requested:.3f}",
            f"{method.served:.3f}",
            "-" if method.ratio is None else f"{method.ratio:.2f}",
            "-" if method.on_anchor is None else f"{method.on_anchor:.1%}",
            f"{method.distance:.3f}",
            f"{method.wasserstein:.4f}",
            f"{method.ks:.3f}",
        ]
        for method in found.methods
    ]
    served = {(factor.factor, factor.method): factor for factor in found.factors}
    factors = [
        [
            name,
            f"{served[name, methods[0]].requested:.3f}",
            *(f"{served[name, method].served:.3f}" for method in methods),
            *(f"{served[name, method].wasserstein:.4f}" for method in methods),
        ]
        for name in dict.fromkeys(factor.factor for factor in found.factors)
    ]
    header = ["method", "requested", "served", "ratio", "on anchor", "distance", "W1", "KS"]
    columns = ["factor", "requested", *methods, *(f"W1 {method}" for method in methods)]
    return "\n".join(
        [
            f"{name}: {found.rows:,} rows, {found.conditional}, {found.pairs:,} pairs",
            "",
            table(summary, header),
            "",
            "Spread of z+ - z, and its distance (W1) from the one requested, by factor:",
            table(factors, columns),
            "",
            *found.advice(),
        ]
    )
