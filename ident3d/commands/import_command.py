"""`ident3d import SRC OUT`."""

from pathlib import Path

import click

from ..dataset import load
from ..exchange import import_exchanged, is_exchanged
from ..published import import_published
from .options import echo, examples, json_option


@click.command(
    "import",
    epilog=examples(
        "ident3d import archives/3dident_train.tar 3dident",
        "ident3d import archives/trainset.tar.gz causal3dident --compress",
        "ident3d import hub 3dident",
    ),
)
@click.argument("source", metavar="SRC", type=click.Path(path_type=Path))
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--split", help="Import this split only; or its name, where SRC does not tell.")
@click.option("--compress", is_flag=True, help="Store one zstd chunk per image.")
@json_option
def import_(source: Path, out: Path, split: str | None, compress: bool, as_json: bool) -> None:
    """Convert a published data set: SRC is its folder, .tar, .tar.gz or .pickle, as downloaded.

    3DIdent, Causal3DIdent, Multimodal3DIdent and KITTI Masks are told by their files. SRC may be a
    folder that `ident3d export` wrote as Parquet files or for webdataset. Several archives go into
    one OUT. After a kill, the same command goes on where it stopped.
    """
    if is_exchanged(source):
        if compress:
            raise ValueError("`--compress` is for published data; an export tells its own layout.")
        found = dict.fromkeys(import_exchanged(source, out, split), "exported")
    else:
        splits = import_published(source, out, split, compress)
        found = {split.split: split.title for split in splits}
    records, lines = [], []
    for name, title in found.items():
        data = load(out / name)
        height, width, _ = data.resolution
        lines.append(f"{data.path}: {title}, {len(data):,} images, {height} x {width}.")
        records.append(
            {
                "path": str(data.path),
                "published": title,
                "rows": len(data),
                "resolution": list(data.resolution),
                "fingerprint": data.fingerprint,
            }
        )
    echo(records, "\n".join(lines), as_json)
