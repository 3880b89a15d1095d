"""`ident3d download NAME OUT`."""

import shlex
import sys
from pathlib import Path

import click

from .. import published
from .options import echo_json, examples, json_option


@click.command(
    epilog=examples(
        "ident3d download 3dident archives",
        "ident3d download causal3dident archives --split test",
    )
)
@click.argument("name")
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--split", help="Only the archive of this split.")
@click.option("--url", help="A mirror: the folder that holds the files under their own names.")
@json_option
def download(name: str, out: Path, split: str | None, url: str | None, as_json: bool) -> None:
    """Fetch a published data set: 3dident, causal3dident, multimodal3dident or kitti-masks.

    Goes on where an earlier download stopped, tries again when the connection breaks, and checks
    the MD5. `ident3d import` then turns what came into a data set.
    """
    files = published.download(name, out, split, url)
    if as_json:
        echo_json([{"path": str(f.path), "note": f.note, "right": f.right} for f in files])
    for file in files if not as_json else []:
        click.echo(f"{file.path}: {file.note}", err=not file.right)
        if file.right:
            words = ["ident3d", "import", str(file.path), str(out / name)]
            click.echo(f"  next: {shlex.join(words)}")
    if not all(file.right for file in files):
        sys.exit(1)
