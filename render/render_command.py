"""`ident3d render`: from options to a plan, workers, and a finished data set."""

import dataclasses
import shlex
from pathlib import Path

import click
import numpy as np

from ident3d.commands.options import echo_json, json_option, option, options_of
from ident3d.errors import DataError, choose
from ident3d.factors import as_latents

from .build import Build, declare
from .cluster import render_on_cluster
from .devices import DEVICES, find_seats
from .estimate import Estimate, estimate
from .plan import Plan, begin, make_plan, parse_share
from .presets import PRESETS
from .report import Report, duration
from .scene import HUES
from .spec import Content
from .workers import Look, Pool, Seat

# How to render, not what: these leave the files as they are.
_EXECUTION = ("device", "workers", "shard", "ray", "verbose")
_FILE = click.Path(exists=True, dir_okay=False)


@dataclasses.dataclass(frozen=True)
class RenderSettings:
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
    workers: int | None = option(None, "Worker processes; one per core or graphics card if left.")
    shard: str = option("1/1", "This machine's share of the files, for job arrays.", metavar="I/N")
    ray: str | None = option(
        None, "Render on a Ray cluster: its address, auto, or local. OUT must be seen by all."
    )
    verbose: bool = option(False, "Let Blender print.", flags=("-v", "--verbose"))


@click.command()
@click.argument("out", type=click.Path(file_okay=False, path_type=Path))
@options_of(RenderSettings)
@click.option(
    "--estimate", "only_estimate", is_flag=True, help="Tell time and disk; write nothing."
)
@json_option
def render(settings: RenderSettings, out: Path, only_estimate: bool, as_json: bool) -> None:
    """Render a data set to the folder OUT. The same command continues where it was stopped."""
    content = content_of(settings)
    size = _size(settings, content)
    share = parse_share(settings.shard)
    command = command_text(settings)
    plan = make_plan(out, content, size, settings.shard_size, command)
    if only_estimate:
        device, seats = find_seats(settings.device, settings.workers)
        _echo_estimate(_estimate(plan, settings, seats), device, as_json)
        return
    if not all(map(plan.done, plan.units(share))):
        if settings.ray:
            plan = begin(out.resolve(), content, size, settings.shard_size, command)
            render_on_cluster(plan, plan.units(share), settings.ray, settings.device)
        else:
            device, seats = find_seats(settings.device, settings.workers)
            plan = begin(out, content, size, settings.shard_size, command)
            _build(plan, settings, device, seats, share)
    _echo_result(plan, share, declare(plan), as_json)


def content_of(settings: RenderSettings) -> Content:
    """Check the settings and keep those that files depend on."""
    quality = choose(PRESETS, settings.preset, "preset")
    if settings.samples is not None:
        quality = dataclasses.replace(quality, samples=settings.samples)
    if quality.samples < 1 or not 8 <= settings.resolution <= 8192:
        raise ValueError(
            "`samples` must be 1 or more and `resolution` from 8 to 8192, "
            f"got {quality.samples} and {settings.resolution}."
        )
    return Content(
        quality=quality,
        resolution=settings.resolution,
        hue=settings.hue,
        split=settings.split,
        seed=settings.seed,
        factors=settings.factors,
        held=_held(settings.hold),
        pairs=settings.pairs,
        given=None if settings.latents is None else _read_latents(Path(settings.latents)),
        compress=settings.compress,
    )


def command_text(settings: RenderSettings) -> str:
    """Spell out the command that makes this data set, for its description."""
    words = ["ident3d", "render", "OUT"]
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if value == field.default or field.name in _EXECUTION:
            continue
        words.append(f"--{field.name.replace('_', '-')}")
        if field.name == "latents":
            value = Path(value).name
        words += [] if value is True else [str(value)]
    return shlex.join(words)


def _size(settings: RenderSettings, content: Content) -> int:
    if content.given is None and settings.size is None:
        raise ValueError("`size` is missing: give the number of rows, or `latents` to render.")
    if content.given is not None and settings.size not in (None, len(content.given)):
        raise ValueError(f"`latents` has {len(content.given):,} rows; leave `size` out.")
    return len(content.given) if content.given is not None else settings.size


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
    try:
        latents = np.load(path, allow_pickle=False)
        if latents.dtype.kind not in "fiu":
            raise ValueError(f"its type is {latents.dtype}")
    except (ValueError, EOFError, AttributeError) as error:
        raise DataError(f"{path} is not a .npy file of numbers ({error}).") from None
    latents = as_latents(latents)
    if len(latents) == 0:
        raise ValueError(f"`latents` must have rows; {path} has none.")
    return latents


def _build(
    plan: Plan, settings: RenderSettings, device: str, seats: list[Seat], share: tuple[int, int]
) -> None:
    units = plan.units(share)
    total = sum(unit.stop - unit.start for unit in units)
    done = sum(unit.stop - unit.start for unit in units if plan.done(unit))
    with Report(total, done, device) as report:
        report.say(f"Rendering {total - done:,} images on {device}, {len(seats)} at a time.")
        with Pool(Look.of(plan.content, settings.verbose), seats, report.say) as pool:
            Build(plan, pool, report).run(units)
        report.say(report.line())


def _estimate(plan: Plan, settings: RenderSettings, seats: list[Seat]) -> Estimate:
    with Pool(Look.of(plan.content, settings.verbose), seats, click.echo) as pool:
        return estimate(plan, pool)


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
    missing = sum(not plan.done(unit) for unit in plan.units())
    if as_json:
        record = {"path": str(plan.folder), "rows": sum(plan.counts), "files_missing": missing}
        echo_json(record | {"finished": finished})
    elif finished:
        click.echo(f"{plan.folder}: {sum(plan.counts):,} rows, finished.")
    else:
        click.echo(f"Share {share[0]}/{share[1]} is done; {missing} files of others are not yet.")
