"""`ident3d verify PATH`."""

import sys
from pathlib import Path
from typing import Any

import click

from ..dataset import sample
from ..progress import progress
from ..shards.verify import problems
from .info_command import all_splits
from .options import echo_json, examples, json_option, say


@click.command(epilog=examples("ident3d verify 3dident"))
@click.argument("path", type=click.Path(path_type=Path), required=False)
@json_option
def verify(path: Path | None, as_json: bool) -> None:
    """Check every byte of the data set at PATH (default: the sample inside the package).

    Exits with 1, naming each file that is missing, truncated, changed or not of this data set.
    """
    records: list[dict[str, Any]] = []
    for data in [sample()] if path is None else all_splits(path):
        total = sum(entry["bytes"] for entry in data.files())
        with progress(total, f"verify {data.split}", "byte") as bar:
            found = list(problems(data, bar.update))
        records.append({"path": str(data.path), "rows": len(data), "problems": found})
    if as_json:
        echo_json(records)
    for record in records:
        for problem in record["problems"]:
            say(f"{record['path']}: {problem}", err=True)
        if not record["problems"] and not as_json:
            click.echo(f"{record['path']}: whole, {record['rows']:,} rows.")
    if any(record["problems"] for record in records):
        sys.exit(1)
