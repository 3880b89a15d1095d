"""Representations that nothing trains: names that a loss may have instead."""

from collections.abc import Callable
from functools import partial

import numpy as np
from torch.nn import functional

from ident3d.augment import to_float
from ident3d.loaders import as_tensor


def some_pixels(images: np.ndarray, count: int) -> np.ndarray:
    """Return the observation itself, cut to a width: `count` values evenly spaced over it."""
    flat = images.reshape(len(images), -1)
    places = np.linspace(0, flat.shape[1] - 1, count + 2)[1:-1].round().astype(int)
    return flat[:, places] / np.float32(255)


def mean_pixels(images: np.ndarray, side: int = 6) -> np.ndarray:
    """Return the image averaged to side x side, flattened: all that a blurred look shows."""
    floats = to_float(as_tensor(images))
    return functional.adaptive_avg_pool2d(floats, side).flatten(1).numpy()


# name -> what makes of images (n, H, W, 3) a representation, for some number of factors; None: an
# untrained encoder. Synthetic runs have "identity" alone, their observations as they are.
BASELINES: dict[str, Callable[[int], Callable[[np.ndarray], np.ndarray]] | None] = {
    "identity": lambda dim: partial(some_pixels, count=dim),
    "pixels": lambda dim: mean_pixels,
    "random": None,
}
