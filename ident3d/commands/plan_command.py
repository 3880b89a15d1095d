"""`ident3d plan`: what rendering or a benchmark would cost on many workers, told beforehand."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import DataError, above_zero, whole
from ..progress import Tracker, duration, size
from ..scale.forecast import Forecast, Site, Work, forecast, nodes_that_fill
from ..shards.manifest import MAX_SIDE
from .options import echo, examples, json_option, option, options_of, table

if TYPE_CHECKING:  # neither is needed to read figures that are given
    from ident3d.benchmark.training.cost import Cost
    from ident3d.benchmark.training.jobs import Job

# Of one Blender on the CPU, where nothing is measured: 0.9 s of a core, 0.39 GB at 224 px.
START, MEMORY = 1.0, 0.4e9
MOST_WORKERS = 1_000_000  # of all machines together
AHEAD = 4  # files for every node: none waits long for the last


@dataclass(frozen=True)
class SiteOptions:
    """Where the work is to be done."""

    workers: str = option("1,8,64,512", "Numbers of workers to plan for.")
    disk_speed: float | None = option(
        None, "MB/s that the shared disk takes from all together; measured here if left."
    )
    lost_per_day: float = option(0.0, "How often a day each machine is lost and comes back.")

    @property
    def counts(self) -> list[int]:
        """The numbers of workers."""
        words = [word.strip() for word in self.workers.split(",")]
        if not all(word.isdigit() and int(word) for word in words):
            raise ValueError(f"`workers` must be numbers such as 1,8,64; got {self.workers!r}.")
        return [whole(int(word), "workers", 1, MOST_WORKERS) for word in words]

    def site(self, start: float) -> Site:
        """Return the site, its disk measured in the working directory if it was not given."""
        from .doctor_command import folder_finding

        speed = self.disk_speed
        if speed is None:
            found = folder_finding(Path())
            if found.facts is None:
                raise DataError(f"The disk cannot be measured ({found.detail}); give --disk-speed.")
            speed = found.facts["write_bytes_per_second"] / 1e6
        if self.lost_per_day:
            above_zero(self.lost_per_day, "lost_per_day")
        return Site(start, above_zero(speed, "disk_speed") * 1e6, self.lost_per_day)


@dataclass(frozen=True)
class RenderPlan(SiteOptions):
    """What is to be rendered, and on what."""

    size: int = option(None, "Rows.", required=True)
    resolution: int = option(224, "Pixels along each side.")
    preset: str = option("standard", "How carefully to render.")
    pairs: bool = option(False, "A positive to every row, too.")
    shard_size: int = option(1000, "Rows of a file.")
    per_node: int = option(1, "Workers that share the files of one machine; 1 is a Ray task.")
    seconds_per_image: float | None = option(
        None, "Of one worker; a few images are rendered here if left."
    )


@click.group(
    epilog=examples(
        "ident3d plan render --size 250000 --workers 1,8,64,512",
        "ident3d plan benchmark table1 --seeds 5",
    )
)
def plan() -> None:
    """Tell time, disk, memory and network, and where the first limit is. Starts nothing."""


@plan.command(
    epilog=examples(
        "ident3d plan render --size 250000 --workers 1,8,64,512",
        "ident3d plan render --size 25000000 --shard-size 10000 --seconds-per-image 1.6",
    )
)
@options_of(RenderPlan)
@json_option
def render(options: RenderPlan, as_json: bool) -> None:
    """Plan a data set: every worker renders whole files to one shared disk."""
    whole(options.resolution, "resolution", 8, MAX_SIDE)
    figures, files = _rendering(options), _files(options)
    images, raw = sum(files), 3 * options.resolution**2
    disk_bytes = images * figures["bytes_per_image"]
    site = options.site(figures["start_seconds"])

    def work(workers: int) -> Work:
        """Images go to the journal as they are, then to the file."""
        together = min(options.per_node, workers)
        image = figures["seconds_per_image"] / together + figures["store_seconds"]
        return Work([rows * image for rows in files], images * raw + disk_bytes)

    found = {w: forecast(work(w), site, -(-w // options.per_node)) for w in options.counts}
    most = max(one.nodes for one in found.values())
    record = {
        "images": images,
        "files": len(files),
        "disk_bytes": round(disk_bytes),
        "peak_bytes": round(disk_bytes + min(most, len(files)) * max(files) * raw),
        "figures": figures | {"disk_bytes_per_second": site.disk},
        "forecasts": _forecasts(found, figures["memory_bytes"]),
    }
    text = [
        f"{images:,} images of {options.resolution} px in {len(files):,} files: "
        f"{size(disk_bytes)} of disk, {size(record['peak_bytes'])} on the way. {figures['words']}",
        "",
        _table(found, figures["memory_bytes"], "files", images, "images/s"),
        "",
        _first_limit(work(options.per_node), site, "files", options.per_node),
    ]
    if len(files) < AHEAD * most:
        rows = max(1, options.size // (AHEAD * most))
        text.append(f"`--shard-size {rows}` has {AHEAD} files or more for each of {most} machines.")
    echo(record, "\n".join(text), as_json)


@plan.command(
    epilog=examples(
        "ident3d plan benchmark table1 --seeds 5 --workers 1,8,64",
        "ident3d plan benchmark table4 --tier paper --seconds-per-run 90000",
    )
)
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--tier", help="Size of the runs, as for `benchmark run`.")
@click.option("--data", type=click.Path(path_type=Path), help="Data set of an image experiment.")
@click.option("--seeds", type=click.IntRange(1), default=1, show_default=True, help="Seeds 0, 1, …")
@click.option("--set", "changes", multiple=True, metavar="NAME=VALUE", help="Change a setting.")
@click.option("--seconds-per-run", type=float, help="Of every run; measured here if left.")
@options_of(SiteOptions)
@json_option
def benchmark(
    where: SiteOptions,
    ids: tuple[str, ...],
    tier: str | None,
    data: Path | None,
    seeds: int,
    changes: tuple[str, ...],
    seconds_per_run: float | None,
    as_json: bool,
) -> None:
    """Plan runs: every worker does whole runs, and reads images from one shared disk."""
    from ident3d.benchmark.commands.benchmark_command import jobs_of
    from ident3d.benchmark.commands.row_options import RowOptions

    jobs, _ = jobs_of(RowOptions(tier=tier, data=data, seeds=seeds, changes=changes), ids)
    costs = _costs(jobs, seconds_per_run)
    work = Work([one.seconds for one in costs], sum(one.read_bytes for one in costs))
    memory = max(one.memory_bytes for one in costs)
    site = where.site(0.0)
    found = {workers: forecast(work, site, workers) for workers in where.counts}
    record = {
        "runs": len(jobs),
        "seconds": sum(work.pieces),
        "figures": {"disk_bytes_per_second": site.disk, "longest_run": max(work.pieces)},
        "forecasts": _forecasts(found, memory),
    }
    text = [
        f"{len(jobs):,} runs, {duration(sum(work.pieces))} one after the other; the longest takes "
        f"{duration(max(work.pieces))}.",
        "",
        _table(found, memory, "runs", len(jobs), "runs/s"),
        "",
        _first_limit(work, site, "runs", 1),
    ]
    echo(record, "\n".join(text), as_json)


def _files(options: RenderPlan) -> list[int]:
    """Return the rows of every file."""
    from ident3d.render.plan import check_amount, shard_rows

    check_amount(options.size, options.shard_size)
    whole(options.per_node, "per_node", 1, MOST_WORKERS)
    counts = shard_rows(0, options.size, options.shard_size)
    return [rows for rows in counts for _ in range(1 + options.pairs)]


def _rendering(options: RenderPlan) -> dict[str, Any]:
    """Return what an image takes: as given, or from a short trial on this machine."""
    from ident3d.render.devices import find_slots
    from ident3d.render.estimate import Trial, try_out
    from ident3d.render.presets import quality
    from ident3d.render.spec import Spec

    spec = Spec(quality(options.preset, options.resolution), resolution=options.resolution)
    if options.seconds_per_image is not None:
        above_zero(options.seconds_per_image, "seconds_per_image")
        raw = 3.0 * options.resolution**2 + 48
        trial = Trial(START, options.seconds_per_image, 0.0, raw, MEMORY)
        words = f"{options.seconds_per_image:g} s an image and worker, as given."
    else:
        device, slots = find_slots("auto", None)
        trial = try_out(spec, slots, Path())
        words = (
            f"{trial.seconds_per_image:.2g} s an image and worker, measured on {device} with "
            f"{len(slots)} at a time; {size(trial.memory_bytes)} of memory each."
        )
    return asdict(trial) | {"words": words}


def _costs(jobs: "Sequence[Job]", seconds: float | None) -> "list[Cost]":
    """Return what each run takes; seeds of a row take the same."""
    from ident3d.benchmark.settings.composed import plain
    from ident3d.benchmark.training.cost import Cost, run_cost

    if seconds is not None:
        return [Cost(above_zero(seconds, "seconds_per_run"), 0.0, 0.0)] * len(jobs)
    names = [f"{job.experiment.id} {plain(job.settings)}" for job in jobs]
    different = dict(zip(names, jobs, strict=True))
    known: dict[str, Cost] = {}
    with Tracker(len(different), "Measured") as tracker:
        for name, job in different.items():
            known[name] = run_cost(job.experiment, job.settings, job.tier)
            tracker.advance()
    return [known[name] for name in names]


def _forecasts(found: dict[int, Forecast], memory: float) -> list[dict[str, Any]]:
    return [
        {"workers": workers, "memory_bytes": workers * memory, **asdict(one)}
        for workers, one in found.items()
    ]


def _table(found: dict[int, Forecast], memory: float, pieces: str, count: int, rate: str) -> str:
    limits = {"pieces": pieces, "nodes": "workers"}
    return table(
        [
            [
                str(workers),
                duration(one.seconds),
                duration(one.seconds_if_slow),
                f"{count / one.seconds:.3g}",
                f"{100 * one.busy:.0f} %",
                f"{size(one.bytes_per_second)}/s" if one.bytes_per_second else "-",
                size(workers * memory) if memory else "-",
                limits.get(one.limit, one.limit),
            ]
            for workers, one in found.items()
        ],
        ["workers", "time", "some slow", rate, "busy", "disk traffic", "memory", "limit"],
    )


def _first_limit(work: Work, site: Site, pieces: str, per_node: int) -> str:
    """Say which limit more workers meet first."""
    by_pieces = len(work.pieces) * per_node
    sentence = f"More than {by_pieces:,} workers find no {pieces} to do."
    if not work.moved:
        return sentence
    by_disk = nodes_that_fill(work, site) * per_node
    if by_disk < by_pieces:
        return f"The first limit is the disk: {by_disk:,} workers fill its {size(site.disk)}/s."
    return f"The first limit is the number of {pieces}: {sentence[0].lower()}{sentence[1:]}"
