"""The manifest, `dataset.json`: what each split holds, how it was made, every file's digest.

It is written last and atomically: a data set without one is unfinished.
"""

import json
import re
import shutil
from collections.abc import Collection
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError
from ..factors import FACTORS, Factor
from ..files import Lock, canonical_sha256, file_digest, step
from ..outside import parse_json, read_plain, read_sealed, write_sealed
from ..outside.strict_json import MAX_BYTES
from .contents import (
    Columns,
    check_every_row,
    computed_digests,
    content_digest,
    read_shard_columns,
)
from .reader import REMAKE

FORMAT = "ident3d"
FORMAT_VERSION = 2  # 1 had no digests inside files, and fingerprints of files, not of content
MANIFEST = "dataset.json"
MAX_SIDE = 8192  # pixels of an image: what may be rendered, stored, exported and imported
_SPLIT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_FILE_NAME = re.compile(r"(shard|pairs)-\d{5,}\.h5")

Files = dict[str, list[tuple[dict[str, Any], Columns]]]  # by kind: each file's entry and columns


@dataclass(frozen=True)
class Description:
    """What a split holds and how it was made; stored in the manifest and in every shard."""

    factors: tuple[Factor, ...] = FACTORS
    seed: int | None = None  # None: the latents were given, not drawn
    settings: dict[str, Any] = field(default_factory=dict)  # renderer, hue convention, versions
    pairs: str | None = None  # the conditional of the rendered positives
    class_names: tuple[str, ...] | None = None
    command: str | None = None
    sequences: bool = False  # whether rows are frames, and a column says of which sequence

    def to_record(self) -> dict[str, Any]:
        """Give the plain JSON form; what came later is left out where it is not used."""
        record = json.loads(json.dumps(asdict(self), allow_nan=False))
        return record if self.sequences else {k: v for k, v in record.items() if k != "sequences"}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> "Description":
        """Read the plain JSON form; raises KeyError, TypeError or ValueError on a foreign one."""
        names = record["class_names"]
        found = cls(
            factors=tuple(Factor(**factor) for factor in record["factors"]),
            seed=record["seed"],
            settings=dict(record["settings"]),
            pairs=record["pairs"],
            class_names=None if names is None else tuple(names),
            command=record["command"],
            sequences=record.get("sequences", False),
        )
        _check_types(found)
        return found

    def attributes(self) -> dict[str, Any]:
        """Spell it out as HDF5 attributes, readable with no ident3d at hand.

        In one order and without the command, so that equal rows make equal files: a data set may be
        begun by one command and grown by another.
        """
        ranges = np.array([[factor.low, factor.high] for factor in self.factors])
        named = {"seed": self.seed, "pairs": self.pairs}
        return {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "factors": [factor.name for factor in self.factors],
            "factor_groups": [factor.group for factor in self.factors],
            "factor_units": [factor.unit for factor in self.factors],
            "factor_scene_ranges": ranges,
            "latents": "unit latents in [-1, 1], columns in the order of `factors`",
            **{name: value for name, value in named.items() if value is not None},
            **({"class_names": list(self.class_names)} if self.class_names else {}),
            **(
                {"sequences": "of each row; its rows are frames in order"} if self.sequences else {}
            ),
            **{f"settings.{name}": self.settings[name] for name in sorted(self.settings)},
        }


def _check_types(found: Description) -> None:
    texts = [text for f in found.factors for text in (f.name, f.group, f.unit)]
    numbers = [number for f in found.factors for number in (f.low, f.high)]
    texts += [*(found.class_names or ()), *found.settings]
    texts += [text for text in (found.pairs, found.command) if text is not None]
    if not (found.factors and all(isinstance(text, str) for text in texts)):
        raise TypeError("a name is not text")
    if not all(type(number) in (int, float) for number in numbers):
        raise TypeError("a factor's range is not of numbers")
    if not all(v is None or type(v) in (str, int, float, bool) for v in found.settings.values()):
        raise TypeError("a setting is not plain")
    if found.seed is not None:
        _whole(found.seed)
    if type(found.sequences) is not bool:
        raise TypeError("`sequences` is not true or false")


def shard_name(number: int, kind: str = "shard") -> str:
    """Name a shard: `shard-00007.h5`, or `pairs-00007.h5` for the positives of the same rows."""
    return f"{kind}-{number:05d}.h5"


def file_entry(path: Path, name: str, rows: int) -> dict[str, Any]:
    """Describe a finished file as the manifest does."""
    return {"name": name, "rows": rows, "bytes": path.stat().st_size, "sha256": file_digest(path)}


