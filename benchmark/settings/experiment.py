"""What an experiment is: settings for each tier, published numbers, and the code that runs it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .composed import Composed, plain
from .run_settings import THEORY, ImageSettings
from .tiers import TIERS

FROM_TRUTH = "starts at the size computed from the true conditional"
Fields = dict[str, Any]  # of a record
Published = Mapping[str, tuple[float, float | None]]  # score -> (mean, std), fractions of 1


@dataclass(frozen=True)
class Experiment:
    """One row of a table, or one point of a figure."""

    id: str  # such as `table1/3`; what stands before the first slash is its family
    title: str  # the row in words
    method: str  # its name on the leaderboard
    tiers: Mapping[str, Composed]  # settings of each tier, a key of `tiers.TIERS`, smallest first
    # Of settings, seed, checkpoint and label; gives the fields of a record, or of several: the last
    # one says "done".
    run: Callable[[Any, int, Path | None, str], Fields | list[Fields]]
    published: Published = field(default_factory=dict)  # std None where the paper gives none
    # Of settings and the tier's name; tells in words what a run would cost.
    plan: Callable[[Any, str], str] | None = None
    check: Callable[[Any], object] | None = None  # raises if the data that a run needs is not there
    # Of settings, seed and a folder for files; gives the fields of the records of its controls.
    # None: those of `control_run`.
    controls: Callable[[Any, int, Path], Iterable[Fields]] | None = None
    supply: str = ""  # how to get the data of its smaller tiers, where no render makes it
    source: str = "paper"  # of the published scores, for people
    # What people must know of a tier: which of paper and released code it follows where they
    # differ, and what it takes from the truth. `note` adds what settings show.
    notes: Mapping[str, str] = field(default_factory=dict)

    def note(self, tier: str) -> str:
        """Return what people must know of a tier; empty if nothing."""
        theory = plain(self.tiers[tier]).get("size") == THEORY
        return "; ".join(filter(None, [self.notes.get(tier, ""), FROM_TRUTH if theory else ""]))

    def lacks(self, tier: str, settings: Composed, reason: str) -> str:
        """Say that a tier's data is not there, and how to make it."""
        size, missing = TIERS[tier].images, f"{self.id} has no data for its tier {tier}"
        if self.supply and tier != "paper":
            return f"{missing} ({reason.rstrip('.')}); {self.supply}"
        if self.supply or not isinstance(settings, ImageSettings) or size is None:
            return f"{missing}: {reason}"
        # The published data has no rendered positives; in the other tiers they are images, too.
        pairs = [
            f" --pairs {words}" if size.changes else "" for words in settings.data.conditionals
        ]
        parts = dict.fromkeys(zip(settings.data.splits, pairs, strict=False))
        splits = [f"{split} --size {size.rows[0]}{words}" for split, words in parts]
        splits.append(f"{settings.data.test} --size {size.rows[1]}")
        look = " ".join(filter(None, [size.look, f"--resolution {size.resolution}"]))
        commands = " and ".join(f"`ident3d render DATA --split {s} {look}`" for s in splits)
        return (
            f"{missing} ({reason.rstrip('.')}); make it by {commands} and add --data DATA, or name "
            "another --tier."
        )
