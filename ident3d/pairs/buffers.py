"""Memory for images that is used again once nobody holds it.

A batch of 512 pairs at 224 px takes 154 MB. Memory fresh from the system comes page by page, each
zeroed at its first touch, which takes longer than filling it with images, and at times ten times as
long.
"""

from collections import deque
from collections.abc import Callable

import numpy as np

Shape = tuple[int, ...]
Allocate = Callable[[Shape], np.ndarray]  # gives uint8 memory of a shape, its content arbitrary

_SPARE = 4  # blocks of a shape that wait for use: two batches of pairs; more go back to the system


def fresh(shape: Shape) -> np.ndarray:
    """Give memory that was never used."""
    return np.empty(shape, np.uint8)


class Buffers:
    """Gives memory that was used before, where nobody holds it any more, or else fresh memory.

    Whoever holds an array, a view of it or a tensor over it holds its memory, for as long as they
    like. Any thread may ask and any thread may let go.
    """

    def __init__(self) -> None:
        self._spare: dict[Shape, deque[np.ndarray]] = {}

    def __call__(self, shape: Shape) -> np.ndarray:
        """Give an array of a shape, uint8, its content arbitrary."""
        spare = self._spare.setdefault(shape, deque(maxlen=_SPARE))
        try:
            block = spare.pop()
        except IndexError:
            block = fresh(shape)
        return np.asarray(_Loan(block, spare))


class _Loan:
    """What an array over a block has as its base: once nobody needs it, the block is spare.

    numpy lets every view refer to the base of its array, so no view outlives the loan.
    """

    def __init__(self, block: np.ndarray, spare: deque[np.ndarray]) -> None:
        self.__array_interface__ = block.__array_interface__
        self._block, self._spare = block, spare

    def __del__(self) -> None:
        self._spare.append(self._block)
