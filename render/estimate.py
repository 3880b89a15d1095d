"""What a whole data set will take, from a short measured run that writes nothing."""

import time
from dataclasses import dataclass

import h5py
import numpy as np

from ident3d.shards import image_layout

from .plan import Plan
from .workers import Pool, Task

IMAGES_PER_WORKER = 4  # measured, after one each that warms up


@dataclass(frozen=True)
class Estimate:
    """Time and disk; `disk_bytes` is what stays, `peak_bytes` what is needed on the way."""

    images: int
    images_left: int
    images_per_second: float
    seconds: float
    disk_bytes: int
    peak_bytes: int


def estimate(plan: Plan, pool: Pool) -> Estimate:
    """Render a few rows of the plan and scale up."""
    workers = len(pool.pids())
    rows = np.arange((1 + IMAGES_PER_WORKER) * workers)
    latents = plan.content.anchors(rows % sum(plan.counts))
    tasks = [Task(int(row), values, int(row)) for row, values in zip(rows, latents, strict=True)]
    list(pool.run(tasks[:workers]))
    began = time.monotonic()
    images = [image for _, image in pool.run(tasks[workers:])]
    rate = len(images) / (time.monotonic() - began)
    units = plan.units()
    total = sum(unit.stop - unit.start for unit in units)
    left = sum(unit.stop - unit.start for unit in units if not plan.done(unit))
    stored = _bytes_per_image(np.stack(images), plan.content.compress)
    journal = max(unit.stop - unit.start for unit in units) * images[0].nbytes
    return Estimate(
        images=total,
        images_left=left,
        images_per_second=rate,
        seconds=left / rate,
        disk_bytes=round(total * stored),
        peak_bytes=round(total * stored) + journal,
    )


def _bytes_per_image(images: np.ndarray, compress: bool) -> float:
    """Measure what an image, its latents and its row number take in a shard."""
    layout = image_layout(images.shape[1:], compress)
    with h5py.File("estimate", "w", driver="core", backing_store=False) as file:
        stored = file.create_dataset("images", data=images, **layout)
        return stored.id.get_storage_size() / len(images) + 10 * 4 + 8
