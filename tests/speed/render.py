"""Rendering: images a second and PSNR of the presets, beside settings of before, on this CPU.

`python -m tests.speed.render` takes half an hour on two cores, half of it for references of many
samples; `python -m tests.speed.render 64` does one size alone.
"""

import contextlib
import os
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from ident3d.render import blender
from ident3d.render.devices import assign_slots
from ident3d.render.materials import Material
from ident3d.render.presets import PRESETS, Quality, quality
from ident3d.render.scene import SceneState
from ident3d.render.spec import RenderSettings
from ident3d.render.workers import ImageTask, WorkerPool, _Worker

from ident3d.commands.options import table
from ident3d.rows import row_latents
from ident3d.shards import Description, ShardWriter, shard_name

# pixels -> rows, samples of the reference.
SIZES = {32: (24, 1024), 64: (24, 1024), 128: (12, 512), 224: (6, 512), 512: (2, 256)}
PUBLISHED = quality("published", 224)
# Two passes, each denoised by a denoiser of its own that Blender sets up: the presets of 0.1.0.
BEFORE = {
    "standard": Quality(4, 24, light_tree=True, prefilter="NONE", denoiser="HIGH"),
    "draft": Quality(2, 8, light_tree=True, prefilter="NONE", denoiser="HIGH"),
}
ROUNDS = 3  # every setting is timed this often in turn; the median counts
SMALL, OFTEN = 128, 4  # pixels up to which rows are rendered so often a round, to fill some seconds


class InkedRenderer(blender.Renderer):
    """Colours in materials, as in 0.1.0: Blender compiles a material anew for a new colour.

    Objects are shown anew with every row, too: Blender then sorts them.
    """

    def _cover(self, mesh: Any, material: Material) -> None:
        super()._cover(mesh, material)
        nodes = mesh.materials[0].node_tree.nodes
        info = next(node for node in nodes if node.bl_idname == "ShaderNodeObjectInfo")
        inks = vars(self).setdefault("_inks", {})
        inks[mesh.name] = [link.to_socket for link in info.outputs["Color"].links]
        nodes.remove(info)

    def apply(self, state: SceneState) -> None:
        super().apply(state)
        self._things[state.mesh].hide_render = False
        for name, color in ((state.mesh, state.object_color), ("ground", state.ground_color)):
            for ink in self._inks[name]:
                ink.default_value = (*color, 1)


class WaitingPool(WorkerPool):
    """Workers that wait while their image is stored, as in 0.1.0: none has a next row."""

    def _accepts(self, worker: _Worker) -> bool:
        return not worker.tasks


@dataclass(frozen=True)
class Before(RenderSettings):
    """0.1.0 as it was: each worker has a second thread of Blender's that only asks for work."""

    def renderer(self, threads: int, gpu: blender.Gpu | None) -> blender.Renderer:
        blender._one_core = contextlib.nullcontext
        os.environ["OIDN_NUM_THREADS"] = str(threads)
        return InkedRenderer(self.quality, self.resolution, threads, gpu)


def render(
    quality: Quality, resolution: int, rows: int, kind: type[RenderSettings] = RenderSettings
) -> tuple[list[np.ndarray], float]:
    """Render and store rows as `ident3d render` does; return images, and images a second, warm."""
    slots, quick = assign_slots([], None), quality.samples < 100
    count = OFTEN * rows if quick and resolution <= SMALL else rows
    latents, shape = row_latents(0, "report", np.arange(count) % rows), (resolution, resolution, 3)
    tasks = [ImageTask(row, latents[row], row) for row in range(count)]
    pool_of = WaitingPool if kind is Before else WorkerPool
    with (
        tempfile.TemporaryDirectory() as folder,
        ShardWriter(
            Path(folder) / shard_name(0), np.arange(count), latents, shape, Description()
        ) as shard,
        pool_of(kind(quality, resolution, "injective"), slots, print) as pool,
    ):
        if quick:
            list(pool.run(tasks[: len(slots)]))
        else:  # a long render hides the start, a second or two
            time.sleep(5)
        images = {}
        began = time.monotonic()
        for task, image in pool.run(tasks):
            shard.put(task.key, image)
            images[task.key] = image
        return [images[row] for row in range(rows)], count / (time.monotonic() - began)


def psnr(image: np.ndarray, reference: np.ndarray) -> float:
    return 10 * np.log10(255**2 / np.square(image.astype(float) - reference).mean())


def compare(resolution: int) -> str:
    """Presets, those of before and `published`, at one size, against many samples."""
    rows, samples = SIZES[resolution]
    reference, rate = render(replace(PUBLISHED, samples=samples), resolution, rows)
    lines = [["published", "512/512", f"{rate * samples / 512:.3g}", "", "", "", ""]]
    for name, old in BEFORE.items():
        variants = {
            f"{name}, 0.1.0": (old, Before),
            f"{name}, settings of 0.1.0": (old, RenderSettings),
            name: (quality(name, resolution), RenderSettings),
        }
        timed = [
            [render(settings, resolution, rows, kind) for settings, kind in variants.values()]
            for _ in range(ROUNDS)
        ]
        rates = np.median([[rate for _, rate in turn] for turn in timed], axis=0)
        for (label, (settings, _)), rate, (images, _) in zip(
            variants.items(), rates, timed[0], strict=True
        ):
            each = [psnr(*pair) for pair in zip(images, reference, strict=True)]
            lines.append(
                [
                    label,
                    f"{settings.samples}/{settings.teapot_samples}",
                    f"{rate:.3g}",
                    f"{rate / rates[0]:.2f}",
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
