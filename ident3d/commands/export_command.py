"""`ident3d export PATH OUT --format published|parquet|webdataset`."""

from pathlib import Path

import click

from ..exchange import export_parquet, export_webdataset
from ..published import export_published
from .options import echo, examples, json_option

FORMATS = {
    "published": (export_published, "in the released layout"),
    "parquet": (export_parquet, "as Parquet files, for datasets.load_dataset and the Hub"),
    "webdataset": (export_webdataset, "as tar files, for webdataset"),
}


@click.command(
    epilog=examples(
        "ident3d export 3dident/test released",
        "ident3d export 3dident/train hub --format parquet",
        "ident3d export 3dident/train tars --format webdataset",
    )
)
@click.argument("path", type=click.Path(path_type=Path))
@click.argument("out", type=click.Path(path_type=Path))
@click.option(
    "--format", "layout", type=click.Choice(list(FORMATS)), default="published", show_default=True
)
@json_option
def export(path: Path, out: Path, layout: str, as_json: bool) -> None:
    """Write the split at PATH for other people's code.

    `published` is the released layout, PNG files and numpy arrays, which code written for 3DIdent,
    or Causal3DIdent where the data has classes, reads. `parquet` and `webdataset` hold rendered
    positives too, and `ident3d import` reads them back. After a kill, the same command goes on
    where it stopped.
    """
    write, how = FORMATS[layout]
    folder = write(path, out)
    echo({"path": str(folder)}, f"{folder}: written {how}.", as_json)
