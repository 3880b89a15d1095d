"""Representations that nothing trains: names that a loss may have instead."""

from collections.abc import Callable

import numpy as np
from torch.nn import functional

from ident3d.augment import to_float
from ident3d.loaders import as_tensor


def mean_pixels(images: np.ndarray, side: int = 6) -> np.ndarray:
    """Return the image averaged to side x side, flattened: all that a blurred look shows."""
    floats = to_float(as_tensor(images))
    return functional.adaptive_avg_pool2d(floats, side).flatten(1).numpy()


# name -> what makes of images (n, H, W, 3) a representation; None: an untrained encoder, or for
# "identity" the observations as they are, all pixels of an image (`training/pixel_run.py`).
BASELINES: dict[str, Callable[[np.ndarray], np.ndarray] | None] = {
    "identity": None,
    "pixels": mean_pixels,
    "random": None,
}
