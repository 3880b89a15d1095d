"""Checks for JSON that comes from strangers: strict parsing, and limits on everything.

Past these functions a value holds plain dicts, lists, strings, finite numbers, booleans and None.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ident3d.errors import DataError

MAX_BYTES = 8_000_000  # of one JSON file
MAX_NAME = 120  # characters of a method, an experiment, a key
MAX_TEXT = 4_000  # characters of a command or a setting
MAX_LIST = 20_000  # points of a curve
MAX_KEYS = 400  # settings, scores
MAX_DEPTH = 5  # nested settings


def read_json(path: Path) -> Any:
    """Parse a JSON file of limited size; no NaN, no infinity, no key twice, no link."""
    try:
        if not path.exists() and not path.is_symlink():
            raise DataError(f"{path} does not exist; name a JSON file that does.")
        if path.is_symlink() or not path.is_file():
            raise DataError(f"{path} must be a plain file, not a link or a folder.")
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise DataError(f"{path} has {size} bytes; a record holds at most {MAX_BYTES}.")
        return parse_json(path.read_text("utf-8"))
    except ValueError as error:  # also bad UTF-8
        raise DataError(f"{path} is no valid JSON: {error}.") from error


def parse_json(source: str) -> Any:
    """Parse JSON text as strictly as `read_json`; raises `ValueError`."""
    try:
        return json.loads(source, parse_constant=_no_constant, object_pairs_hook=_unique)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def plain(value: Any, what: str, depth: int = MAX_DEPTH) -> Any:
    """Copy `value` as plain JSON (numpy becomes lists and numbers), or say what is wrong."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return number(value, what)
    if isinstance(value, str):
        return text(value, what)
    if depth == 0:
        raise ValueError(f"`{what}` must not be nested more than {MAX_DEPTH} deep.")
    if isinstance(value, Mapping):
        _limit(len(value), MAX_KEYS, what, "keys")
        return {
            text(k, f"{what} key", MAX_NAME): plain(v, f"{what}.{k}"[:MAX_NAME], depth - 1)
            for k, v in value.items()
        }
    if isinstance(value, list | tuple):
        _limit(len(value), MAX_LIST, what, "items")
        return [plain(item, what, depth - 1) for item in value]
    raise ValueError(f"`{what}` must be plain JSON, got {type(value).__name__}.")


def number(value: Any, what: str) -> int | float:
    """Check one finite number; what was not computed is None, never NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"`{what}` must be a number, got {type(value).__name__}.")
    if isinstance(value, int) and abs(value) >= 2**63:
        raise ValueError(f"`{what}` must fit in 64 bits.")
    if not math.isfinite(value):
        raise ValueError(f"`{what}` must be finite, got {value}; write None if not computed.")
    return value


def text(value: Any, what: str, limit: int = MAX_TEXT) -> str:
    """Check one string: short and printable, so no control or direction-changing characters."""
    if not isinstance(value, str):
        raise ValueError(f"`{what}` must be text, got {type(value).__name__}.")
    if len(value) > limit:
        raise ValueError(f"`{what}` must have at most {limit} characters, got {len(value)}.")
    if not value.isprintable():
        raise ValueError(f"`{what}` must be printable text on one line, got {value[:40]!r}.")
    return value


def numbers(value: Any, what: str, limit: int = MAX_LIST) -> list[int | float | None]:
    """Check a list of finite numbers or None."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, list | tuple):
        raise ValueError(f"`{what}` must be a list of numbers, got {type(value).__name__}.")
    _limit(len(value), limit, what, "items")
    values = (v.item() if isinstance(v, np.generic) else v for v in value)
    return [None if v is None else number(v, what) for v in values]


def matrix(value: Any, what: str, rows: int, columns: int) -> list[list[int | float | None]]:
    """Check a list of equally long rows of numbers, at most `rows` by `columns`."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, list | tuple):
        raise ValueError(f"`{what}` must be a list of rows, got {type(value).__name__}.")
    _limit(len(value), rows, what, "rows")
    checked = [numbers(row, what, columns) for row in value]
    if len({len(row) for row in checked}) > 1:
        raise ValueError(f"`{what}` must have rows of one length.")
    return checked


def _limit(length: int, limit: int, what: str, unit: str) -> None:
    if length > limit:
        raise ValueError(f"`{what}` must have at most {limit} {unit}, got {length}.")


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice[:MAX_NAME]!r} stands twice")
    return found
