"""How many workers keep a graphics card busy: from what an image spends elsewhere, and a trial.

One worker leaves its card waiting while Blender prepares the next scene. Others can use the card
meanwhile, until it has no time left.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from ident3d.rows import row_latents

from .presets import Quality
from .spec import RenderSettings
from .workers import ImageTask, WorkerPool, WorkerSlot

IMAGES = 4  # of each worker in a trial, after one that warms up
GAIN = 1.05  # one more worker must be worth its memory
MOST = 8  # workers of one card


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
    latents = row_latents(0, "trial", np.arange((1 + IMAGES) * len(slots)))
    tasks = [ImageTask(row, values, row) for row, values in enumerate(latents)]
    with WorkerPool(settings, slots, print) as pool:
        list(pool.run(tasks[: len(slots)]))
        began = time.monotonic()
        count = sum(1 for _ in pool.run(tasks[len(slots) :]))
        return count / (time.monotonic() - began)


def fewest_samples(quality: Quality) -> Quality:
    """Return a quality of the same passes, each with as little sampling as there can be."""
    return replace(quality, samples=1, teapot_samples=2 if quality.teapot_samples else 0)
