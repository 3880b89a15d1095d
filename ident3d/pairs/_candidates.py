"""What pairs need of a data set, and all its images as rows to choose from."""

from typing import Any, Protocol

import numpy as np

from ..dataset import PairedRows
from ..index import Data


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

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        """Gather rows, given by number, in their order."""
        late = rows >= len(self._first)
        found = np.empty((len(rows), *self._first.shape[1:]), np.uint8)
        found[~late] = self._first[rows[~late]]
        found[late] = self._second[rows[late] - len(self._first)]
        return found
