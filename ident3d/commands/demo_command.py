"""`ident3d demo [OUT]`: the whole pipeline, small, by the very commands a user would type."""

import contextlib
import shlex
import time
from pathlib import Path

import click

from ..progress import duration
from .options import examples, table

TRAIN, TEST = 1_500, 500  # rows; each training row has a rendered positive
PAIRS = "normal:0.3"  # the conditional of the `demo` tier
FACTORS = "rotation"  # what no linear method finds
RENDERING = "--resolution 64 --preset draft --shard-size 250"
ROWS = ("supervised", "1", "2", "4")  # of table 4
CHANGES = ""  # further options of `benchmark run` and `benchmark controls`


@click.command(epilog=examples("ident3d demo", "ident3d demo /tmp/demo"))
@click.argument("out", type=click.Path(path_type=Path), default=Path("demo"))
def demo(out: Path) -> None:
    """Render a small data set with exact pairs, check it, train on it, rank what was learned.

    Everything goes to the folder OUT (default: demo). Stopped, the same command goes on.
    """
    began = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    data, train = out / "data", out / "data" / "train"
    click.echo("1. Images, each with a positive drawn from the true conditional (Blender)")
    told = f"--factors {FACTORS} {RENDERING}"
    _run(f"render {{}} --split train --size {TRAIN} --pairs {PAIRS} {told}", data)
    _run(f"render {{}} --split test --size {TEST} {told}", data)
    _run("sheet {} --out {}", train, out / "images.png")
    _run("sheet --render --steps 7 --resolution 64 --out {}", out / "traversals.png")

    click.echo("\n2. Is every byte right? Do the pairs follow the conditional?")
    _run("verify {}", data)
    _run(f"index {{}} --factors {FACTORS}", train)
    _run("audit {} --plot {}", train, out / "audit.png")
    with open(out / "audit.json", "w") as stream, contextlib.redirect_stdout(stream):
        _call("audit {} --json", train)

    click.echo("\n3. Encoders, trained and scored on rows that none of them has seen")
    ids = " ".join(f"table4/{row}" for row in ROWS)
    options = f"--tier demo --data {{}} --out {{}} {CHANGES}"
    _run(f"benchmark run {ids} {options}", data, out / "results")
    _run(f"benchmark controls table4/1 {options}", data, out / "results")
    _run("benchmark report {} --out {} --data {}", out / "results", out / "site", out)

    click.echo("\n" + summary(out / "results"))
    click.echo(f"\nDone in {duration(time.monotonic() - began)}. Look at")
    for name, what in (
        ("images.png", "some of the images"),
        ("traversals.png", "what each factor does"),
        ("audit.png", "the conditional requested, and what is served"),
        ("site/index.html", "the leaderboard: curves, correlations, predictions"),
        ("data", "the data set; ident3d.load opens it"),
    ):
        click.echo(f"  {out / name}  {what}")


def summary(results: Path) -> str:
    """Lay out what was reached on the test rows, and what controls reach without training."""
    from ident3d.benchmark.experiments import title
    from ident3d.benchmark.results import load_all
    from ident3d.benchmark.scoring import HELD_OUT

    held_out = [r for r in load_all(results) if r.protocol in (HELD_OUT, "clean")]
    found = {r.experiment: r for r in held_out if not r.control}
    rows = [(f"{r.method}: {title(r.experiment)}", r) for r in (found[f"table4/{n}"] for n in ROWS)]
    rows += [(r.method, r) for r in held_out if r.control]
    lines = [
        [name, *(show(result.scores.get(score)) for score in ("r2", "mcc"))]
        for name, result in rows
    ]
    return table(lines, ["test rows, held-out", "R2", "MCC"])


def show(value: float | None) -> str:
    """Write a score; `-` if it was not computed."""
    return "-" if value is None else f"{value:.3f}"


def _run(command: str, *paths: Path) -> None:
    """Show a command, and run it in this process."""
    click.echo(f"$ ident3d {shlex.join(_words(command, *paths))}")
    _call(command, *paths)


def _call(command: str, *paths: Path) -> None:
    from ..cli import cli  # it knows this file, too

    cli.main(_words(command, *paths), prog_name="ident3d", standalone_mode=False)


def _words(command: str, *paths: Path) -> list[str]:
    return shlex.split(command.format(*(shlex.quote(str(path)) for path in paths)))
