"""`ident3d export PATH OUT --format published`."""

from pathlib import Path

import click

from ..published import export_published
from .options import echo_json, examples, json_option

FORMATS = {"published": export_published}


@click.command(epilog=examples("ident3d export 3dident/test released"))
@click.argument("path", type=click.Path(path_type=Path))
@click.argument("out", type=click.Path(path_type=Path))
@click.option(
    "--format", "layout", type=click.Choice(list(FORMATS)), default="published", show_default=True
)
@json_option
def export(path: Path, out: Path, layout: str, as_json: bool) -> None:
    """Write the split at PATH as PNG files and numpy arrays, in the released layout.

    Code written for 3DIdent, or Causal3DIdent where the data has classes, reads OUT. After a kill,
    the same command goes on where it stopped.
    """
    folder = FORMATS[layout](path, out)
    if as_json:
        echo_json({"path": str(folder)})
    else:
        click.echo(f"{folder}: written in the released layout.")
