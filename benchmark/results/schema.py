"""What records and entries may hold: limits on everything, errors in a sentence.

msgspec checks a value against a type. What it does not know is done here: it takes any character
in a text, and lists and numbers of any size.
"""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np
from msgspec import Meta

from ident3d import outside

MAX_BYTES = 8_000_000  # of one JSON file
MAX_NAME = 120  # characters of a method, an experiment, a key
MAX_TEXT = 4_000  # characters of a command or a setting
MAX_LIST = 20_000  # points of a curve
MAX_KEYS = 400  # settings, scores
MAX_DEPTH = 5  # nested settings

Name = Annotated[str, Meta(max_length=MAX_NAME, pattern=r"\S")]
T = TypeVar("T")


def read_json(path: Path) -> Any:
    """Read the JSON file of a record: of limited size, and no link."""
    return outside.read_json(path, MAX_BYTES, follow=False)


def stated(found: Any, shape: type[T], versions: Sequence[int] = (1,)) -> T:
    """Turn parsed JSON into a tagged struct of a known version; raises `ValueError`."""
    kind = shape.__struct_config__.tag  # type: ignore[attr-defined]  # every Struct has it
    if not isinstance(found, dict) or found.get("kind") != kind:
        raise ValueError(f'is no {kind}: `"kind": "{kind}"` is missing.')
    version = found.get("version")
    if type(version) is not int or version not in versions:
        known = " or ".join(map(str, versions))
        raise ValueError(f"`version` must be {known}, got {version!r:.40}; update ident3d.")
    return shaped(found, shape)


def shaped(value: Any, shape: type[T], what: str = "") -> T:
    """Check plain JSON against a type; raises a `ValueError` that names the field."""
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        raise ValueError(_sentence(str(error), what)) from None


def plain(value: Any, what: str, depth: int = MAX_DEPTH) -> Any:
    """Copy `value` as plain JSON (numpy becomes lists and numbers), or say what is wrong."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return _number(value, what)
    if isinstance(value, str):
        return _text(value, what)
    if depth == 0:
        raise ValueError(f"`{what}` must not be nested more than {MAX_DEPTH} deep.")
    if isinstance(value, Mapping):
        _limit(len(value), MAX_KEYS, what, "keys")
        return {
            _text(k, f"{what} key", MAX_NAME): plain(v, f"{what}.{k}"[:MAX_NAME], depth - 1)
            for k, v in value.items()
        }
    if isinstance(value, list | tuple):
        _limit(len(value), MAX_LIST, what, "items")
        return [plain(item, what, depth - 1) for item in value]
    raise ValueError(f"`{what}` must be plain JSON, got {type(value).__name__}.")


def _number(value: int | float, what: str) -> int | float:
    if isinstance(value, int) and abs(value) >= 2**63:
        raise ValueError(f"`{what}` must fit in 64 bits.")
    if not math.isfinite(value):
        raise ValueError(f"`{what}` must be finite, got {value}; write None if not computed.")
    return value


def _text(value: Any, what: str, limit: int = MAX_TEXT) -> str:
    """Check one string: short and printable, so no control or direction-changing characters."""
    if not isinstance(value, str):
        raise ValueError(f"`{what}` must be text, got {type(value).__name__}.")
    _limit(len(value), limit, what, "characters")
    if not value.isprintable():
        raise ValueError(f"`{what}` must be printable text on one line, got {value[:40]!r}.")
    return value


def _limit(length: int, limit: int, what: str, unit: str) -> None:
    if length > limit:
        raise ValueError(f"`{what}` must have at most {limit} {unit}, got {length}.")


_WORDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "array": "a list",
    "object": "a table of names",
    "bool": "true or false",
}


def _sentence(message: str, what: str) -> str:
    """Put what msgspec found wrong into words that name the field."""
    message, _, place = message[:400].partition(" - at ")
    path = ".".join(filter(None, (what, place.replace("`key` in ", "").strip("`$."))))
    if message.startswith("Expected "):
        message = re.sub(
            "`([a-z |]+)`",
            lambda m: " or ".join(_WORDS.get(word, word) for word in m[1].split(" | ")),
            message.replace("Expected ", "must be ", 1),
        )
        return f"`{path}` {message}."
    return f"`{path}`: {message}" if path else f"{message}."
