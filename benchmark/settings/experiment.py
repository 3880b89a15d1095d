"""What an experiment is: settings for each tier, published numbers, and the code that runs it."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from ident3d.errors import choose

from ..training.loop import Training

Run = Callable[[Any, int, Path | None, str], dict[str, Any] | list[dict[str, Any]]]


@dataclass(frozen=True)
class Experiment:
    """One row of a table, or one point of a figure.

    Args:
        id: Such as `table1/3`; what stands before the first slash is its family.
        title: The row in words.
        method: Its name on the leaderboard.
        tiers: Settings of each tier.
        published: Score -> (mean, std), fractions of 1; std None where the paper gives none.
        runner: `module:function(settings, seed, checkpoint, label)`, imported when it is run,
            which returns the fields of a record, or of several: the last one says "done".
        planner: `module:function(settings)`, which tells in words what a run would cost.
    """

    id: str
    title: str
    method: str
    tiers: Mapping[str, Training]
    published: Mapping[str, tuple[float, float | None]] = field(default_factory=dict)
    runner: str = "ident3d.benchmark.training.synthetic_run:run"
    planner: str | None = None

    def settings(self, tier: str, changes: Mapping[str, str] | None = None) -> Training:
        """Return the settings of a tier, with `changes` given as text."""
        settings = choose(self.tiers, tier, "tier")
        return replace(settings, **{k: _read(settings, k, v) for k, v in (changes or {}).items()})

    @property
    def run(self) -> Run:
        """The function that runs it."""
        return _imported(self.runner)

    def plan(self, settings: Training) -> str:
        """Tell what a run would cost; empty if nothing says."""
        return _imported(self.planner)(settings) if self.planner else ""


def _imported(place: str) -> Any:
    module, name = place.split(":")
    return getattr(importlib.import_module(module), name)


def plain(settings: Training) -> dict[str, Any]:
    """Return settings as a record keeps them: plain JSON values."""
    return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(settings).items()}


def _read(settings: Training, name: str, text: str) -> Any:
    """Read one setting from text, as the kind of value that its field holds."""
    kinds = {
        f.name: f.type.__name__ if isinstance(f.type, type) else str(f.type)
        for f in fields(settings)
    }
    kind = choose(kinds, name, "setting")
    if text == "none" and "None" in kind:
        return None
    readers: dict[str, Callable[[str], Any]] = {
        "int": int,
        "float": float,
        "bool": lambda word: {"true": True, "false": False}[word],
        "str": str,
        "tuple[int, ...]": lambda words: tuple(map(int, words.split(","))),
        "tuple[str, ...]": lambda words: tuple(words.split(";")),
    }
    try:
        return readers[kind.removesuffix(" | None")](text)
    except (ValueError, KeyError):
        raise ValueError(f"`{name}` must be of type {kind}, got {text!r}.") from None
