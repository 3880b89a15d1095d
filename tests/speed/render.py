"""Rendering: seconds per image and PSNR of the presets, all in one run, on this CPU.

`python -m tests.speed.render` takes a quarter of an hour on two cores, nearly all of it for the
2048-sample reference; `python -m tests.speed.render 256` makes do with a rougher one.
"""

import sys
import time
from dataclasses import replace

import numpy as np
from ident3d.render.blender import Renderer
from ident3d.render.devices import assign_slots
from ident3d.render.presets import PRESETS, Quality
from ident3d.render.scene import scene_state
from ident3d.render.spec import RenderSettings
from ident3d.render.workers import ImageTask, WorkerPool, WorkerSlot

from ident3d.commands.options import table
from ident3d.rows import row_latents

ROWS = 8
LATENTS = row_latents(0, "speed", np.arange(ROWS))
PUBLISHED, STANDARD, DRAFT = (PRESETS[name] for name in ("published", "standard", "draft"))
# Found by trying: the fewest samples whose PSNR is that of `published`.
AS_GOOD = Quality(96, 320, light_tree=True, prefilter="ACCURATE", denoiser="HIGH")


def render(quality: Quality, resolution: int = 224, rows: int = ROWS, slots=None):
    """Render rows as `ident3d render` does; returns images and seconds per image, warmed up."""
    slots = slots or assign_slots([], None)
    with WorkerPool(RenderSettings(quality, resolution, "injective"), slots, print) as pool:
        quick = [ImageTask(row, LATENTS[row], row) for row in range(len(slots))]
        if quality.samples < 100:
            list(pool.run(quick))
        else:  # a long render hides the start, a second or two
            time.sleep(5)
        began = time.monotonic()
        tasks = [ImageTask(row, LATENTS[row], row) for row in range(rows)]
        images = {task.key: image for task, image in pool.run(tasks)}
        return [images[row] for row in range(rows)], (time.monotonic() - began) / rows


def psnr(image, reference):
    return 10 * np.log10(255**2 / np.square(image.astype(float) - reference).mean())


def compare(samples: int) -> str:
    """Presets against a reference of many samples."""
    reference, _ = render(replace(PUBLISHED, samples=samples))
    lines, published_seconds = [], None
    for name, quality, rows in (
        ("published", PUBLISHED, 4),
        ("as good, cheaper", AS_GOOD, 4),
        ("standard", STANDARD, ROWS),
        ("draft", DRAFT, ROWS),
        ("standard, teapot as the rest", replace(STANDARD, teapot_samples=0), ROWS),
        ("16 samples, light tree", replace(STANDARD, samples=16, teapot_samples=0), ROWS),
        ("16 samples, no light tree", Quality(16, 0, False, "NONE", "HIGH"), ROWS),
    ):
        images, seconds = render(quality, rows=rows)
        published_seconds = published_seconds or seconds
        each = [psnr(*pair) for pair in zip(images, reference, strict=False)]
        lines.append(
            [
                name,
                f"{quality.samples}/{max(quality.teapot_samples, quality.samples)}",
                f"{seconds:.2f}",
                f"{1 / seconds:.2f}",
                f"{published_seconds / seconds:.1f}",
                f"{np.mean(each):.1f}",
                f"{min(each):.1f}",
            ]
        )
    header = ["224 px", "samples/teapot", "s/image", "images/s", "times published", "PSNR", "worst"]
    return table(lines, header)


def throughput() -> str:
    """Images per second at 64 px, and processes against threads."""
    cores = len(assign_slots([], None))
    lines = []
    for name, quality, resolution, slots in (
        ("standard, 64 px", STANDARD, 64, None),
        ("draft, 64 px", DRAFT, 64, None),
        (
            f"standard, 224 px, one process of {cores} threads",
            STANDARD,
            224,
            [WorkerSlot(threads=cores)],
        ),
    ):
        _, seconds = render(quality, resolution, slots=slots)
        lines.append([name, f"{1 / seconds:.2f}"])
    return table(lines, ["throughput", "images/s"])


def where_the_time_goes() -> str:
    """Take parts of a `standard` render away one after the other, in one thread."""
    lines = []
    for name, change in (
        ("whole", {}),
        ("no second pass for the teapot", {"teapot_samples": 0}),
        ("and no denoiser", {"teapot_samples": 0}),
        ("and one sample", {"teapot_samples": 0, "samples": 1}),
    ):
        renderer = Renderer(replace(STANDARD, **change), 224, threads=1)
        renderer.scene.cycles.use_denoising = not name.startswith("and")
        seconds = []
        for latents in LATENTS:
            began = time.monotonic()
            renderer.render(scene_state(latents))
            seconds.append(time.monotonic() - began)
        lines.append([name, f"{np.median(seconds):.3f}"])
    return table(lines, ["where the time of `standard` goes (one thread)", "s/image"])


def main(samples: int = 2048) -> None:
    """Print all tables; `samples` is the reference's."""
    print(where_the_time_goes(), throughput(), sep="\n\n", end="\n\n", flush=True)
    print(compare(samples), f"PSNR to {samples} samples of `published`.", sep="\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
