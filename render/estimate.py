"""Short measured runs that write nothing: what a data set will take, and with how many workers.

One worker leaves its graphics card waiting while Blender prepares the next scene. Others can use
the card meanwhile, until it has no time left.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import h5py
import numpy as np

from ident3d.rows import row_latents
from ident3d.scale.peak_memory import peak_memory
from ident3d.shards import Description, ShardWriter, image_layout

from .plan import Plan
from .presets import Quality
from .spec import RenderSettings, Spec
from .workers import ImageTask, WorkerPool, WorkerSlot

IMAGES_PER_WORKER = 4  # measured, after one each that warms up
GAIN = 1.05  # one more worker on a card must be worth its memory
MOST = 8  # workers of one card
STORED = 200  # images of the file that a trial writes


@dataclass(frozen=True)
class Estimate:
    """Time and disk; `disk_bytes` is what stays, `peak_bytes` what is needed on the way."""

    images: int
    images_left: int
    images_per_second: float
    seconds: float
    disk_bytes: int
    peak_bytes: int


@dataclass(frozen=True)
class Trial:
    """What rendering takes on this machine, all its workers at work."""

    start_seconds: float  # until a worker renders
    seconds_per_image: float  # of one worker
    store_seconds: float  # an image, in a file: journal, HDF5 and SHA-256
    bytes_per_image: float
    memory_bytes: float  # of one worker


def try_out(spec: Spec, slots: list[WorkerSlot], folder: Path) -> Trial:
    """Render a few rows and write a file below `folder`, which is removed."""
    began = time.monotonic()
    with WorkerPool(spec.render_settings(), slots, print) as pool:
        first, images, seconds = _render(spec, pool, 1 << 20)
    each = seconds * len(slots) / len(images)
    return Trial(
        start_seconds=max(0.0, first - began - each),
        seconds_per_image=each,
        store_seconds=_store(images, spec.compress, folder),
        bytes_per_image=_bytes_per_image(np.stack(images), spec.compress),
        memory_bytes=peak_memory(children=True),
    )


def estimate(plan: Plan, pool: WorkerPool) -> Estimate:
    """Render a few rows of the plan and scale up."""
    _, images, seconds = _render(plan.spec, pool, sum(plan.counts))
    rate = len(images) / seconds
    total, done = plan.count(plan.tasks())
    disk_bytes = round(total * _bytes_per_image(np.stack(images), plan.spec.compress))
    journal = max(plan.counts) * images[0].nbytes
    return Estimate(
        images=total,
        images_left=total - done,
        images_per_second=rate,
        seconds=(total - done) / rate,
        disk_bytes=disk_bytes,
        peak_bytes=disk_bytes + journal,
    )


def _render(spec: Spec, pool: WorkerPool, rows: int) -> tuple[float, list[np.ndarray], float]:
    """Return when every worker had rendered a row; then more rows, and the seconds they took."""
    workers = len(pool.pids())
    latents = spec.anchors(np.arange((1 + IMAGES_PER_WORKER) * workers) % rows)
    trial = [ImageTask(row, values, row) for row, values in enumerate(latents)]
    list(pool.run(trial[:workers]))
    began = time.monotonic()
    images = [image for _, image in pool.run(trial[workers:])]
    return began, images, time.monotonic() - began


def _store(images: list[np.ndarray], compress: bool, folder: Path) -> float:
    """Return the seconds that an image takes to be stored, as one of a file of `STORED`."""
    rows, latents = np.arange(STORED), np.zeros((STORED, 10))
    with TemporaryDirectory(dir=folder, prefix=".ident3d-plan-") as name:
        path, (height, width, channels) = Path(name) / "shard-00000.h5", images[0].shape
        shape = (height, width, channels)
        began = time.monotonic()
        with ShardWriter(path, rows, latents, shape, Description(), compress) as writer:
            for row in rows:
                writer.put(row, images[row % len(images)])
            writer.finish()
        return (time.monotonic() - began) / STORED


def _bytes_per_image(images: np.ndarray, compress: bool) -> float:
    """Measure what an image, its latents and its row number take in a shard."""
    with h5py.File("estimate", "w", driver="core", backing_store=False) as file:
        layout = image_layout(images.shape[1:], compress)
        stored = file.create_dataset("images", data=images, **layout)
        return stored.id.get_storage_size() / len(images) + 10 * 4 + 8


@dataclass(frozen=True)
class Occupancy:
    """What a trial found."""

    workers: int  # for each card
    not_sampling: float  # share of an image's time, with one worker
    rate_of_one: float  # images a second
    rate: float

    def __str__(self) -> str:
        """Say it in a sentence."""
        return (
            f"{self.not_sampling:.0%} of an image's time is not sampling, so a card gets "
            f"{self.workers} worker{'s' * (self.workers > 1)}: {self.rate:.3g} images/s in a trial "
            f"on one card, {self.rate_of_one:.3g} with one."
        )


def find_occupancy(settings: RenderSettings, slot: WorkerSlot, cores: int) -> Occupancy:
    """Try out how many workers to give to the card of a slot, where it has `cores` to itself."""

    @cache
    def rate(workers: int) -> float:
        return measure_rate(settings, [slot] * workers)

    bare = measure_rate(replace(settings, quality=fewest_samples(settings.quality)), [slot])
    not_sampling = min(1.0, rate(1) / bare)
    most = max(1, min(MOST, cores))
    guess = most if not_sampling > 1 - 1 / most else round(1 / (1 - not_sampling))
    workers = climb(rate, guess, most)
    return Occupancy(workers, not_sampling, rate(1), rate(workers))


def climb(rate: Callable[[int], float], guess: int, most: int) -> int:
    """Return the fewest workers that one more would not make faster by much, seen from a guess."""
    workers = guess
    while workers < most and rate(workers + 1) > GAIN * rate(workers):
        workers += 1
    while workers > 1 and GAIN * rate(workers - 1) >= rate(workers):
        workers -= 1
    return workers


def measure_rate(settings: RenderSettings, slots: list[WorkerSlot]) -> float:
    """Render a few rows with a worker in each slot, and return images a second."""
    latents = row_latents(0, "trial", np.arange((1 + IMAGES_PER_WORKER) * len(slots)))
    tasks = [ImageTask(row, values, row) for row, values in enumerate(latents)]
    with WorkerPool(settings, slots, print) as pool:
        list(pool.run(tasks[: len(slots)]))
        began = time.monotonic()
        count = sum(1 for _ in pool.run(tasks[len(slots) :]))
        return count / (time.monotonic() - began)


def fewest_samples(quality: Quality) -> Quality:
    """Return a quality of the same passes, each with as little sampling as there can be."""
    return replace(quality, samples=1, teapot_samples=2 if quality.teapot_samples else 0)
