"""What a whole data set will take, from a short measured run that writes nothing."""

import time
from dataclasses import dataclass

import h5py
import numpy as np

from ident3d.shards import image_layout

from .plan import Plan
from .workers import ImageTask, WorkerPool

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


def estimate(plan: Plan, pool: WorkerPool) -> Estimate:
    """Render a few rows of the plan and scale up."""
    workers = len(pool.pids())
    rows = np.arange((1 + IMAGES_PER_WORKER) * workers)
    latents = plan.spec.anchors(rows % sum(plan.counts))
    trial = [ImageTask(row, values, row) for row, values in enumerate(latents)]
    list(pool.run(trial[:workers]))
    began = time.monotonic()
    images = [image for _, image in pool.run(trial[workers:])]
    rate = len(images) / (time.monotonic() - began)
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


def _bytes_per_image(images: np.ndarray, compress: bool) -> float:
    """Measure what an image, its latents and its row number take in a shard."""
    with h5py.File("estimate", "w", driver="core", backing_store=False) as file:
        layout = image_layout(images.shape[1:], compress)
        stored = file.create_dataset("images", data=images, **layout)
        return stored.id.get_storage_size() / len(images) + 10 * 4 + 8
