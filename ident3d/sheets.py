"""Looking at a data set: contact sheets and traversals as one picture."""

import base64
import io
from collections.abc import Sequence
from html import escape

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from .dataset import Dataset
from .rows import evenly

_MARGIN = 4  # pixels between images
_LABEL = 18  # pixels for a line above a labelled column
_SHOWN = 8  # images in a notebook


def contact_sheet(data: Dataset, rows: np.ndarray, columns: int) -> Image.Image:
    """Lay the given rows out from left to right, top to bottom."""
    images = data.images[rows]
    blank = np.full_like(images[:1], 255)
    padding = -len(images) % columns
    grid = np.concatenate([images, *[blank] * padding]).reshape(-1, columns, *images.shape[1:])
    return picture(grid.swapaxes(0, 1))


def nearest_traversal(data: Dataset, steps: int) -> Image.Image:
    """Show, for each factor, the rows nearest to a line along it through the middle of the box.

    The other factors are only as still as the data allows: what moves besides the factor shows
    how densely the rows fill the box.
    """
    rows = np.empty((len(data.factors), steps), int)
    for factor in range(len(data.factors)):
        for step, value in enumerate(np.linspace(-1, 1, steps)):
            target = np.zeros(len(data.factors), np.float32)
            target[factor] = value
            rows[factor, step] = np.square(data.latents - target).sum(1).argmin()
    return picture(data.images[rows], [factor.name for factor in data.factors])


def picture(grid: np.ndarray, labels: Sequence[str] = ()) -> Image.Image:
    """Draw uint8 images of shape (columns, rows, H, W, 3), with a label above each column."""
    columns, rows, height, width, _ = grid.shape
    texts = [label.replace("_", "\n") for label in labels]  # a word on a line
    top = _LABEL * max((1 + text.count("\n") for text in texts), default=0)
    font = _fitting("\n".join(texts).split("\n"), width)
    sheet = Image.new(
        "RGB",
        (columns * (width + _MARGIN) - _MARGIN, top + rows * (height + _MARGIN) - _MARGIN),
        "white",
    )
    draw = ImageDraw.Draw(sheet)
    for column in range(columns):
        left = column * (width + _MARGIN)
        if texts:
            centre = (left + width / 2, top / 2)
            draw.text(centre, texts[column], "black", font, anchor="mm", align="center")
        for row in range(rows):
            image = Image.fromarray(np.ascontiguousarray(grid[column, row]))
            sheet.paste(image, (left, top + row * (height + _MARGIN)))
    return sheet


def html(data: Dataset) -> str:
    """Show a split in a notebook: some images, what it counts, and its factors."""
    shown = evenly(len(data), _SHOWN)
    stream = io.BytesIO()
    contact_sheet(data, shown, len(shown)).save(stream, "PNG")
    sheet = base64.b64encode(stream.getvalue()).decode()
    rows = "".join(
        f"<tr><td>{escape(factor.name)}</td>"
        f"<td>{factor.low:.3g} to {factor.high:.3g} {escape(factor.unit)}</td>"
        f"<td>{'varies' if factor in data.varying else 'constant'}</td></tr>"
        for factor in data.factors
    )
    return (
        f"<p><b>{escape(repr(data))}</b></p>"
        f'<p><img alt="{len(shown)} of {len(data):,} images" style="max-width: 100%" '
        f'src="data:image/png;base64,{sheet}"></p>'
        f"<table><tr><th>factor</th><th>scene range</th><th></th></tr>{rows}</table>"
    )


def _fitting(words: Sequence[str], width: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Choose the largest type, up to 13 px, in which all words fit a column."""
    for size in range(13, 5, -1):
        font = ImageFont.load_default(size)
        if max(map(font.getlength, words)) <= width:
            break
    return font
