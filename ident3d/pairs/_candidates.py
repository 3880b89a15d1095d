"""What pairs need of a data set, and all its images as rows to choose from."""

from typing import Any, Protocol

import numpy as np

from ..dataset import PairedRows
from ..index import Data
from .buffers import Allocate


class PairData(Data, Protocol):
    """What pairs need of a data set; `ident3d.Dataset` has it."""

    @property
    def images(self) -> Any:
        """Images, array-like (n, H, W, 3)."""

    @property
    def pairs(self) -> PairedRows | None:
        """The rendered positives, if there are any."""


class AllImages:
    """The rows 0..n-1 of a split, then as n..2n-1 their rendered positives."""

    path = None  # an index of them is kept in memory

    def __init__(self, data: PairData, rendered: PairedRows) -> None:
        self.images = ConcatenatedImages(data.images, rendered.images)
        self.latents = np.concatenate([data.latents, rendered.latents])
        self.factors, self.fingerprint = data.factors, data.fingerprint
        self.classes = None if data.classes is None else np.tile(data.classes, 2)


class ConcatenatedImages:
    """Two arrays of images as one; neither is copied."""

    def __init__(self, first: Any, second: Any) -> None:
        self._first, self._second = first, second
        self.shape = (len(first) + len(second), *first.shape[1:])

    def read_into(self, rows: np.ndarray, out: np.ndarray) -> None:
        """Read rows, given by number, into `out`, uint8 (n, H, W, 3), in their order."""
        late = rows >= len(self._first)
        parts = (self._first, ~late, 0), (self._second, late, len(self._first))
        for images, here, start in parts:
            places = out if here.all() else [out[i] for i in np.flatnonzero(here)]
            _scatter(images, rows[here] - start, places)


def read_images(images: Any, rows: np.ndarray, allocate: Allocate) -> np.ndarray:
    """Read images by row number, into memory from `allocate` if they are not somebody else's."""
    if not hasattr(images, "read_into"):
        return images[rows]
    out = allocate((len(rows), *images.shape[1:]))
    images.read_into(rows, out)
    return out


def _scatter(images: Any, rows: np.ndarray, places: np.ndarray | list[np.ndarray]) -> None:
    if hasattr(images, "read_into"):
        images.read_into(rows, places)
    else:
        for place, image in zip(places, images[rows], strict=True):
            place[...] = image
