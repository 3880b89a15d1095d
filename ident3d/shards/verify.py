"""Is a data set whole? Every byte against its SHA-256, every row once, every latent in its box."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..dataset import Dataset
from ..errors import DataError
from ..factors import as_latents
from ..files import file_digest
from ..outside import is_version_1, read_sealed
from ..rows import row_latents
from .contents import Columns, check_every_row, content_digest, read_shard_columns
from .reader import REMAKE


def problems(data: Dataset, checked: Callable[[int], Any] = lambda size: None) -> Iterator[str]:
    """Name what is wrong with a split, one sentence each; nothing when it is whole.

    `checked` is called with the number of bytes of each file when it has been read.
    """
    seen: dict[str, list[Columns]] = {"shard": [], "pairs": []}
    damaged = False
    for entry in data.files():
        path = data.path / entry["name"]
        problem = _file_problem(path, entry)
        if problem is None:
            try:
                seen[entry["name"].split("-")[0]].append(_checked(path, entry, data))
            except DataError as error:
                problem = str(error)
            except ValueError as error:
                problem = f"{entry['name']}: {error} To repair it, {REMAKE}."
        if problem:
            damaged = True
            yield problem
        checked(entry["bytes"])
    if not damaged:
        yield from _disagreements(data, seen["shard"], seen["pairs"])
    yield from _foreign_files(data)
    yield from _index_problems(data.path)


def _file_problem(path: Path, entry: dict[str, Any]) -> str | None:
    if not path.is_file():
        return f"{entry['name']} is missing; run the command that made the data set once more."
    size = path.stat().st_size
    if size != entry["bytes"]:
        said = f"{entry['name']} has {size:,} bytes, the manifest says {entry['bytes']:,}"
        return f"{said}; {REMAKE}."
    if file_digest(path) != entry["sha256"]:
        said = f"{entry['name']} was changed or damaged: its SHA-256 disagrees with the manifest"
        return f"{said}; {REMAKE}."
    return None


def _checked(path: Path, entry: dict[str, Any], data: Dataset) -> Columns:
    """Check a file's arrays against the manifest, each other, their seed and their digests."""
    columns = read_shard_columns(path)
    if columns.shape != (entry["rows"], *data.resolution):
        said = f"{entry['rows']} images of {data.resolution}"
        raise DataError(f"{path} has images {columns.shape}, the manifest says {said}; {REMAKE}.")
    as_latents(columns.latents, data.factors)
    if (columns.classes is None) != (data.class_names is None):
        raise DataError(f"{path} and the manifest disagree on whether there are classes; {REMAKE}.")
    if (columns.sequences is None) == data.description.sequences:
        said = "the manifest disagree on whether rows are frames of sequences"
        raise DataError(f"{path} and {said}; {REMAKE}.")
    known = range(len(data.class_names or ()))
    if columns.classes is not None and not set(columns.classes.tolist()) <= set(known):
        raise DataError(f"{path} has a class that the manifest does not name; {REMAKE}.")
    if entry["name"].startswith("shard") and not _as_drawn(columns, data):
        raise DataError(f"{path} has other latents than its seed and rows give; {REMAKE}.")
    if columns.digests is not None:
        check_every_row(path, columns)
    return columns


def _as_drawn(columns: Columns, data: Dataset) -> bool:
    """Draw the latents of rendered rows again, those of held factors left out."""
    settings = data.description.settings
    if data.seed is None or settings.get("latents") != "drawn":
        return True
    names = str(settings.get("factors")).split(",")
    varied = [column for column, factor in enumerate(data.factors) if factor.name in names]
    drawn = row_latents(data.seed, data.split, columns.rows, len(data.factors))
    return np.array_equal(drawn[:, varied], columns.latents[:, varied])


def _disagreements(data: Dataset, shards: list[Columns], pairs: list[Columns]) -> Iterator[str]:
    """Name what is wrong among files each of which is right."""
    rows = np.concatenate([columns.rows for columns in shards])
    if len(np.unique(rows)) != len(rows):
        yield "Some rows are there more than once; make the data set anew in another folder."
    if pairs and not np.array_equal(rows, np.concatenate([columns.rows for columns in pairs])):
        yield "The pairs are not those of the same rows; make the data set anew."
    for stated, found in zip(data.content, (shards, pairs), strict=False):
        digests = [columns.digests for columns in found if columns.digests is not None]
        if len(digests) == len(found) and content_digest(digests) != stated:
            yield "The manifest states another content than the files have; make it anew."


def _foreign_files(data: Dataset) -> Iterator[str]:
    """Name shards that the manifest does not know; while a split grows, new ones are its own."""
    if (data.path / ".work").exists():
        return
    known = {entry["name"] for entry in data.files()}
    for path in sorted(data.path.glob("*.h5")):
        if path.name not in known:
            yield f"{path.name} is not of this data set; delete it, or put it where it belongs."


def _index_problems(folder: Path) -> Iterator[str]:
    """Look-up indexes are optional; where there is one, its digest must hold."""
    for index in sorted({path.with_suffix(".faiss") for path in folder.glob("index*.*")}):
        try:
            record = read_sealed(index.with_suffix(".json"), "seal", is_version_1)
            whole = file_digest(index) == record["sha256"]
        except (FileNotFoundError, ValueError, DataError, KeyError):
            whole = False
        if not whole:
            yield f"{index.name} or its .json is damaged; `ident3d index {folder}` rebuilds it."
