"""JSON files that carry their own digest, so that a flipped bit is told from a setting."""

from pathlib import Path
from typing import Any

from ..files import canonical_sha256, write_json
from ..outside import parse_json, read_plain
from ..outside.strict_json import MAX_BYTES


def write_sealed(path: Path, record: dict[str, Any]) -> None:
    """Write a record atomically, with its digest under `sha256`."""
    write_json(path, {**record, "sha256": canonical_sha256(record)})


def read_sealed(path: Path, always: bool = True) -> dict[str, Any]:
    """Read a record back; raises ValueError if it is not as it was written.

    Args:
        path: The file.
        always: Whether files of this kind had a digest in format 1 already.
    """
    record = parse_json(read_plain(path, MAX_BYTES))
    if not isinstance(record, dict):
        raise ValueError("it is no record")
    stated = record.pop("sha256", None)
    if stated != canonical_sha256(record) and (always or stated is not None):
        raise ValueError("its own digest disagrees")
    return record