def read_manifest(root: Path) -> dict[str, Any]:
    """Read and check `dataset.json`: past this line its names, counts and types are trusted."""
    path = root / MANIFEST
    try:
        manifest = parse_json(read_plain(path, MAX_BYTES))
        foreign = manifest.get("format") != FORMAT
        version = 0 if foreign else _whole(manifest["version"])
    except (ValueError, AttributeError, KeyError, TypeError):
        foreign, version = True, 0
    if foreign:
        raise DataError(
            f"{path} is damaged or not ident3d's; `ident3d import` reads other formats."
        )
    if version > FORMAT_VERSION:
        raise DataError(
            f"{path} has format version {version}, this ident3d reads up to {FORMAT_VERSION}; "
            "`pip install --upgrade ident3d` reads it."
        )
    if manifest.pop("sha256", None) != canonical_sha256(manifest):
        raise DataError(f"{path} was changed or damaged: its own digest disagrees.")
    try:
        for split, entry in manifest["splits"].items():
            _check_split(split, entry)
        if not manifest["splits"]:
            raise ValueError("it holds no split")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{path} is not a valid manifest ({error!r}); make or download the data set again."
        ) from None
    return manifest


def _whole(value: Any) -> int:
    """Give a whole number back; `true` is an int to Python, and no size or number to numpy."""
    if type(value) is not int:
        raise TypeError(f"{value!r:.40} is no whole number")
    return value


def check_split_name(split: str) -> None:
    """A split's name is its folder's, so it must not be a path."""
    if not _SPLIT_NAME.fullmatch(split):
        raise ValueError(f"`split` must be letters, digits, - and _; got {split!r}.")


def check_free(folder: Path, names: Collection[str]) -> None:
    """Refuse to import files of these names where a render is unfinished or left its files."""
    if (folder / ".work" / "plan").exists():
        raise DataError(
            f"{folder} has an unfinished render, by its .work/plan; "
            "import to another folder or split."
        )
    check_no_others(folder, names)


def check_no_others(folder: Path, names: Collection[str]) -> None:
    """Refuse shards, whole or begun, that are not of these names: they are another run's."""
    stems = {Path(name).stem for name in names}
    patterns = ("shard-*.h5", "pairs-*.h5", ".work/*.journal")
    found = sorted(path for pattern in patterns for path in folder.glob(pattern))
    others = [str(path.relative_to(folder)) for path in found if path.stem not in stems]
    if others:
        listed = ", ".join(others[:3]) + (f" and {len(others) - 3} more" if others[3:] else "")
        raise DataError(
            f"{folder} holds files of another run: {listed}; "
            "remove them, or name another folder or split."
        )


def write_manifest(
    root: Path, split: str, description: Description, names: Collection[str] | None = None
) -> None:
    """Declare a split whole: written last, atomically. The other splits of the folder stay.

    `names` are those of its files; others are refused, as they would become rows of it.
    """
    root = Path(root)
    check_split_name(split)
    with Lock(root / ".lock", wait=True):  # other processes may be finishing other splits of it
        write_manifest_locked(root, split, description, names)


def write_manifest_locked(
    root: Path, split: str, description: Description, names: Collection[str] | None = None
) -> None:
    """Declare a split whole while holding the lock of its data set."""
    folder = root / split
    if names is not None:
        check_no_others(folder, names)
    splits = _splits(root)
    entry, files = _describe(folder, splits.get(split), description)
    # A data set of format 1 keeps its fingerprint as long as its files are the same.
    if entry != splits.get(split):
        splits[split] = {**entry, "content": _content(folder, files)}
        manifest = {"format": FORMAT, "version": FORMAT_VERSION, "splits": splits}
        write_sealed(root / MANIFEST, manifest)
    step("remove", folder / ".work")
    shutil.rmtree(folder / ".work", ignore_errors=True)


def split_entry(root: Path, split: str, description: Description) -> dict[str, Any]:
    """Give the entry that a manifest would have for the shards of a folder; writes nothing."""
    entry, files = _describe(root / split, _splits(root).get(split), description)
    return {**entry, "content": _content(root / split, files)}


def _splits(root: Path) -> dict[str, Any]:
    return read_manifest(root)["splits"] if (root / MANIFEST).exists() else {}


