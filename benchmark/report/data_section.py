"""The data set's part of the page: its traversal figure and its audit."""

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from ident3d.errors import DataError
from ident3d.published.png import check_chunks

from ..results.schema import plain, read_json

MAX_FIGURE = 30_000_000  # bytes
MAX_LINES = 200  # of an audit


@dataclass(frozen=True)
class Figure:
    """A PNG to be copied beside the page, under a name of ours."""

    content: bytes
    width: int
    height: int
    name: str = "traversals.png"


def read_figure(path: Path) -> Figure:
    """Read a PNG and check that it is one."""
    if not path.is_file():
        raise ValueError(f"`figure` must be a PNG file, got {str(path)!r}.")
    if path.stat().st_size > MAX_FIGURE:
        raise ValueError(f"`figure` must have at most {MAX_FIGURE} bytes; draw fewer images.")
    content = path.read_bytes()
    try:
        with Image.open(io.BytesIO(content), formats=["PNG"]) as image:
            width, height = image.size
        check_chunks(content)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(f"{path} is no whole PNG: {error}.") from error
    return Figure(content, width, height)


@dataclass(frozen=True)
class Grid:
    """A table to show: `header` is empty for plain lines of name and value."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def audit_tables(path: Path) -> list[Grid]:
    """Read an audit's JSON: its facts as one table, each list of alike records as one more."""
    try:
        record = plain(read_json(path), "audit")
    except ValueError as error:
        raise DataError(f"{path}: {error}") from error
    if not isinstance(record, dict):
        raise DataError(f"{path} must hold an audit, a table of names, got a list or a value.")
    grids = {name: _grid(name, value) for name, value in record.items()}
    facts = {name: value for name, value in record.items() if grids[name] is None}
    caption = "Audit: the conditional requested and the one served"
    lines = tuple((_words(name), text) for name, text in flat(facts, separator=" "))
    first = Grid(caption, (), lines[:MAX_LINES])
    return [first, *(grid for grid in grids.values() if grid)]


def _grid(name: str, value: Any) -> Grid | None:
    """Lay out a list, or a table, of records with the same plain fields."""
    if isinstance(value, dict) and all(isinstance(v, dict) for v in value.values()):
        value = [{"": key} | record for key, record in value.items()]
    if not isinstance(value, list) or not value or not all(isinstance(v, dict) for v in value):
        return None
    header = tuple(value[0])
    nested = any(isinstance(cell, dict | list) for record in value for cell in record.values())
    if nested or any(tuple(record) != header for record in value):
        return None
    rows = tuple(tuple(_word(cell) for cell in record.values()) for record in value[:MAX_LINES])
    return Grid(_words(name), tuple(map(_words, header)), rows)


def flat(value: Any, name: str = "", separator: str = ".") -> list[tuple[str, str]]:
    """Turn nested settings or facts into lines of name and text."""
    parts = list(value) if isinstance(value, dict | list) else [value]
    nested = isinstance(value, list) and any(isinstance(part, dict | list) for part in parts)
    if isinstance(value, dict) or nested:
        items = value.items() if isinstance(value, dict) else enumerate(value, start=1)
        named = ((f"{name}{separator}{key}" if name else str(key), part) for key, part in items)
        return [line for key, part in named for line in flat(part, key, separator)]
    return [(name, ", ".join(_word(part) for part in parts[:50]))]


def _words(name: str) -> str:
    return name.replace("_", " ")


def _word(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "—"}[value]
    return f"{value:.6g}" if isinstance(value, float) else str(value)
