"""Batches of pairs: two views, or three where hard negatives were requested."""

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

V = TypeVar("V", bound=tuple[Any, Any, Any])
P = TypeVar("P", bound="ViewTuple")


class ViewTuple(tuple[V, ...], Generic[V]):
    """Anchors, their positives, and their hard negatives where those were requested.

    `anchors, positives = batch`, and three names where there are negatives. Of k hard negatives
    for each anchor, those of anchor i are rows k i to k (i + 1) - 1.
    """

    __slots__ = ()

    def __new__(cls: type[P], anchors: V, positives: V, negatives: V | None = None) -> P:
        """Hold two views, or three."""
        parts = (anchors, positives) if negatives is None else (anchors, positives, negatives)
        return tuple.__new__(cls, parts)

    @property
    def anchors(self) -> V:
        """The anchors."""
        return self[0]

    @property
    def positives(self) -> V:
        """A positive for each anchor."""
        return self[1]

    @property
    def negatives(self) -> V | None:
        """The hard negatives; None where none were requested."""
        return self[2] if len(self) > 2 else None

    def map(self: P, change: Callable[[V], V]) -> P:
        """Change every view in the same way."""
        return type(self)(*map(change, self))

    # As of a named tuple, which torch and Lightning rebuild part by part.
    @property
    def _fields(self) -> tuple[str, ...]:
        return ("anchors", "positives", "negatives")[: len(self)]

    def _asdict(self) -> dict[str, V]:
        return dict(zip(self._fields, self, strict=True))

    def __getnewargs__(self) -> tuple[V, ...]:
        return tuple(self)

    def __repr__(self) -> str:
        parts = ", ".join(f"{len(view[0]):,} {name}" for name, view in self._asdict().items())
        return f"{type(self).__name__}({parts}: {describe(self[0][2])})"


class View(NamedTuple):
    """Some rows of a data set."""

    rows: np.ndarray  # int64 (n,)
    latents: np.ndarray  # float32 (n, d)
    images: np.ndarray  # uint8 (n, H, W, 3)

    def __repr__(self) -> str:
        return f"View({len(self.rows):,} rows: {describe(self.images)})"


class Batch(ViewTuple[View]):
    """A batch as numpy arrays."""

    __slots__ = ()


def describe(images: Any) -> str:
    """Say in few words what images there are; their pixels would fill the screen."""
    kind = str(images.dtype).removeprefix("torch.")
    return f"images {kind} {' x '.join(map(str, images.shape[1:]))}"
