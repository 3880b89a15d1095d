"""`ident3d benchmark`: list and run experiments; score, report, verify, pack live elsewhere."""

import math
import os
import shlex
import sys
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec

import click

from ident3d.commands.options import (
    LazyGroup,
    echo_json,
    examples,
    json_option,
    say,
    table,
    typed_words,
)
from ident3d.errors import DataError
from ident3d.progress import duration
from ident3d.scale.job_array import SLURM, parse_share, sbatch_script

if TYPE_CHECKING:  # all of them take seconds to import
    from ..results import Result
    from ..settings.composed import Composed
    from ..settings.experiment import Experiment, Published
    from ..training.jobs import Job

_path = click.Path(path_type=Path)
P = ParamSpec("P")
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


def row_options(command: Callable) -> Callable:
    """Add what `run` and `controls` both take: rows, their tier and data, seeds, changes, OUT."""
    for option in (
        click.option(
            "--set", "changes", multiple=True, metavar="NAME=VALUE", help="Change a setting."
        ),
        click.option("--out", type=_path, default=Path("results"), show_default=True),
        click.option(
            "--seeds",
            type=click.IntRange(1, 9999),
            default=1,
            show_default=True,
            help="Seeds 0, 1, …",
        ),
        click.option("--data", type=_path, help="Data set of an image experiment."),
        click.option(
            "--tier",
            help="Size of the run: paper, cpu or small (the same), or tiny (images alone); "
            "default: the smallest whose data is there.",
        ),
        click.argument("ids", nargs=-1, required=True, metavar="ID..."),
    ):
        command = option(command)
    return command


def pick_rows(
    ids: tuple[str, ...], tier: str | None, data: Path | None, changes: tuple[str, ...]
) -> "list[tuple[Experiment, tuple[str, Composed] | None]]":
    """Return the rows that `row_options` name, each with its tier and settings; None: no such."""
    from ..experiments import select as experiments

    changed = dict(map(change_of, changes))
    chosen = experiments.select(ids)
    if data is not None:
        changed["data"] = str(data)
        if not all(one.check for one in chosen):
            raise ValueError("`--data` is for image experiments such as table4; leave it out here.")
    return [(one, experiments.pick_tier(one, tier, changed)) for one in chosen]


def by_ranks(command: Callable[P, None]) -> Callable[P, None]:
    """Let torchrun's processes do a command together; without it, a process does it alone."""

    @wraps(command)
    def run(*arguments: P.args, **options: P.kwargs) -> None:
        if "TORCHELASTIC_RUN_ID" not in os.environ:
            return command(*arguments, **options)
        from ..training.distributed import joined

        with joined():
            command(*arguments, **options)

    return run


