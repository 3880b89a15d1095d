"""The figures of the digits: what the VAE draws, and where augmentations put a real digit.

python -m ident3d.benchmark.digits.digit_figures samples results/digits docs/figures/digits.png
python -m ident3d.benchmark.digits.digit_figures views results/digits docs/figures/digit-views.png

The first folder is that of the records: the VAE of seed 0 is taken from there, or trained.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm

from ident3d.conditionals import parse

from ..data.synthetic import Process, as_tensor, stream
from ..experiments.digits import EXPERIMENTS
from ..training.jobs import WORK
from .digit_images import SIDE
from .digit_settings import DigitSettings
from .digit_vae import Decoder, Vae, get_vae
from .digit_views import augment, shape, view_latents

SEED, STREAM = 0, 8
GRID = 6  # images along each side of a grid
SHOWN = 6  # views of a digit
DRAWN = (3, 8, 11)  # test digits in the figure of views: not picked by their looks
DESCRIBED = 100  # test digits whose views are described in numbers


def draw_samples(settings: DigitSettings, work: Path, path: Path) -> None:
    """Write anchors, and positives of one of them at L = 5 and L = 50 (the paper's figure 13)."""
    from matplotlib.figure import Figure

    process, rng = Process.read(settings), stream(SEED, STREAM)
    decoder = Decoder(get_vae(settings, SEED, work))
    anchors = process.anchors(GRID**2, rng)
    grids = {"from the marginal": anchors}
    for value in (5, 50):
        conditional = parse("anisotropic:" + ",".join([str(value)] * process.dim))
        around = np.repeat(anchors[GRID - 1 : GRID], GRID**2, axis=0)
        grids[f"positives of the marked one, L = {value}"] = conditional.sample(
            around, rng, process.space
        )
    figure = Figure(figsize=(10.5, 3.8), layout="constrained")
    for axes, (title, latents) in zip(figure.subplots(1, 3), grids.items(), strict=True):
        _show(axes, _grid(decoder(as_tensor(latents)).numpy()), title)
    left = figure.axes[0]
    from matplotlib.patches import Rectangle

    corner = ((GRID - 1) * SIDE - 0.5, -0.5)
    left.add_patch(Rectangle(corner, SIDE, SIDE, fill=False, edgecolor="tab:red", linewidth=2))
    figure.savefig(path, dpi=110)


def draw_views(settings: DigitSettings, work: Path, path: Path) -> dict[str, Any]:
    """Write views of digits, what the VAE makes of them, and the latents of four dimensions.

    Returns the shares of dimensions that are not normal, or have two peaks, of many digits; and
    the same of as many normal samples, since a test errs.
    """
    from matplotlib.figure import Figure

    vae = get_vae(settings, SEED, work, augment)
    digits = settings.real_digits().test_images
    figure = Figure(figsize=(10.5, 1.9 * len(DRAWN)), layout="constrained")
    axes = figure.subplots(len(DRAWN), 6, width_ratios=[1, 2.2, 1, 1, 1, 1])
    for row, number in zip(axes, DRAWN, strict=True):
        _draw_digit(row, vae, digits[number], number)
    figure.savefig(path, dpi=110)
    found = [view_latents(vae, digits[k], k)[1].numpy() for k in range(DESCRIBED)]
    rng = stream(SEED, STREAM, 1)
    normal = [rng.standard_normal(sample.shape) for sample in found]
    return {"augmented": asdict(shape(found)), "normal": asdict(shape(normal))}


def _draw_digit(row: Any, vae: Vae, digit: np.ndarray, number: int) -> None:
    """Draw a digit, views over reconstructions, and the four dimensions that vary most."""
    views, latents = view_latents(vae, digit, number)
    with_noise = vae.eval()(views[:SHOWN])[:, : SIDE**2].sigmoid().detach().numpy()
    _show(row[0], digit, "digit" if number == DRAWN[0] else "")
    pictures = np.concatenate([views[:SHOWN].numpy(), with_noise])
    _show(row[1], _grid(pictures, SHOWN), "views, and as decoded" if number == DRAWN[0] else "")
    z = latents.numpy()
    for axes, k in zip(row[2:], np.argsort(-z.std(0))[:4], strict=True):
        axes.hist(z[:, k], bins=30, density=True, color="0.7")
        x = np.linspace(z[:, k].min(), z[:, k].max(), 200)
        axes.plot(x, norm.pdf(x, z[:, k].mean(), z[:, k].std()), color="black", linewidth=1)
        axes.set(yticks=[], title=f"z{k}")


def _grid(pixels: np.ndarray, columns: int = GRID) -> np.ndarray:
    """Lay images, (n, 784), out row by row."""
    rows = pixels.reshape(-1, columns, SIDE, SIDE)
    return rows.transpose(0, 2, 1, 3).reshape(len(rows) * SIDE, columns * SIDE)


def _show(axes: Any, image: np.ndarray, title: str) -> None:
    axes.imshow(image, cmap="gray_r")
    axes.set(xticks=[], yticks=[], title=title)


if __name__ == "__main__":
    what, records, out = sys.argv[1:]
    first = EXPERIMENTS[0].tiers["cpu"].pinned()
    assert isinstance(first, DigitSettings)
    drawing = {"samples": draw_samples, "views": draw_views}[what]
    print(json.dumps(drawing(first, Path(records) / WORK, Path(out))))
