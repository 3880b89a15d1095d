"""Reading a data set: the manifest, and one split of it as images, latents and pairs.

data = ident3d.load("3dident/train")
data.images[[5, 3, 900]]    # uint8 (3, H, W, 3), in the order requested
data.latents                # float32 (n, d), unit latents
"""

import importlib.resources
import itertools
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import DataError, printable
from .factors import Factor, varying
from .files import canonical_sha256
from .shards import MANIFEST, Description, read_manifest
from .shards.reader import Images, read_columns, read_latents

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class PairedRows:
    """The rendered positives of a split: row i belongs to anchor row i."""

    images: Images
    latents: np.ndarray
    conditional: str


class Dataset:
    """One split of a data set. Opens files lazily in each process; safe to pickle and to fork.

    Attributes:
        path: The split's folder.
        split: Its name.
        description: Everything the manifest says of how the split was made.
        factors: The factors, in the order of the latents' columns.
        resolution: Height, width and channels of an image.
        settings: How the images were made: renderer settings, hue convention, versions.
        seed: The seed of the latents; None where the latents were given.
        class_names: Names of the classes, or None.
    """

    def __init__(self, root: Path, split: str, entry: dict[str, Any]) -> None:
        self.path = Path(root).absolute() / split  # the working directory may change
        self.split = split
        self.description = Description.from_record(entry["description"])
        self.factors, self.settings = self.description.factors, dict(self.description.settings)
        self.seed, self.class_names = self.description.seed, self.description.class_names
        self.resolution: tuple[int, int, int] = tuple(entry["resolution"])
        self._entry = entry

    @cached_property
    def images(self) -> Images:
        """All images, array-like: `images[rows]` gathers across shards in the order requested."""
        return Images(self.path, self._entry["shards"], self.resolution)

    @cached_property
    def latents(self) -> np.ndarray:
        """Unit latents in [-1, 1], float32 (n, d), columns in the order of `factors`."""
        return read_latents(self.path, self._entry["shards"], self.factors)

    @cached_property
    def rows(self) -> np.ndarray:
        """Row numbers, int64 (n,): with the seed and the split, the address of each scene."""
        return self._column("rows")

    @cached_property
    def classes(self) -> np.ndarray | None:
        """Class of every row, int64 (n,), numbering `class_names`; None where there are none."""
        if not self.class_names:
            return None
        classes, known = self._column("classes"), len(self.class_names)
        if not 0 <= classes.min() <= classes.max() < known:
            row = int(((classes < 0) | (classes >= known)).argmax())
            raise DataError(
                f"{self.path} has class {classes[row]} in row {row}, and names for 0 to "
                f"{known - 1}; make or download the data set again."
            )
        return classes

    @cached_property
    def sequences(self) -> np.ndarray | None:
        """Sequence of every row, int64 (n,), its frames in order; None where rows are no frames."""
        return self._column("sequences") if self.description.sequences else None

    @cached_property
    def pairs(self) -> PairedRows | None:
        """The rendered positives, or None where none were rendered."""
        if not self._entry["pair_shards"]:
            return None
        return PairedRows(
            images=Images(self.path, self._entry["pair_shards"], self.resolution),
            latents=read_latents(self.path, self._entry["pair_shards"], self.factors),
            conditional=str(self.description.pairs),
        )

    @cached_property
    def varying(self) -> tuple[Factor, ...]:
        """The factors that differ between rows; the others are constant in this split."""
        return tuple(itertools.compress(self.factors, varying(self.latents)))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of what the split holds: rows, latents, pixels, settings. Equal data, equal text.

        It is the same for any size of shards and however often the work was interrupted. Data of
        format 1 keeps the fingerprint it always had, which is over its files.
        """
        if "content" not in self._entry:
            return canonical_sha256({"split": self.split, **self._entry})
        described = {k: v for k, v in self._entry["description"].items() if k != "command"}
        held = {name: self._entry[name] for name in ("resolution", "content")}
        return canonical_sha256({"split": self.split, "description": described, **held})

    @property
    def content(self) -> tuple[str, ...]:
        """Digests of all rows and of all rendered positives; none in data of format 1."""
        content = self._entry.get("content", {})
        return tuple(content[kind] for kind in ("shards", "pair_shards") if kind in content)

    def to_memory(self, limit: int = 4 << 30) -> "Dataset":
        """Keep all images, rendered positives included, in RAM if they take at most `limit` bytes.

        Returns the data set itself. Forked workers share the memory; a pickled copy reads files.
        """
        parts = [self.images, *([self.pairs.images] if self.pairs else [])]
        if sum(part.nbytes for part in parts) <= limit:
            for part in parts:
                part.to_memory()
        return self

    def to_frame(self) -> "pandas.DataFrame":
        """Give the factors as a table of pandas: a row each, its index the row number.

        Columns are unit latents under their factors' names, then `class` where there are classes,
        `sequence` where rows are frames.
        """
        try:
            import pandas
        except ImportError as error:
            raise ImportError("`to_frame` needs pandas: `pip install 'ident3d[hub]'`.") from error
        frame = pandas.DataFrame(
            self.latents,
            columns=[factor.name for factor in self.factors],
            index=pandas.Index(self.rows, name="row"),
        )
        if self.classes is not None:
            frame["class"] = pandas.Categorical.from_codes(self.classes, self.class_names)
        if self.sequences is not None:
            frame["sequence"] = self.sequences
        return frame

    def files(self) -> list[dict[str, Any]]:
        """Manifest entries of all files: name, rows, bytes, sha256."""
        return [*self._entry["shards"], *self._entry["pair_shards"]]

    def _column(self, name: str) -> np.ndarray:
        return read_columns(self.path, self._entry["shards"], name)

    def __len__(self) -> int:
        return sum(shard["rows"] for shard in self._entry["shards"])

    def __repr__(self) -> str:
        height, width, _ = self.resolution
        rendered = printable(self.description.pairs)
        pairs = f", pairs {rendered}" if self._entry["pair_shards"] else ""
        return (
            f"Dataset({str(self.path)!r}: {len(self):,} images {height} x {width}, "
            f"{len(self.factors)} factors{pairs})"
        )

    def _repr_html_(self) -> str:
        from .sheets import html  # which reads data sets itself

        return html(self)


def load(path: str | os.PathLike) -> Dataset:
    """Open one split: `load("3dident/train")`, or `load("3dident")` where there is only one."""
    root, split = find_split(Path(path))
    return Dataset(root, split, read_manifest(root)["splits"][split])


def sample() -> Dataset:
    """Open the small data set inside the package: real renders, no download, no Blender."""
    return load(str(importlib.resources.files("ident3d.assets") / "sample" / "train"))


def find_split(path: Path) -> tuple[Path, str]:
    """Tell a data set's folder and the split meant by a path to either."""
    if path.name in ("", ".."):  # `.` and the like do not tell their own name
        path = path.resolve()
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
