"""Pairs by time: the law that a sequence itself follows from one frame to a later one."""

from dataclasses import dataclass

from ..errors import whole
from ..spaces import Space
from .conditional import Conditional


@dataclass(frozen=True)
class ByTime(Conditional):
    """The positive is a frame of the anchor's sequence, 1 to `most` frames later.

    How many frames is uniform, and cut at the sequence's end. There is nothing to draw from and no
    density: the data has the positives, and `ident3d.Pairs` picks them.
    """

    most: int

    def __post_init__(self) -> None:
        """Refuse what is no number of frames."""
        most: float = self.most  # parsed as a float
        known = isinstance(most, float) and most.is_integer()
        object.__setattr__(self, "most", whole(int(most) if known else most, "time"))

    def __str__(self) -> str:
        return f"time:{self.most}"

    def why_not(self, space: Space, density: bool) -> str | None:
        """Say that sequences alone have it."""
        return f"{self} has no law but the data's own; it pairs frames of sequences, by Pairs."
