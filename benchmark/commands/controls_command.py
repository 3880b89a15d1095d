"""`ident3d benchmark controls`: what is reached on a row's data without training."""

import shlex
import sys
from typing import Any

import click

from ident3d.commands.options import examples, options_of

from .row_options import RowOptions, ids_argument, show_scores


@click.command(
    epilog=examples(
        "ident3d benchmark controls table1 table2 --seeds 3",
        "ident3d benchmark controls table4 --data data --out results",
    )
)
@ids_argument
@options_of(RowOptions)
def controls(asked: RowOptions, ids: tuple[str, ...]) -> None:
    """Score what needs no training on the data of experiments, ID as for `run`.

    The observations as they are, the untrained encoder, linear and random-feature slow features,
    FastICA, and slow features turned by it: seconds each. The leaderboard shows them in grey beside
    their rows. Baselines and supervised rows have none of their own: they stand beside those of the
    row they belong to.
    """
    from ..results import Result, commit, environment
    from ..training.control_run import data_settings, has_controls, run, same_controls
    from ..training.jobs import WORK

    picked = asked.pick(ids)
    rows = [(row, *found) for row, found in picked if found and has_controls(found[1])]
    # A row that stands below another, and differs in loss or size alone, shares its controls.
    rows = [
        (row, tier_name, settings)
        for row, tier_name, settings in rows
        if not any(
            row.id.startswith(f"{above.id}/") and same_controls(settings, its)
            for above, _, its in rows
        )
    ]
    if not rows:
        raise ValueError(f"None of {' '.join(ids)} learns from pairs in that tier; name others.")
    shared: dict[str, Any] = {
        "environment": environment(),
        "commit": commit(),
        "command": shlex.join(["ident3d", *sys.argv[1:]]),
    }
    for row, name, settings in rows:
        pinned = settings.pinned()
        for seed in range(asked.seeds):
            where: dict[str, Any] = {"experiment": row.id, "tier": name, "seed": seed}
            found = row.controls(pinned, seed, asked.out / WORK) if row.controls else None
            for fields in found or run(pinned, seed):
                fields["settings"] = data_settings(pinned) | fields["settings"]
                result = Result(**shared | where | fields)
                result.save(asked.out)
                what = f"{row.id} seed {seed}, {result.protocol}: {result.method}"
                click.echo(f"{what}: {show_scores(result)}")
