"""`ident3d render`: from options to a plan, workers, and a finished data set."""

import dataclasses
import shlex
from pathlib import Path
from typing import Any

import click
import numpy as np

from ident3d.commands.options import (
    echo_json,
    examples,
    json_option,
    option,
    options_of,
    typed_words,
)
from ident3d.errors import DataError, whole
from ident3d.factors import as_latents
from ident3d.outside import read_npy
from ident3d.progress import Tracker, duration
from ident3d.scale.job_array import SLURM, parse_share, sbatch_script
from ident3d.shards.manifest import MAX_SIDE, check_split_name

from .build import Build
from .cluster import render_on_cluster
from .devices import DEVICES, MOST_WORKERS, count_cores, find_slots
from .estimate import Estimate, estimate, find_occupancy
from .plan import Plan, ShardTask, begin, check_amount, declare, make_plan
from .presets import PRESETS, quality
from .scene import HUES
from .spec import Spec
from .workers import WorkerPool, WorkerSlot

# How to render, not what: these leave the files as they are.
_EXECUTION = ("device", "workers", "shard", "ray", "slurm", "verbose")
AUTO = "auto"
_FILE = click.Path(exists=True, dir_okay=False)


class Workers(click.ParamType):
    """A number, or `auto`."""

    name = "integer|auto"

    def convert(self, value: Any, *context: Any) -> int | str:
        """Read what was typed."""
        return value if value == AUTO else click.INT.convert(value, *context)


@dataclasses.dataclass(frozen=True)
class RenderOptions:
    """Everything `ident3d render` takes; what the files depend on comes first."""

    split: str = option("train", "Name of the split.")
    size: int | None = option(None, "Rows of the whole split.", metavar="ROWS")
    seed: int = option(0, "Seed of latents and positives.")
    latents: str | None = option(
        None, "Render exactly these rows of unit latents, shape (n, 10).", type=_FILE
    )
    preset: str = option("standard", "How carefully to render.", type=click.Choice(list(PRESETS)))
    samples: int | None = option(None, "Samples per pixel instead of the preset's.")
    resolution: int = option(224, "Pixels along each side.")
    hue: str = option(
        "injective", "Hue convention; published has the defect.", type=click.Choice(list(HUES))
    )
    factors: str = option("all", "Factors or groups that vary: position, or x,object_hue.")
    hold: str = option("", "Unit latents of the other factors, 0 if not named: gamma=0.5,x=-1.")
    pairs: str | None = option(None, "Render a positive to every row: normal:0.1, laplace:0.05 ...")
    compress: bool = option(False, "Store one zstd chunk per image: smaller, slower to read.")
    shard_size: int = option(1000, "Rows of a file.")
    device: str = option("auto", "Where to render.", type=click.Choice(DEVICES))
    workers: int | str | None = option(
        None,
        "Worker processes; one per core or graphics card if left; auto finds out how many a card "
        "keeps busy.",
        type=Workers(),
    )
    shard: str = option("1/1", "This machine's share of the files, for job arrays.", metavar="I/N")
    ray: str | None = option(
        None, "Render on a Ray cluster: its address, auto, or local. OUT must be seen by all."
    )
    slurm: int | None = option(None, **SLURM)
    verbose: bool = option(False, "Let Blender print.", flags=("-v", "--verbose"))


@click.command(
    epilog=examples(
        "ident3d render 3dident --split test --size 25000",
        "ident3d render small --size 2000 --resolution 64 --preset draft --pairs normal:0.3",
        "ident3d render 3dident --size 250000 --estimate",
        "ident3d render 3dident --size 250000 --shard 3/8",
        "ident3d render 3dident --size 250000 --slurm 8",
    )
)
@click.argument("out", type=click.Path(file_okay=False, path_type=Path))
@options_of(RenderOptions)
@click.option(
    "--estimate", "only_estimate", is_flag=True, help="Tell time and disk; write nothing."
)
@json_option
def render(options: RenderOptions, out: Path, only_estimate: bool, as_json: bool) -> None:
    """Render a data set to the folder OUT. The same command continues where it was stopped."""
    spec = spec_of(options)
    size = _size(options, spec)
    share = parse_share(options.shard)
    if options.slurm:
        click.echo(slurm_script(options, out, size))
        return
    command = command_text(options)
    plan = make_plan(out, spec, size, options.shard_size, command)
    if only_estimate:
        device, slots = _slots(options, spec)
        with WorkerPool(spec.render_settings(options.verbose), slots, click.echo) as pool:
            _echo_estimate(estimate(plan, pool), device, as_json)
        return
    plan.check_finished()
    if not all(map(plan.done, plan.tasks(share))):
        if options.ray:
            plan = begin(out.resolve(), spec, size, options.shard_size, command)
            render_on_cluster(plan, plan.tasks(share), options.ray, options.device)
        else:
            device, slots = _slots(options, spec)
            plan = begin(out, spec, size, options.shard_size, command)
            _build(plan, plan.tasks(share), device, slots, options.verbose)
    finished = declare(plan)
    lost = [task.name for task in plan.tasks(share) if not plan.done(task)]
    if lost:
        raise DataError(f"{plan.folder} lost {lost[0]} while it was rendered; run it again.")
    _echo_result(plan, share, finished, as_json)


