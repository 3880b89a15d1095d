"""Is a data set whole? Every byte against its SHA-256, every row once, every latent in its box."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..dataset import Dataset
from ..errors import DataError
from ..factors import as_latents
from ..files import file_digest
from ..outside import read_json
from .reader import plain_dataset, shard_file


def problems(data: Dataset, checked: Callable[[int], Any] = lambda size: None) -> Iterator[str]:
    """Name what is wrong with a split, one sentence each; nothing when it is whole.

    Args:
        data: The split to check.
        checked: Called with the number of bytes of each file when it has been read.
    """
    seen: dict[str, list[np.ndarray]] = {"shard": [], "pairs": []}
    damaged = False
    for entry in data.files():
        path = data.path / entry["name"]
        problem = _file_problem(path, entry)
        if problem is None:
            try:
                seen[entry["name"].split("-")[0]].append(_checked_rows(path, entry, data))
            except (DataError, ValueError) as error:
                problem = f"{entry['name']}: {error}"
        if problem:
            damaged = True
            yield problem
        checked(entry["bytes"])
    rows = np.concatenate([*seen["shard"], np.empty(0, np.int64)])
    if len(np.unique(rows)) != len(rows):
        yield "Some rows are there more than once."
    if not damaged and seen["pairs"] and not np.array_equal(rows, np.concatenate(seen["pairs"])):
        yield "The pairs are not those of the same rows."
    yield from _foreign_files(data)
    yield from _index_problems(data.path)


def _file_problem(path: Path, entry: dict[str, Any]) -> str | None:
    if not path.is_file():
        return f"{entry['name']} is missing."
    size = path.stat().st_size
    if size != entry["bytes"]:
        return f"{entry['name']} has {size:,} bytes, the manifest says {entry['bytes']:,}."
    if file_digest(path) != entry["sha256"]:
        return f"{entry['name']} was changed or damaged: its SHA-256 disagrees with the manifest."
    return None


def _foreign_files(data: Dataset) -> Iterator[str]:
    """Name shards that the manifest does not know; while a split grows, new ones are its own."""
    if (data.path / ".work").exists():
        return
    known = {entry["name"] for entry in data.files()}
    for path in sorted(data.path.glob("*.h5")):
        if path.name not in known:
            yield f"{path.name} is not of this data set; delete it, or put it where it belongs."


def _checked_rows(path: Path, entry: dict[str, Any], data: Dataset) -> np.ndarray:
    """Check a file's arrays against each other and give its row numbers."""
    with shard_file(path) as file:
        rows = plain_dataset(file, "rows", path)[()]
        latents = as_latents(plain_dataset(file, "latents", path)[()], data.factors)
        shape = plain_dataset(file, "images", path).shape
    if not len(rows) == len(latents) == shape[0] == entry["rows"]:
        raise DataError(f"it holds {len(rows)} rows, the manifest says {entry['rows']}.")
    if shape[1:] != data.resolution:
        raise DataError(f"its images are {shape[1:]}, the manifest says {data.resolution}.")
    return rows


def _index_problems(folder: Path) -> Iterator[str]:
    """Look-up indexes are optional; where there is one, its digest must hold."""
    for index in sorted({path.with_suffix(".faiss") for path in folder.glob("index*.*")}):
        try:
            record = read_json(index.with_suffix(".json"))
            whole = file_digest(index) == record["sha256"]
        except (OSError, DataError, KeyError, TypeError):
            whole = False
        if not whole:
            yield f"{index.name} or its .json is damaged; `ident3d index {folder}` rebuilds it."
