"""Reading a data set: the manifest, and one split of it as images, latents and pairs.

data = ident3d.load("3dident/train")
data.images[[5, 3, 900]]    # uint8 (3, H, W, 3), in the order asked for
data.latents                # float32 (n, d), unit latents
"""

import hashlib
import importlib.resources
import json
import os
import re
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from .errors import DataError
from .factors import Factor
from .shards import (
    FORMAT,
    FORMAT_VERSION,
    Description,
    file_entry,
    locked_folder,
    write_json,
)
from .shards.reader import Images, image_shape, read_columns

MANIFEST = "dataset.json"
_SPLIT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_FILE_NAME = re.compile(r"(shard|pairs)-\d{5,}\.h5")
_MANIFEST_LIMIT = 64 << 20  # bytes; a manifest of a million shards is smaller


@dataclass(frozen=True)
class PairedRows:
    """The rendered positives of a split: row i belongs to anchor row i."""

    images: Images
    latents: np.ndarray
    conditional: str


class Dataset:
    """One split of a data set. Opens files lazily in each process; safe to pickle and to fork."""

    def __init__(self, root: Path, split: str, entry: dict[str, Any]) -> None:
        self.path = Path(root) / split
        self.split = split
        self._entry = entry
        self._description = Description.from_record(entry["description"])

    @cached_property
    def images(self) -> Images:
        """All images, array-like: `images[rows]` gathers across shards in the order asked."""
        return Images(self.path, self._entry["shards"], self.resolution)

    @cached_property
    def latents(self) -> np.ndarray:
        """Unit latents in [-1, 1], float32 (n, d), columns in the order of `factors`."""
        return self._column("latents")

    @cached_property
    def rows(self) -> np.ndarray:
        """Row numbers, int64 (n,): with the seed and the split, the address of each scene."""
        return self._column("rows")

    @cached_property
    def classes(self) -> np.ndarray | None:
        """Class of every row, int64 (n,), numbering `class_names`; None where there are none."""
        return self._column("classes") if self.class_names else None

    @cached_property
    def pairs(self) -> PairedRows | None:
        """The rendered positives, or None where none were rendered."""
        if not self._entry["pair_shards"]:
            return None
        return PairedRows(
            images=Images(self.path, self._entry["pair_shards"], self.resolution),
            latents=read_columns(self.path, self._entry["pair_shards"], "latents"),
            conditional=str(self._description.pairs),
        )

    @property
    def factors(self) -> tuple[Factor, ...]:
        """The factors, in the order of the latents' columns."""
        return self._description.factors

    @property
    def resolution(self) -> tuple[int, int, int]:
        """Height, width and channels of an image."""
        return tuple(self._entry["resolution"])

    @property
    def settings(self) -> dict[str, Any]:
        """How the images were made: renderer settings, hue convention, versions."""
        return dict(self._description.settings)

    @property
    def seed(self) -> int | None:
        """The seed of the latents; None where the latents were given."""
        return self._description.seed

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """Names of the classes, or None."""
        return self._description.class_names

    @property
    def description(self) -> Description:
        """Everything the manifest says of how the split was made."""
        return self._description

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the description and every file's digest: equal data, equal fingerprint."""
        return canonical_sha256({"split": self.split, **self._entry})

    def files(self) -> list[dict[str, Any]]:
        """Manifest entries of all files: name, rows, bytes, sha256."""
        return [*self._entry["shards"], *self._entry["pair_shards"]]

    def _column(self, name: str) -> np.ndarray:
        return read_columns(self.path, self._entry["shards"], name)

    def __len__(self) -> int:
        return sum(shard["rows"] for shard in self._entry["shards"])

    def __repr__(self) -> str:
        height, width, _ = self.resolution
        pairs = f", pairs {self._description.pairs}" if self._entry["pair_shards"] else ""
        return (
            f"Dataset({str(self.path)!r}: {len(self):,} images {height} x {width}, "
            f"{len(self.factors)} factors{pairs})"
        )


def load(path: str | os.PathLike) -> Dataset:
    """Open one split: `load("3dident/train")`, or `load("3dident")` where there is only one."""
    root, split = find_split(Path(path))
    manifest = read_manifest(root)
    return Dataset(root, split, manifest["splits"][split])


def sample() -> Dataset:
    """Open the small data set inside the package: real renders, no download, no Blender."""
    return load(str(importlib.resources.files("ident3d.assets") / "sample" / "train"))


