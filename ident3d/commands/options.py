"""What several commands share: the `--json` option and plain text tables."""

import json
from collections.abc import Sequence
from typing import Any

import click

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def echo_json(record: Any) -> None:
    """Print a record as JSON; NaN has no place in it."""
    click.echo(json.dumps(record, indent=2, allow_nan=False))


def table(rows: Sequence[Sequence[str]], header: Sequence[str]) -> str:
    """Lay rows out under a header: words left-aligned, columns of numbers right-aligned."""
    body = [list(map(str, row)) for row in rows]
    columns = []
    for title, *cells in zip(header, *body, strict=True):
        width = max(map(len, (title, *cells)))
        numbers = cells and all(not cell or cell[0] in "+-—.0123456789" for cell in cells)
        align = str.rjust if numbers else str.ljust
        columns.append([align(cell, width) for cell in (title, *cells)])
    return "\n".join("  ".join(line).rstrip() for line in zip(*columns, strict=True))