def _describe(
    folder: Path, declared: dict[str, Any] | None, description: Description
) -> tuple[dict[str, Any], Files]:
    """Give the entry of a split but for its content, and the files that content is made of."""
    known = {entry["name"]: entry for entry in _known_entries(folder, declared)}
    files = {
        kind: [_adopt(path, known) for path in sorted(folder.glob(pattern))]
        for kind, pattern in (("shards", "shard-*.h5"), ("pair_shards", "pairs-*.h5"))
    }
    if not files["shards"]:
        raise DataError(f"{folder} holds no finished shard.")
    entry = {
        "description": description.to_record(),
        "resolution": list(files["shards"][0][1].shape[1:]),
        **{kind: [found for found, _ in adopted] for kind, adopted in files.items()},
    }
    return entry, files


def _content(folder: Path, files: Files) -> dict[str, str]:
    return {
        kind: content_digest(_digests(folder, *adopted) for adopted in files[kind])
        for kind in files
    }


def _adopt(path: Path, known: dict[str, dict[str, Any]]) -> tuple[dict[str, Any], Columns]:
    """Give a finished file's entry and columns.

    A file whose digest its writer noted is what that digest says, or `verify` will tell. One that
    nobody knows, such as after the manifest was lost, is read row by row first.
    """
    columns, entry = read_shard_columns(path), known.get(path.name)
    sizes = (path.stat().st_size, len(columns.rows))
    if entry is None or (entry["bytes"], entry["rows"]) != sizes:
        check_every_row(path, columns)
        entry = file_entry(path, path.name, len(columns.rows))
    return entry, columns


def _digests(folder: Path, entry: dict[str, Any], columns: Columns) -> np.ndarray:
    """Give the digests of a file's rows; one of format 1 is checked and read for them."""
    if columns.digests is not None:
        return columns.digests
    path = folder / entry["name"]
    if file_digest(path) != entry["sha256"]:
        raise DataError(f"{path} is damaged: its SHA-256 disagrees; {REMAKE}.")
    return computed_digests(path, columns)


def _known_entries(folder: Path, entry: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Entries already hashed: by the manifest there is, or by the writers since."""
    noted = map(_noted_entry, sorted(folder.glob(".work/*.json")))
    known = entry["shards"] + entry["pair_shards"] if entry else []
    return [*known, *(found for found in noted if found)]


def _noted_entry(path: Path) -> dict[str, Any] | None:
    """Read the entry that a writer noted; None if it is damaged: then the shard itself is read."""
    with suppress(ValueError, KeyError):
        return read_sealed(path)["entry"]
    shard = path.parent.parent / f"{path.stem}.h5"
    with suppress(ValueError, KeyError, TypeError, FileNotFoundError):
        record = parse_json(
            read_plain(path, MAX_BYTES)
        )  # a note of format 1 has no digest of itself
        if record["sha256"] == file_digest(shard):
            return file_entry(shard, shard.name, int(record["rows"]))
    return None


def _check_split(split: str, entry: dict[str, Any]) -> None:
    """Raise on anything that is not of the manifest's form, names that are paths included."""
    if not _SPLIT_NAME.fullmatch(split):
        raise ValueError(f"split name {split[:80]!r}")
    Description.from_record(entry["description"])
    height, width, channels = entry["resolution"]
    if not all(0 < _whole(size) <= MAX_SIDE for size in (height, width)):
        raise ValueError(f"resolution {height} x {width}")
    if _whole(channels) != 3:
        raise ValueError(f"{channels} channels")
    for kind in ("shards", "pair_shards"):
        for shard in entry[kind]:
            if not _FILE_NAME.fullmatch(shard["name"]):
                raise ValueError(f"file name {shard['name'][:80]!r}")
            if not re.fullmatch(r"[0-9a-f]{64}", shard["sha256"]):
                raise ValueError(f"digest of {shard['name']}")
            # A row takes 8 bytes for its number alone; no file has a petabyte.
            if not 1 <= _whole(shard["rows"]) <= _whole(shard["bytes"]) // 8 <= 1 << 47:
                raise ValueError(f"rows of {shard['name']}")
    if not entry["shards"]:
        raise ValueError("no shards")
    # The positives of a shard's rows are in the file of its number, and found by their place.
    rows, pairs = (
        [(shard["name"].partition("-")[2], shard["rows"]) for shard in entry[kind]]
        for kind in ("shards", "pair_shards")
    )
    if pairs and pairs != rows:
        raise ValueError("pairs are of other rows than shards")
    for digest in entry.get("content", {}).values():  # format 1 has none
        if not re.fullmatch(r"[0-9a-f]{64}", digest):
            raise ValueError("digest of the content")
