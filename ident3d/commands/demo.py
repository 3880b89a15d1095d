"""`ident3d demo [OUT]`: the whole pipeline, small, by the very commands a user would type."""

import contextlib
import shlex
import time
from pathlib import Path

import click

from .options import table

WIDTH = "normal:0.2"  # the `tiny` tier's conditional
TRAIN, TEST = 1_000, 400  # rows; every training row has a rendered positive
RENDER = "--factors position --resolution 64 --preset draft --shard-size 250"
ROWS = ("identity", "random", "supervised", "1", "2", "4")  # of table 4


@click.command()
@click.argument("out", type=click.Path(path_type=Path), default=Path("demo"))
@click.option("--rows", default=TRAIN, show_default=True, help="Pairs to render.")
@click.option("--set", "changes", multiple=True, metavar="NAME=VALUE", help="Change a setting.")
def demo(out: Path, rows: int, changes: tuple[str, ...]) -> None:
    """Render a small data set with exact pairs, check it, train on it, rank what was learned.

    Everything goes to the folder OUT (default: demo). Stopped, the same command goes on.
    """
    began = time.monotonic()
    data, results, site = out / "data", out / "results", out / "site"
    out.mkdir(parents=True, exist_ok=True)
    _step("1. Images, each with a positive drawn from the true conditional (Blender)")
    _run(f"render {{}} --split train --size {rows} --pairs {WIDTH} {RENDER}", data)
    _run(f"render {{}} --split test --size {TEST} {RENDER}", data)
    _run("sheet {} --out {}", data / "train", out / "images.png")

    _step("2. Is every byte right? Does the look-up serve what is asked of it?")
    _run("verify {}", data)
    _run("index {} --factors position", data / "train")
    _run(f"audit {{}} --conditional {WIDTH}", data / "train")
    with open(out / "audit.json", "w") as stream, contextlib.redirect_stdout(stream):
        _call(f"audit {{}} --conditional {WIDTH} --json", data / "train")

    _step("3. Encoders, trained and scored")
    ids = " ".join(f"table4/{row}" for row in ROWS)
    settings = " ".join(f"--set {shlex.quote(change)}" for change in changes)
    _run(f"benchmark run {ids} --tier tiny --data {{}} --out {{}} {settings}", data, results)
    _run("benchmark report {} --out {} --data {}", results, site, out)

    click.echo("\n" + summary(results))
    click.echo(f"\nDone in {(time.monotonic() - began) / 60:.1f} minutes. Look at")
    for path, what in (
        (out / "images.png", "some of the images"),
        (site / "index.html", "the leaderboard: curves, correlations, predictions"),
        (out / "audit.json", "the conditional asked for against the one served"),
        (data, "the data set: ident3d.load(...) opens it"),
    ):
        click.echo(f"  {path}  {what}")


def summary(results: Path) -> str:
    """Lay out what was reached: R2 and MCC on rows that no encoder has seen."""
    from ident3d.benchmark.experiments import title
    from ident3d.benchmark.results import load_all

    found = {r.experiment: r for r in load_all(results) if r.protocol == "clean"}
    rows = []
    for name in ROWS:
        result = found[f"table4/{name}"]
        scores = [f"{result.scores[score]:.3f}" for score in ("r2", "mcc")]
        rows.append([f"{result.method}: {title(result.experiment)}", *scores])
    return table(rows, ["test rows, clean protocol", "R2", "MCC"])


def _step(words: str) -> None:
    click.echo(f"\n{words}")


def _run(command: str, *paths: Path) -> None:
    """Show a command, and run it in this process."""
    click.echo(f"$ ident3d {shlex.join(_words(command, *paths))}")
    _call(command, *paths)


def _call(command: str, *paths: Path) -> None:
    from ident3d.cli import cli

    cli.main(_words(command, *paths), prog_name="ident3d", standalone_mode=False)


def _words(command: str, *paths: Path) -> list[str]:
    return shlex.split(command.format(*(shlex.quote(str(path)) for path in paths)))
