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
    """Lay rows out under a header: first column left-aligned, the others right-aligned."""
    lines = [list(header), *(list(map(str, row)) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
