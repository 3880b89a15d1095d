"""What an exported folder holds: files of rows, `ident3d.json` that describes them, a card.

    OUT/README.md                     the dataset card
    OUT/ident3d.json                  written last: each split's description, files and digests
    OUT/data/train-00000.parquet ...  or .tar

A row is told by the same names in both formats.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..dataset import Dataset
from ..errors import DataError
from ..outside import read_sealed, write_sealed
from ..shards import Description, check_split_name, shard_name
from ..shards.manifest import MAX_SIDE, split_entry
from ..shards.reader import is_compressed

RECORD = "ident3d.json"
FOLDER = "data"
_FORMAT = "ident3d-exchange"
_FILE = re.compile(r"[A-Za-z0-9_-]+-\d{5,}\.(parquet|tar)")
_UNSTORABLE = re.compile(r"\\u0000|[\ud800-\udfff]")  # in JSON: NUL, and halves of characters


def files_of(split: str, ending: str) -> str:
    """Return the pattern of a split's files; `train-*` would take in those of `train-small`."""
    return f"{split}-{'[0-9]' * 5}*.{ending}"


@dataclass(frozen=True)
class Row:
    """One row of a data set, with its rendered positive where there is one; images are PNG.

    Files from outside may hold anything: what is no whole number or no bytes raises ValueError.
    """

    row: int
    latents: np.ndarray
    image: bytes
    label: int | None = None
    positive_latents: np.ndarray | None = None
    positive: bytes | None = None

    def __post_init__(self) -> None:
        for number in (self.row, 0 if self.label is None else self.label):
            if _whole(number) < 0 or number >= 1 << 63:
                raise ValueError(f"{number} is no number of a row or class")
        if not isinstance(self.image, bytes) or not isinstance(self.positive, bytes | None):
            raise ValueError("an image is not bytes")


@dataclass(frozen=True)
class Split:
    """One split of an exported folder, as `ident3d.json` tells it."""

    description: Description
    resolution: tuple[int, int, int]
    shards: tuple[int, ...]  # rows of each shard: they are made again as they were
    compressed: bool
    fingerprint: str
    files: tuple[dict[str, Any], ...]  # name, rows, sha256

    @classmethod
    def of(cls, data: Dataset, fingerprint: str, files: list[dict[str, Any]]) -> "Split":
        """Describe a split that was written to some files."""
        shards = tuple(file["rows"] for file in data.files() if file["name"].startswith("shard"))
        compressed = is_compressed(data.path / data.files()[0]["name"])
        return cls(data.description, data.resolution, shards, compressed, fingerprint, tuple(files))

    @property
    def kinds(self) -> tuple[str, ...]:
        """What each shard's rows are stored as: images, and their positives where there are any."""
        return ("shard",) if self.description.pairs is None else ("shard", "pairs")

    def shard_names(self) -> list[str]:
        """Name the shards that an import makes of it."""
        return [shard_name(n, kind) for n in range(len(self.shards)) for kind in self.kinds]

    def to_record(self) -> dict[str, Any]:
        """Give the plain JSON form."""
        return {**vars(self), "description": self.description.to_record()}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> "Split":
        """Read the plain JSON form; raises KeyError, TypeError or ValueError on a foreign one."""
        height, width, channels = map(_whole, record["resolution"])
        files: tuple[dict[str, Any], ...] = tuple(
            {"name": str(f["name"]), "rows": _whole(f["rows"]), "sha256": str(f["sha256"])}
            for f in record["files"]
        )
        split = cls(
            Description.from_record(record["description"]),
            (height, width, channels),
            tuple(map(_whole, record["shards"])),
            bool(record["compressed"]),
            str(record["fingerprint"]),
            files,
        )
        rows = sum(file["rows"] for file in files)
        names_are_plain = all(_FILE.fullmatch(file["name"]) for file in files)
        sizes_fit = 0 < height <= MAX_SIDE and 0 < width <= MAX_SIDE and channels == 3
        if not files or not names_are_plain or not sizes_fit or min(split.shards) < 1:
            raise ValueError("a name or size is not of its form")
        described = split.description
        if (
            None in described.settings.values()
            or described.sequences
            or described.class_names == ()
        ):
            raise ValueError("a setting is null, rows are of sequences, or classes have no names")
        if _UNSTORABLE.search(json.dumps(record["description"], ensure_ascii=False)):
            raise ValueError("a text holds what HDF5 cannot store")
        if sum(split.shards) != rows:
            raise ValueError(f"{rows} rows in files, {sum(split.shards)} in shards")
        return split


def imported_fingerprint(data: Dataset) -> str:
    """Give the fingerprint that a split has once it is imported: its own, but for format 1.

    Data of format 1 has one over its files, which an import makes in the present format.
    """
    if data.content:
        return data.fingerprint
    root, split = data.path.parent, data.split
    return Dataset(root, split, split_entry(root, split, data.description)).fingerprint


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise ValueError(f"{value!r:.40} is no whole number")
    return value


def read_record(root: Path) -> dict[str, Split]:
    """Read the splits of an exported folder; past this line names and sizes are trusted."""
    path = root / RECORD
    try:
        record = read_sealed(path)
        if record["format"] != _FORMAT:
            raise ValueError("it is of another format")
        for name in record["splits"]:
            check_split_name(name)
        return {name: Split.from_record(split) for name, split in record["splits"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path} is damaged or no record of an export ({error}).") from None


def write_record(root: Path, splits: dict[str, Split]) -> None:
    """Write the splits of an exported folder."""
    plain = {name: split.to_record() for name, split in splits.items()}
    write_sealed(root / RECORD, {"format": _FORMAT, "version": 1, "splits": plain})
