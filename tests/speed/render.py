"""Rendering: images a second and PSNR of the presets, beside settings of before, on this CPU.

`python -m tests.speed.render` takes some ten minutes on two cores, most of them for references of
many samples; `python -m tests.speed.render 64` does one size alone.
"""

import contextlib
import sys
import time
from dataclasses import dataclass, replace

import numpy as np
from ident3d.render import blender
from ident3d.render.devices import assign_slots
from ident3d.render.presets import PRESETS, Quality, quality
from ident3d.render.spec import RenderSettings
from ident3d.render.workers import ImageTask, WorkerPool

from ident3d.commands.options import table
from ident3d.rows import row_latents

# pixels -> rows, samples of the reference.
SIZES = {32: (24, 1024), 64: (24, 1024), 128: (12, 512), 224: (6, 512), 512: (2, 256)}
PUBLISHED = quality("published", 224)
# Two passes, each denoised by a denoiser of its own that Blender sets up: the presets of 0.1.0.
BEFORE = {
    "standard": Quality(4, 24, light_tree=True, prefilter="NONE", denoiser="HIGH"),
    "draft": Quality(2, 8, light_tree=True, prefilter="NONE", denoiser="HIGH"),
}
REPEATS = 2  # of all rows where that takes seconds


@dataclass(frozen=True)
class Before(RenderSettings):
    """0.1.0 as it was: each worker has a second thread of Blender's that only asks for work."""

    def renderer(self, threads: int, gpu: blender.Gpu | None) -> blender.Renderer:
        blender._one_core = contextlib.nullcontext
        return super().renderer(threads, gpu)


def render(
    quality: Quality, resolution: int, rows: int, kind: type[RenderSettings] = RenderSettings
) -> tuple[list[np.ndarray], float]:
    """Render rows as `ident3d render` does; return images, and images a second, warmed up."""
    latents, slots = row_latents(0, "report", np.arange(rows)), assign_slots([], None)
    repeats = REPEATS if quality.samples < 100 and resolution <= 128 else 1
    with WorkerPool(kind(quality, resolution, "injective"), slots, print) as pool:
        if quality.samples < 100:
            list(pool.run([ImageTask(row, latents[row], row) for row in range(len(slots))]))
        else:  # a long render hides the start, a second or two
            time.sleep(5)
        began = time.monotonic()
        tasks = [ImageTask(row % rows, latents[row % rows], row) for row in range(repeats * rows)]
        images = {task.key: image for task, image in pool.run(tasks)}
        return [images[row] for row in range(rows)], len(tasks) / (time.monotonic() - began)


def psnr(image: np.ndarray, reference: np.ndarray) -> float:
    return 10 * np.log10(255**2 / np.square(image.astype(float) - reference).mean())


def compare(resolution: int) -> str:
    """Presets, those of before and `published`, at one size, against many samples."""
    rows, samples = SIZES[resolution]
    reference, rate = render(replace(PUBLISHED, samples=samples), resolution, rows)
    lines = [["published", "512/512", f"{rate * samples / 512:.3g}", "", "", "", ""]]
    for name, old in BEFORE.items():
        was = 0.0
        for label, settings, kind in (
            (f"{name}, 0.1.0", old, Before),
            (f"{name}, settings of 0.1.0", old, RenderSettings),
            (name, quality(name, resolution), RenderSettings),
        ):
            images, rate = render(settings, resolution, rows, kind)
            was = was or rate
            each = [psnr(*pair) for pair in zip(images, reference, strict=True)]
            lines.append(
                [
                    label,
                    f"{settings.samples}/{settings.teapot_samples}",
                    f"{rate:.3g}",
                    f"{rate / was:.2f}",
                    f"{np.mean(each):.1f}",
                    f"{min(each):.1f}",
                    "" if settings is old else f"{PRESETS[name].promise:g}",
                ]
            )
    header = [f"{resolution} px", "samples/teapot", "images/s", "times 0.1.0", "PSNR", "worst"]
    return table(lines, [*header, "promised"])


def main(*sizes: int) -> None:
    """Print a table for each size."""
    for resolution in sizes or SIZES:
        rows, samples = SIZES[resolution]
        print(
            compare(resolution), f"PSNR to {samples} samples, {rows} rows.\n", sep="\n", flush=True
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
