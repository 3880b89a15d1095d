"""`ident3d benchmark report`: the leaderboard as a static site and as Markdown."""

from pathlib import Path

import click

from ident3d.commands.options import examples

_path = click.Path(path_type=Path)


@click.command(epilog=examples("ident3d benchmark report results --out site"))
@click.argument("results", type=_path)
@click.option(
    "--out", type=_path, default=Path("site"), show_default=True, help="The site's folder."
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
        click.echo(f"Left out: {sentence}", err=True)
    if not found:
        raise ValueError(f"`results` must hold at least one valid record, {results} holds none.")
    if data is not None:
        figure = figure or _existing(data / "traversals.png")
        audit = audit or _existing(data / "audit.json")
    index = write(
        found, out, experiments.published, experiments.title, figure, audit, experiments.TIERS
    )
    count = f"{len(found)} record" + "s" * (len(found) > 1)
    click.echo(f"Wrote {index} ({count}) and {out / 'leaderboard.md'}.")


def _existing(path: Path) -> Path | None:
    return path if path.is_file() else None