@click.command(
    epilog=examples(
        "ident3d benchmark run table1/5 --seeds 3 --workers 2",
        "ident3d benchmark run table4/1 --tier tiny --data demo/data",
        "ident3d benchmark run my_module:MyMethod --tier small --data small",
        "ident3d benchmark run table1 --seeds 5 --ray auto",
        "ident3d benchmark run table1 --seeds 5 --slurm 20",
        "ident3d benchmark run 'aninfonce/*' --dry-run",
    )
)
@row_options
@click.option("--workers", type=click.IntRange(1, 1024), default=1, help="At a time.")
@click.option(
    "--ray",
    metavar="ADDRESS",
    help="Each run on its own worker of a Ray cluster: ADDRESS, auto, or local.",
)
@click.option(
    "--gpus",
    type=click.FloatRange(0),
    help="Cards of each run on Ray, such as 0.5, one if there are any; of each Slurm task.",
)
@click.option(
    "--shard",
    default="1/1",
    metavar="I/N",
    help="This machine's share of the runs, for job arrays.",
)
@click.option("--slurm", **SLURM)
@click.option("--again", is_flag=True, help="Run what has a record already once more, too.")
@click.option("--dry-run", is_flag=True, help="Say what would be run, and stop.")
@by_ranks
def run(
    ids: tuple[str, ...],
    tier: str | None,
    data: Path | None,
    seeds: int,
    out: Path,
    workers: int,
    changes: tuple[str, ...],
    ray: str | None,
    gpus: float | None,
    shard: str,
    slurm: int | None,
    again: bool,
    dry_run: bool,
) -> None:
    """Run experiments and write one record for each run into OUT.

    ID is an experiment such as table1/3, all below a name such as table1, or a pattern such as
    '*/supervised'. Runs that have a record are skipped; runs that were cut off go on. A method from
    outside whose source has changed since is run again, and its earlier record set aside. Under
    `torchrun ... -m ident3d benchmark run`, all its processes train each run together.
    """
    from ..experiments.select import TIERS
    from ..training.distributed import here
    from ..training.jobs import finished, run_all
    from ..training.ray_runs import run_on_ray

    if here().world > 1 and (ray or workers > 1):
        raise ValueError("`--ray`, `--workers`: leave them out with torchrun, which shares a run.")
    jobs, without = jobs_of(ids, tier, data, seeds, out, changes)
    index, shares = parse_share(shard)
    if slurm:
        click.echo(slurm_script(out, min(slurm, len(jobs)), workers, gpus))
        return
    jobs = jobs[index - 1 :: shares]
    if tier is None:
        for name in dict.fromkeys(job.tier for job in jobs):
            click.echo(f"Tier {name}: {TIERS[name]}")
    refused: list[str] = []
    done = finished(out, refused)
    for sentence in refused:
        say(f"Not counted: {sentence}", err=True)
    recorded = sum(job.key in done for job in jobs)
    wanted = [again or job.key not in done for job in jobs]
    todo = [job for job, do in zip(jobs, here().agree(wanted), strict=True) if do]
    click.echo(f"{len(todo)} runs to do, {recorded} already in {out}.")
    if without:
        click.echo(f"{without} of the rows named have no tier {tier or 'below paper'}.")
    if dry_run:
        for job in todo:
            state = "goes on" if (job.folder / "checkpoint.safetensors").exists() else "new"
            click.echo(f"{job.label}: {state}")
            if job.experiment.plan is not None:
                click.echo(job.experiment.plan(job.settings))
        return
    outcomes = run_on_ray(todo, ray, gpus, again) if ray else run_all(todo, workers)
    failed = [job for job, outcome in outcomes if not _told(job, outcome)]
    if failed:
        raise DataError(
            f"{len(failed)} of {len(todo)} runs failed, as said above; run again for those alone."
        )


def jobs_of(
    ids: tuple[str, ...],
    tier: str | None,
    data: Path | None,
    seeds: int,
    out: Path,
    changes: tuple[str, ...],
) -> tuple[list["Job"], int]:
    """Return the runs that were asked for, and how many of the rows named lack the tier."""
    from ..training.jobs import Job

    command = shlex.join(["ident3d", *sys.argv[1:]])
    picked = pick_rows(ids, tier, data, changes)
    jobs = [
        Job(experiment, its[0], its[1].pinned(), seed, out, command)
        for experiment, its in picked
        if its is not None
        for seed in range(seeds)
    ]
    if not jobs:
        known = ", ".join(dict.fromkeys(name for one, _ in picked for name in one.tiers))
        raise ValueError(f"`--tier` of {' '.join(ids)} must be one of {known}; got {tier}.")
    return jobs, sum(its is None for _, its in picked)


def slurm_script(out: Path, shares: int, workers: int, gpus: float | None) -> str:
    """Write the job array that does the runs that were asked for; its last task writes the page."""
    return sbatch_script(
        "ident3d-benchmark",
        typed_words(without=("slurm", "shard", "gpus")),
        [["ident3d", "benchmark", "report", str(out), "--out", str(out / "site")]],
        shares=shares,
        cpus=workers,
        gpus=math.ceil(gpus or 0),
    )


def _told(job: "Job", outcome: Path | Exception) -> bool:
    """Say how a run went; return whether it went well."""
    from ..results import load

    if isinstance(outcome, Exception):
        say(f"{job.label}: {outcome}", err=True)
        return False
    result = load(outcome)
    click.echo(f"{job.label}: {show_scores(result, result.scores)}")
    return True


def show_scores(result: "Result", names: Iterable[str]) -> str:
    """Write some scores of a record, those that are plain numbers, and the time it took."""
    found = {name: result.scores.get(name) for name in names}
    shown = [f"{name} {value:.4f}" for name, value in found.items() if isinstance(value, float)]
    return f"{', '.join(shown)} ({duration(round(result.seconds or 0, 1))})"


def change_of(text: str) -> tuple[str, str]:
    """Read NAME=VALUE."""
    name, separator, value = text.partition("=")
    if not separator:
        raise ValueError(f"`--set` is written NAME=VALUE, got {text!r}.")
    return name.strip(), value.strip()


def _published(scores: "Published") -> str:
    from ..report.tables import show_pair

    return ", ".join(f"{name} {show_pair(name, *pair)}" for name, pair in scores.items())
