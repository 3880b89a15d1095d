"""`ident3d benchmark`: list and run experiments; score, report, verify, pack live elsewhere."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ident3d.commands.options import LazyGroup, echo_json, examples, json_option, table
from ident3d.errors import DataError

if TYPE_CHECKING:  # both import torch
    from ..settings.experiment import Published
    from ..training.jobs import Job

# name -> (where the click command lives, the line `ident3d benchmark --help` shows)
COMMANDS = {
    name: (f"ident3d.benchmark.commands.{place}", line)
    for name, place, line in (
        ("list", "benchmark_command:list_", "List the experiments and what is published."),
        ("run", "benchmark_command:run", "Run experiments; go on with what was cut off."),
        ("controls", "controls_command:controls", "Score what needs no training, beside the rows."),
        ("score", "score_command:score", "Score representations made anywhere."),
        ("report", "report_command:report", "Write the leaderboard."),
        ("verify", "entry_command:verify", "Check submitted entries."),
        ("pack", "entry_command:pack", "Pack a run as an entry to submit."),
    )
}


@click.group(
    cls=LazyGroup,
    table=COMMANDS,
    epilog=examples("ident3d benchmark list", "ident3d benchmark run table1/5"),
)
def benchmark() -> None:
    """Reproduce the papers' experiments, and rank what others train."""


@click.command(
    "list",
    epilog=examples("ident3d benchmark list table1", "ident3d benchmark list table4/1 --json"),
)
@click.argument("ids", nargs=-1, metavar="[ID]...")
@json_option
def list_(ids: tuple[str, ...], as_json: bool) -> None:
    """List experiments with the published scores, in percent. ID is as for `run`."""
    from ..experiments import select as experiments
    from ..settings.composed import plain

    chosen = experiments.select(ids or ["*"])
    if as_json:
        echo_json(
            [
                {
                    "id": e.id,
                    "title": e.title,
                    "method": e.method,
                    "published": {name: list(pair) for name, pair in e.published.items()},
                    "source": e.source,
                    "notes": {tier: e.note(tier) for tier in e.tiers},
                    "tiers": {tier: plain(settings) for tier, settings in e.tiers.items()},
                }
                for e in chosen
            ]
        )
        return
    rows = [[e.id, e.method, _published(e.published), e.title] for e in chosen]
    click.echo(table(rows, ["id", "method", "published", "what"]))


@click.command(
    epilog=examples(
        "ident3d benchmark run table1/5 --seeds 3 --workers 2",
        "ident3d benchmark run table4/1 --tier tiny --data demo/data",
        "ident3d benchmark run my_module:MyMethod --tier small --data small",
        "ident3d benchmark run 'aninfonce/*' --dry-run",
    )
)
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option(
    "--tier",
    help="Size of the run: paper, cpu or small (the same), or tiny (images alone); "
    "default: the smallest whose data is there.",
)
@click.option("--data", type=click.Path(path_type=Path), help="Data set of an image experiment.")
@click.option("--seeds", type=click.IntRange(1), default=1, show_default=True, help="Seeds 0, 1, …")
@click.option("--out", type=click.Path(path_type=Path), default=Path("results"), show_default=True)
@click.option("--workers", type=click.IntRange(1), default=1, show_default=True, help="At a time.")
@click.option("--set", "changes", multiple=True, metavar="NAME=VALUE", help="Change a setting.")
@click.option("--again", is_flag=True, help="Run what has a record already once more, too.")
@click.option("--dry-run", is_flag=True, help="Say what would be run, and stop.")
def run(
    ids: tuple[str, ...],
    tier: str | None,
    data: Path | None,
    seeds: int,
    out: Path,
    workers: int,
    changes: tuple[str, ...],
    again: bool,
    dry_run: bool,
) -> None:
    """Run experiments and write one record for each run into OUT.

    ID is an experiment such as table1/3, all below a name such as table1, or a pattern such as
    '*/supervised'. Runs that have a record are skipped; runs that were cut off go on. A method from
    outside whose source has changed since is run again, and its earlier record set aside.
    """
    from ..experiments import select as experiments
    from ..training.jobs import Job, finished, run_all

    command = shlex.join(["ident3d", *sys.argv[1:]])
    changed = dict(change_of(text) for text in changes)
    if data is not None:
        changed["data"] = str(data)
    chosen = experiments.select(ids)
    if data is not None and not all(one.check for one in chosen):
        raise ValueError("`--data` is for image experiments, such as table4; leave it out here.")
    picked = [(one, experiments.pick_tier(one, tier, changed)) for one in chosen]
    jobs = [
        Job(experiment, its[0], its[1].pinned(), seed, out, command)
        for experiment, its in picked
        if its is not None
        for seed in range(seeds)
    ]
    if not jobs:
        known = ", ".join(dict.fromkeys(name for one in chosen for name in one.tiers))
        raise ValueError(f"`--tier` of {' '.join(ids)} must be one of {known}; got {tier}.")
    if tier is None:
        for name in dict.fromkeys(job.tier for job in jobs):
            click.echo(f"Tier {name}: {experiments.TIERS[name]}")
    refused: list[str] = []
    done = finished(out, refused)
    for sentence in refused:
        click.echo(f"Not counted: {sentence}", err=True)
    recorded = sum(job.key in done for job in jobs)
    todo = [job for job in jobs if again or job.key not in done]
    click.echo(f"{len(todo)} runs to do, {recorded} already in {out}.")
    if without := sum(its is None for _, its in picked):
        click.echo(f"{without} of the rows named have no tier {tier or 'below paper'}.")
    if dry_run:
        for job in todo:
            state = "goes on" if (job.folder / "checkpoint.safetensors").exists() else "new"
            click.echo(f"{job.label}: {state}")
            if job.experiment.plan is not None:
                click.echo(job.experiment.plan(job.settings))
        return
    failed = [job for job, outcome in run_all(todo, workers) if not _told(job, outcome)]
    if failed:
        raise DataError(
            f"{len(failed)} of {len(todo)} runs failed, as said above; run again for those alone."
        )


def _told(job: "Job", outcome: Path | Exception) -> bool:
    """Say how a run went; return whether it went well."""
    from ..results import load

    if isinstance(outcome, Exception):
        click.echo(f"{job.label}: {outcome}", err=True)
        return False
    result = load(outcome)
    shown = ", ".join(
        f"{name} {value:.4f}" for name, value in result.scores.items() if isinstance(value, float)
    )
    click.echo(f"{job.label}: {shown} ({result.seconds or 0:.0f} s)")
    return True


def change_of(text: str) -> tuple[str, str]:
    """Read NAME=VALUE."""
    name, separator, value = text.partition("=")
    if not separator:
        raise ValueError(f"`--set` is written NAME=VALUE, got {text!r}.")
    return name.strip(), value.strip()


def _published(scores: "Published") -> str:
    from ..report.tables import show_pair

    return ", ".join(f"{name} {show_pair(name, *pair)}" for name, pair in scores.items())
