"""`ident3d benchmark`: list and run experiments; score, report, verify, pack live elsewhere."""

import math
import os
import shlex
import sys
from collections import Counter
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec

import click

from ident3d.commands.options import (
    LazyGroup,
    echo,
    examples,
    json_option,
    options_of,
    say,
    table,
    typed_words,
)
from ident3d.errors import DataError, above_zero, system_sentence
from ident3d.scale.job_array import SLURM, parse_share, sbatch_script

from .row_options import RowOptions, ids_argument, show_scores

if TYPE_CHECKING:  # both take seconds to import
    from ..settings.experiment import Published
    from ..training.jobs import Job

P = ParamSpec("P")
MANY = 4  # published scores of a row: of more, a list shows what the leaderboard shows
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
    """List experiments with the published scores, in percent. ID is as for `run`.

    Without ID: the tables and studies there are, a line each.
    """
    from ..experiments import select as experiments
    from ..settings.composed import plain

    chosen = experiments.select(ids or ["*"])
    records = [
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
    rows = [[e.id, e.method, e.title, _published(e.published)] for e in chosen]
    text = table(rows, ["id", "method", "what", "published"])
    if not ids:
        count = Counter(e.id.partition("/")[0] for e in chosen)
        rows = [[name, f"{count[name]}", words] for name, words in experiments.FAMILIES.items()]
        text = table(rows, ["id", "rows", "what"])
        text += "\n`ident3d benchmark list table4` shows the rows of one, `list '*'` all of them."
    echo(records, text, as_json)


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
@ids_argument
@options_of(RowOptions)
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
    asked: RowOptions,
    ids: tuple[str, ...],
    workers: int,
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
    if gpus is not None and not (ray or slurm):
        raise ValueError("`--gpus` is for `--ray` and `--slurm`; here a run takes the first card.")
    if gpus:
        above_zero(gpus, "gpus")
    out, (jobs, without) = asked.out, jobs_of(asked, ids)
    index, shares = parse_share(shard)
    if slurm:
        click.echo(slurm_script(out, min(slurm, len(jobs)), workers, gpus))
        return
    jobs = jobs[index - 1 :: shares]
    if asked.tier is None:
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
        click.echo(f"{without} of the rows named have no tier {asked.tier or 'below paper'}.")
    if dry_run:
        for job in todo:
            state = "goes on" if any(job.folder.glob("checkpoint*.safetensors")) else "new"
            click.echo(f"{job.label}: {state}")
            if job.experiment.plan is not None:
                click.echo(job.experiment.plan(job.settings, job.tier))
        return
    outcomes = run_on_ray(todo, ray, gpus, again) if ray else run_all(todo, workers)
    failed = [job for job, outcome in outcomes if not _told(job, outcome)]
    if failed:
        raise DataError(
            f"{len(failed)} of {len(todo)} runs failed, as said above; run again for those alone."
        )


def jobs_of(asked: RowOptions, ids: tuple[str, ...]) -> tuple[list["Job"], int]:
    """Return the runs that were asked for, and how many of the rows named lack the tier."""
    from ..training.jobs import Job

    command = shlex.join(["ident3d", *sys.argv[1:]])
    picked = asked.pick(ids)
    jobs = [
        Job(experiment, its[0], its[1].pinned(), seed, asked.out, command)
        for experiment, its in picked
        if its is not None
        for seed in range(asked.seeds)
    ]
    if not jobs:
        known = ", ".join(dict.fromkeys(name for one, _ in picked for name in one.tiers))
        raise ValueError(f"`--tier` of {' '.join(ids)} must be one of {known}; got {asked.tier}.")
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
        words = system_sentence(outcome) if isinstance(outcome, OSError) else outcome
        say(f"{job.label}: {words}", err=True)
        return False
    click.echo(f"{job.label}: {show_scores(load(outcome))}")
    return True


def _published(scores: "Published") -> str:
    from ..report.tables import show_pair
    from ..scoring.scores import SHOWN

    if len(scores) > MANY:  # a line has no room for more; --json has all
        scores = {name: pair for name, pair in scores.items() if name in SHOWN}
    return ", ".join(f"{name} {show_pair(name, *pair)}" for name, pair in scores.items())
