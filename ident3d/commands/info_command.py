"""`ident3d info PATH`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from ..dataset import Dataset, find_split, load, sample
from ..errors import DataError, printable
from ..progress import size
from ..shards import read_manifest
from .options import echo_json, examples, json_option, table


@click.command(epilog=examples("ident3d info", "ident3d info 3dident/train --json"))
@click.argument("path", type=click.Path(path_type=Path), required=False)
@json_option
def info(path: Path | None, as_json: bool) -> None:
    """Say what the data set at PATH holds (default: the sample inside the package)."""
    splits = [sample()] if path is None else all_splits(path)
    records = [_record(data) for data in splits]
    if as_json:
        echo_json(records)
        return
    for data, record in zip(splits, records, strict=True):
        for line in _lines(data, record):
            click.echo(printable(line))  # a manifest may be a stranger's


def _lines(data: Dataset, record: dict[str, Any]) -> Iterator[str]:
    yield record["path"]
    height, width = record["resolution"][:2]
    yield f"  {record['rows']:,} images, {height} x {width}, {size(record['bytes'])}"
    if record["pairs"]:
        yield f"  exact pairs: {record['pairs']}"
    if record["class_names"]:
        yield f"  classes: {', '.join(record['class_names'])}"
    if record["sequences"]:
        yield f"  frames of {record['sequences']:,} sequences"
    yield f"  seed {record['seed']}, fingerprint {record['fingerprint']}"
    yield from (f"  {name}: {value}" for name, value in record["settings"].items())
    rows = [
        [f"  {printable(f.name)}", printable(f.group), f"{f.low:.4g} .. {f.high:.4g} {f.unit}"]
        for f in data.factors
    ]
    yield from table(rows, ["  factor", "group", "scene range"]).split("\n")


def all_splits(path: Path) -> list[Dataset]:
    """Open every split of a data set's folder, or the one split that the path names."""
    try:
        root, split = find_split(path)
    except ValueError:
        return [load(path / split) for split in sorted(read_manifest(path)["splits"])]
    return [load(root / split)]


def _record(data: Dataset) -> dict[str, Any]:
    files = data.files()
    lost = [entry["name"] for entry in files if not (data.path / entry["name"]).is_file()]
    if lost:
        raise DataError(f"{data.path / lost[0]} is missing; `ident3d verify` lists what is wrong.")
    return {
        "path": str(data.path),
        "rows": len(data),
        "resolution": list(data.resolution),
        "bytes": sum(entry["bytes"] for entry in files),
        "shards": len(files),
        "pairs": data.description.pairs,
        "class_names": data.class_names,
        "sequences": None if data.sequences is None else len(set(data.sequences.tolist())),
        "seed": data.seed,
        "fingerprint": data.fingerprint,
        "settings": data.settings,
        "command": data.description.command,
        "factors": data.description.to_record()["factors"],
    }
