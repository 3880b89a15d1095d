"""What `run` and `controls` both take: rows of the benchmark, their size and data, seeds, OUT."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ident3d.commands.options import option
from ident3d.progress import duration

if TYPE_CHECKING:  # all of them take seconds to import
    from ..results import Result
    from ..settings.composed import Composed
    from ..settings.experiment import Experiment

_path = click.Path(path_type=Path)
_folder = click.Path(path_type=Path, file_okay=False)
ids_argument = click.argument("ids", nargs=-1, required=True, metavar="ID...")


@dataclass(frozen=True)
class RowOptions:
    """How the rows named are to be run, and where their records go."""

    tier: str | None = option(
        None,
        "Size of the run: paper, cpu or small (the same), or medium, tiny or demo (images alone); "
        "default: the smallest whose data is there.",
    )
    data: Path | None = option(None, "Data set of an image experiment.", type=_path)
    seeds: int = option(1, "Seeds 0, 1, …", type=click.IntRange(1, 9999))
    out: Path = option(Path("results"), "Folder of the records.", type=_folder)
    changes: tuple[str, ...] = option(
        (), "Change a setting.", flags=("--set",), type=str, multiple=True, metavar="NAME=VALUE"
    )

    def pick(self, ids: tuple[str, ...]) -> "list[tuple[Experiment, tuple[str, Composed] | None]]":
        """Return the rows named, each with its tier and settings; None if it lacks the tier."""
        from ..experiments import select as experiments

        changed = dict(map(_change, self.changes))
        chosen = experiments.select(ids)
        if self.data is not None:
            changed["data"] = str(self.data)
            if not all(one.check for one in chosen):
                raise ValueError(
                    "`--data` is for image experiments, such as table4; leave it out here."
                )
        return [(one, experiments.pick_tier(one, self.tier, changed)) for one in chosen]


def show_scores(result: "Result") -> str:
    """Write what the leaderboard shows of a record, or else all its numbers, and its time."""
    from ..scoring.scores import SHOWN

    found = {name: value for name, value in result.scores.items() if isinstance(value, float)}
    shown = {name: found[name] for name in SHOWN if name in found} or found
    scores = ", ".join(f"{name} {value:.4f}" for name, value in shown.items())
    return f"{scores} ({duration(round(result.seconds or 0, 1))})"


def _change(text: str) -> tuple[str, str]:
    """Read NAME=VALUE."""
    name, separator, value = text.partition("=")
    if not separator:
        raise ValueError(f"`--set` is written NAME=VALUE, got {text!r}.")
    return name.strip(), value.strip()
