"""What an experiment is: settings for each tier, published numbers, and the code that runs it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .composed import Composed, plain
from .run_settings import THEORY

FROM_TRUTH = "starts at the size computed from the true conditional"
Fields = dict[str, Any]  # of a record
Published = Mapping[str, tuple[float, float | None]]  # score -> (mean, std), fractions of 1


@dataclass(frozen=True)
class Experiment:
    """One row of a table, or one point of a figure.

    Args:
        id: Such as `table1/3`; what stands before the first slash is its family.
        title: The row in words.
        method: Its name on the leaderboard.
        tiers: Settings of each tier, which is a key of `tiers.TIERS`, smallest first.
        run: `run(settings, seed, checkpoint, label)` returns the fields of a record, or of
            several: the last one says "done".
        published: Score -> (mean, std); std None where the paper gives none.
        plan: `plan(settings)` tells in words what a run would cost.
        check: `check(settings)` raises if the data that a run needs is not there.
        controls: `controls(settings, seed, work)` yields the fields of the records of its controls
            and may keep files in the folder `work`; None: those of `control_run`.
        supply: How to get the data of its smaller tiers, where no render makes it.
        source: Where the published scores come from, for people.
        notes: What people must know of a tier: which of paper and released code it follows where
            they differ, and what it takes from the truth. `note` adds what settings show.
    """

    id: str
    title: str
    method: str
    tiers: Mapping[str, Composed]
    run: Callable[[Any, int, Path | None, str], Fields | list[Fields]]
    published: Published = field(default_factory=dict)
    plan: Callable[[Any], str] | None = None
    check: Callable[[Any], object] | None = None
    controls: Callable[[Any, int, Path], Iterable[Fields]] | None = None
    supply: str = ""
    source: str = "paper"
    notes: Mapping[str, str] = field(default_factory=dict)

    def note(self, tier: str) -> str:
        """Return what people must know of a tier; empty if nothing."""
        theory = plain(self.tiers[tier]).get("size") == THEORY
        return "; ".join(filter(None, [self.notes.get(tier, ""), FROM_TRUTH if theory else ""]))
