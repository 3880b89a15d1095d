"""JSON files that carry their own digest, so that a flipped bit is told from a setting."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..files import canonical_sha256, read_plain, write_json
from .strict_json import MAX_BYTES, parse_json


def write_sealed(path: Path, record: dict[str, Any], key: str = "sha256") -> None:
    """Write a record atomically, with its digest under `key`."""
    write_json(path, {**record, key: canonical_sha256(record)})


def read_sealed(
    path: Path, key: str = "sha256", older: Callable[[dict[str, Any]], bool] = lambda record: False
) -> dict[str, Any]:
    """Read a record back; raises ValueError if it is not as it was written.

    `older` tells a record of a version that had no digest yet; without that question a bit flipped
    in the key itself would pass for one.
    """
    record = parse_json(read_plain(path, MAX_BYTES))
    if not isinstance(record, dict):
        raise ValueError("it is no record")
    stated = record.pop(key, None)
    if stated != canonical_sha256(record) and (stated is not None or not older(record)):
        raise ValueError("its own digest disagrees")
    return record


def is_version_1(record: dict[str, Any]) -> bool:
    """Tell whether a record says that it is of version 1, which had no digest."""
    return record.get("version") == 1