def slurm_script(options: RenderOptions, out: Path, size: int) -> str:
    """Write the job array that renders what was asked for; its last task checks every byte."""
    assert options.slurm is not None
    check_split_name(options.split)
    check_amount(size, options.shard_size)
    if isinstance(options.workers, int):
        whole(options.workers, "workers", 1, MOST_WORKERS)
    words = typed_words(without=("slurm", "shard"))
    return sbatch_script(
        "ident3d-render",
        words,
        # Without `--shard`: it renders what a task that failed for good has left, and declares.
        [words, ["ident3d", "verify", str(out)]],
        shares=min(options.slurm, -(-size // options.shard_size)),
        cpus=options.workers if isinstance(options.workers, int) else 8,
        gpus=0 if options.device in ("auto", "cpu") else 1,
    )


def spec_of(options: RenderOptions) -> Spec:
    """Check the options and keep those that files depend on."""
    whole(options.resolution, "resolution", 8, MAX_SIDE)
    settings = quality(options.preset, options.resolution)
    if options.samples is not None:
        settings = dataclasses.replace(settings, samples=options.samples)
    whole(settings.samples, "samples", 1, 1 << 20)
    whole(options.seed, "seed", -(2**63), 2**63 - 1)  # what a manifest holds
    return Spec(
        quality=settings,
        resolution=options.resolution,
        hue=options.hue,
        split=options.split,
        seed=options.seed,
        factors=options.factors,
        held=_held(options.hold),
        pairs=options.pairs,
        given=None if options.latents is None else _read_latents(Path(options.latents)),
        compress=options.compress,
    )


def command_text(options: RenderOptions) -> str:
    """Spell out the command that makes this data set, for its description."""
    words = ["ident3d", "render", "OUT"]
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if value == field.default or field.name in _EXECUTION:
            continue
        words.append(f"--{field.name.replace('_', '-')}")
        if field.name == "latents":
            value = Path(value).name
        words += [] if value is True else [str(value)]
    return shlex.join(words)


def _size(options: RenderOptions, spec: Spec) -> int:
    size = options.size if spec.given is None else len(spec.given)
    if size is None:
        raise ValueError("`size` is missing: give the number of rows, or `latents` to render.")
    if options.size not in (None, size):
        raise ValueError(f"`latents` has {size:,} rows; leave `size` out.")
    return size


def _held(text: str) -> dict[str, float]:
    held = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        try:
            held[name.strip()] = float(value)
        except ValueError:
            raise ValueError(f"`hold` must read factor=value,..., got {part!r}.") from None
    return held


def _read_latents(path: Path) -> np.ndarray:
    latents = as_latents(read_npy(path))
    if len(latents) == 0:
        raise ValueError(f"`latents` must have rows; {path} has none.")
    return latents


def _slots(options: RenderOptions, spec: Spec) -> tuple[str, list[WorkerSlot]]:
    """Find a slot for every worker; with `auto`, as many to a card as a trial finds good."""
    if options.workers != AUTO:
        assert not isinstance(options.workers, str)
        return find_slots(options.device, options.workers)
    device, slots = find_slots(options.device, None)
    if slots[0].gpu:  # cores are busy with one worker each
        found = find_occupancy(spec.render_settings(), slots[0], count_cores() // len(slots))
        click.echo(str(found), err=True)
        slots *= found.workers
    return device, slots


def _build(
    plan: Plan, tasks: list[ShardTask], device: str, slots: list[WorkerSlot], verbose: bool
) -> None:
    total, done = plan.count(tasks)
    with Tracker(total, f"render on {device}", "image", done) as tracker:
        tracker.say(f"Rendering {total - done:,} images on {device}, {len(slots)} at a time.")
        with WorkerPool(plan.spec.render_settings(verbose), slots, tracker.say) as pool:
            Build(plan, pool, tracker).run(tasks)
        tracker.say(tracker.line())


def _echo_estimate(found: Estimate, device: str, as_json: bool) -> None:
    if as_json:
        echo_json({"device": device, **dataclasses.asdict(found)})
        return
    gigabytes, peak = found.disk_bytes / 1e9, found.peak_bytes / 1e9
    click.echo(
        f"{found.images_left:,} of {found.images:,} images to render on {device}: "
        f"{duration(found.seconds)} at {found.images_per_second:.2f} images/s, "
        f"{gigabytes:.2f} GB of disk ({peak:.2f} GB on the way)."
    )


def _echo_result(plan: Plan, share: tuple[int, int], finished: bool, as_json: bool) -> None:
    missing = sum(not plan.done(task) for task in plan.tasks())
    if as_json:
        record = {"path": str(plan.folder), "rows": sum(plan.counts), "files_missing": missing}
        echo_json(record | {"finished": finished})
    elif finished:
        click.echo(f"{plan.folder}: {sum(plan.counts):,} rows, finished.")
    else:
        click.echo(f"Share {share[0]}/{share[1]} is done; {missing} files of others are not yet.")
