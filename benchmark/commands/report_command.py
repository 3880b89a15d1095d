"""`ident3d benchmark report`: the leaderboard as a static site and as Markdown."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ident3d.commands.options import examples, say

if TYPE_CHECKING:  # it imports msgspec
    from ..results import Result

_path = click.Path(path_type=Path)
_folder = click.Path(path_type=Path, file_okay=False)


@click.command(epilog=examples("ident3d benchmark report results --out site"))
@click.argument("results", type=_path)
@click.option(
    "--out", type=_folder, default=Path("site"), show_default=True, help="The site's folder."
)
@click.option("--figure", type=_path, help="PNG of the data set's traversals.")
@click.option("--audit", type=_path, help="JSON of the data set's audit.")
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder to look in for traversals.png and audit.json.",
)
def report(
    results: Path, out: Path, figure: Path | None, audit: Path | None, data: Path | None
) -> None:
    """Write a page of all records and entries below RESULTS, and leaderboard.md for a README."""
    from ..experiments import select as experiments
    from ..report import write
    from ..results import load_all

    refused: list[str] = []
    found = load_all(results, refused)
    for sentence in refused:
        say(f"Left out: {sentence}", err=True)
    if not found:
        raise ValueError(f"`results` must hold at least one valid record, {results} holds none.")
    if data is not None:
        figure = figure or _existing(data / "traversals.png")
        audit = audit or _existing(data / "audit.json")
    index = write(
        found,
        out,
        experiments.published,
        experiments.title,
        figure,
        audit,
        experiments.TIERS,
        _differs,
    )
    count = f"{len(found)} record" + "s" * (len(found) > 1)
    click.echo(f"Wrote {index} ({count}) and {out / 'leaderboard.md'}.")


def _differs(result: "Result") -> list[str]:
    """Compare a record's settings with those of its row's `paper` tier."""
    from ..experiments import EXPERIMENTS
    from ..report.differences import differences
    from ..settings.composed import plain

    row = EXPERIMENTS.get(result.experiment)
    if row is None or "paper" not in row.tiers:
        return []
    return differences(result.settings or {}, plain(row.tiers["paper"]), result.data)


def _existing(path: Path) -> Path | None:
    return path if path.is_file() else None