def find_split(path: Path) -> tuple[Path, str]:
    """Tell a data set's folder and the split meant by a path to either."""
    if (path / MANIFEST).exists():
        splits = sorted(read_manifest(path)["splits"])
        if len(splits) == 1:
            return path, splits[0]
        choices = " or ".join(str(path / split) for split in splits)
        raise ValueError(f"{path} holds several splits; name one: {choices}.")
    if (path.parent / MANIFEST).exists():
        splits = sorted(read_manifest(path.parent)["splits"])
        if path.name in splits:
            return path.parent, path.name
        raise DataError(f"{path.parent} has no split {path.name!r}; it has {', '.join(splits)}.")
    if any(path.glob(".work")) or any(path.glob("*/.work")):
        raise DataError(f"{path} is unfinished; run the command that began it once more.")
    missing = "is not a data set (no dataset.json)" if path.exists() else "does not exist"
    raise DataError(f"{path} {missing}; `ident3d render` and `ident3d import` make one.")


def read_manifest(root: Path) -> dict[str, Any]:
    """Read and check `dataset.json`: past this line its names, counts and types are trusted."""
    path = root / MANIFEST
    if path.stat().st_size > _MANIFEST_LIMIT:
        raise DataError(f"{path} is too large to be a manifest.")
    try:
        manifest = json.loads(path.read_bytes())
        foreign = manifest.get("format") != FORMAT
        version = 0 if foreign else int(manifest["version"])
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
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path} is not a valid manifest ({error!r}).") from None
    return manifest


def check_split_name(split: str) -> None:
    """A split's name is its folder's, so it must not be a path."""
    if not _SPLIT_NAME.fullmatch(split):
        raise ValueError(f"`split` must be letters, digits, - and _; got {split!r}.")


def write_manifest(root: Path, split: str, description: Description) -> None:
    """Declare a split whole: written last, atomically. The other splits of the folder stay."""
    root = Path(root)
    check_split_name(split)
    with locked_folder(root):  # other processes may be finishing other splits of it
        _write_manifest(root, split, description)


def _write_manifest(root: Path, split: str, description: Description) -> None:
    folder = root / split
    old = read_manifest(root) if (root / MANIFEST).exists() else {"splits": {}}
    known = {entry["name"]: entry for entry in _known_entries(folder, old["splits"].get(split))}
    shards, pair_shards = (
        [
            known.get(path.name) or file_entry(path, path.name, image_shape(path)[0])
            for path in sorted(folder.glob(pattern))
        ]
        for pattern in ("shard-*.h5", "pairs-*.h5")
    )
    if not shards:
        raise DataError(f"{folder} holds no finished shard.")
    old["splits"][split] = {
        "description": description.to_record(),
        "resolution": list(image_shape(folder / shards[0]["name"])[1:]),
        "shards": shards,
        "pair_shards": pair_shards,
    }
    manifest = {"format": FORMAT, "version": FORMAT_VERSION, "splits": old["splits"]}
    write_json(root / MANIFEST, {**manifest, "sha256": canonical_sha256(manifest)})
    shutil.rmtree(folder / ".work", ignore_errors=True)


def canonical_sha256(record: Any) -> str:
    """Hash a JSON record, whatever the order and spacing of its text."""
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _known_entries(folder: Path, entry: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Entries already hashed: by the manifest there is, or by the writers since."""
    written = [json.loads(path.read_text()) for path in sorted(folder.glob(".work/*.json"))]
    return [*(entry["shards"] + entry["pair_shards"] if entry else []), *written]


def _check_split(split: str, entry: dict[str, Any]) -> None:
    """Raise on anything that is not of the manifest's form, names that are paths included."""
    if not _SPLIT_NAME.fullmatch(split):
        raise ValueError(f"split name {split[:80]!r}")
    Description.from_record(entry["description"])
    height, width, channels = entry["resolution"]
    if not all(isinstance(size, int) and 0 < size <= 1 << 14 for size in (height, width)):
        raise ValueError(f"resolution {height} x {width}")
    if channels != 3:
        raise ValueError(f"{channels} channels")
    for kind in ("shards", "pair_shards"):
        for shard in entry[kind]:
            if not _FILE_NAME.fullmatch(shard["name"]):
                raise ValueError(f"file name {shard['name'][:80]!r}")
            if type(shard["rows"]) is not int or type(shard["bytes"]) is not int:
                raise TypeError(f"sizes of {shard['name']}")
            if not re.fullmatch(r"[0-9a-f]{64}", shard["sha256"]) or shard["rows"] < 1:
                raise ValueError(f"entry of {shard['name']}")
    if not entry["shards"]:
        raise ValueError("no shards")
