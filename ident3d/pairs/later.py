"""Pairs by time: for a frame, one that comes after it in the same sequence."""

import numpy as np


class Later:
    """Finds frames that come after others.

    Args:
        sequences: Sequence of each row, (n,): rows of one stand side by side, frames in order.
        most: How many frames later, at most.

    Attributes:
        anchors: The rows that a frame of their sequence follows.
    """

    def __init__(self, sequences: np.ndarray, most: int) -> None:
        starts = np.flatnonzero(np.diff(sequences, prepend=sequences[:1] - 1))
        if len(starts) != len(np.unique(sequences)):
            raise ValueError("`data` must hold the frames of a sequence side by side, in order.")
        lengths = np.diff(starts, append=len(sequences))
        self._last = np.repeat(starts + lengths - 1, lengths)  # of each row's sequence
        self._most = most
        self.anchors = np.flatnonzero(self._last > np.arange(len(sequences)))
        if not len(self.anchors):
            raise ValueError("`data` must hold a sequence of two frames or more.")

    def rows(self, anchors: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw a later frame for each anchor row."""
        ahead = rng.integers(1, self._most + 1, size=len(anchors))
        return np.minimum(anchors + ahead, self._last[anchors])
