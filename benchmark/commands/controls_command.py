"""`ident3d benchmark controls`: what is reached on a row's data without training."""

import shlex
import sys
from pathlib import Path
from typing import Any

import click

from ident3d.commands.options import examples

from .benchmark_command import change_of


@click.command(
    epilog=examples(
        "ident3d benchmark controls table1 table2 --seeds 3",
        "ident3d benchmark controls table4 --data data --out results",
    )
)
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--tier", help="Size of the data, as for `run`.")
@click.option("--data", type=click.Path(path_type=Path), help="Data set of an image experiment.")
@click.option("--seeds", type=click.IntRange(1), default=1, show_default=True, help="Seeds 0, 1, …")
@click.option("--out", type=click.Path(path_type=Path), default=Path("results"), show_default=True)
@click.option("--set", "changes", multiple=True, metavar="NAME=VALUE", help="Change a setting.")
def controls(
    ids: tuple[str, ...],
    tier: str | None,
    data: Path | None,
    seeds: int,
    out: Path,
    changes: tuple[str, ...],
) -> None:
    """Score what needs no training on the data of experiments, ID as for `run`.

    The observations as they are, the untrained encoder, linear and random-feature slow features
    and FastICA: seconds each. The leaderboard shows them in grey beside their rows. Baselines and
    supervised rows have none of their own: they stand beside those of the row they belong to.
    """
    from ..experiments import select as experiments
    from ..results import Result, commit, environment
    from ..training.control_run import data_settings, has_controls, run

    command = shlex.join(["ident3d", *sys.argv[1:]])
    changed = dict(change_of(text) for text in changes)
    if data is not None:
        changed["data"] = str(data)
    chosen = [(row, experiments.pick_tier(row, tier, changed)) for row in experiments.select(ids)]
    rows = [(row, *found) for row, found in chosen if found and has_controls(found[1])]
    if not rows:
        raise ValueError(f"None of {' '.join(ids)} learns from pairs in that tier; name others.")
    for row, name, settings in rows:
        pinned = settings.pinned()
        for seed in range(seeds):
            for fields in run(pinned, seed):
                common: dict[str, Any] = {
                    "experiment": row.id,
                    "tier": name,
                    "seed": seed,
                    "environment": environment(),
                    "commit": commit(),
                    "command": command,
                }
                fields["settings"] = data_settings(pinned) | fields["settings"]
                result = Result(**common | fields)
                result.save(out)
                scores = ", ".join(
                    f"{score} {value:.4f}"
                    for score in ("r2", "mcc")
                    if isinstance(value := result.scores.get(score), float)
                )
                place = f"{row.id} seed {seed}, {result.protocol}"
                seconds = f"{result.seconds or 0:.1f} s"
                click.echo(f"{place}: {result.method}: {scores} ({seconds})")
