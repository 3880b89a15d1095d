"""All images of a split as one data set: its rows, then their rendered positives."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..factors import Factor


class ImageArray(Protocol):
    """Images uint8 (n, H, W, 3), in memory or on disk."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, H, W, 3)."""

    def __len__(self) -> int: ...
    def __getitem__(self, rows: Any, /) -> Any: ...


class ConcatenatedImages:
    """Two arrays of images as one; neither is copied."""

    def __init__(self, first: ImageArray, second: ImageArray) -> None:
        self._first, self._second = first, second
        self.shape = (len(first) + len(second), *first.shape[1:])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        """Gather rows, given by number, in their order."""
        late = rows >= len(self._first)
        found = np.empty((len(rows), *self.shape[1:]), np.uint8)
        found[~late] = self._first[rows[~late]]
        found[late] = self._second[rows[late] - len(self._first)]
        return found


@dataclass(frozen=True)
class Candidates:
    """Rows 0..n-1 of a split, then as n..2n-1 their rendered positives."""

    images: ImageArray
    latents: np.ndarray
    factors: Sequence[Factor]
    fingerprint: str
    classes: np.ndarray | None
    path: Path | None = None  # an index of them is kept in memory
