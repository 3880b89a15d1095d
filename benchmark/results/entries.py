"""Entries to the leaderboard: packed into one folder, read back with care.

    ENTRY/entry.json              the records, the embeddings' digests, and a seal over both
    ENTRY/embeddings-s<seed>.npy  embeddings of the scored rows, float32 or float64 (n, k)

An entry comes from a stranger: nothing in it is executed, sizes are limited, file names are made
here from the seeds, links are refused.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ident3d.dataset import canonical_sha256
from ident3d.errors import DataError
from ident3d.shards import file_sha256

from ..scoring import PROVABLE
from .result import Result, load
from .schema import MAX_DIM
from .strict_json import parse_json, read_json

KIND = "ident3d-entry"
VERSION = 1
MAX_EMBEDDINGS = 600_000_000  # bytes of one file: 250,000 rows of 256 doubles fit
MAX_VALUE = 1e15  # squares and sums of embeddings stay finite


def pack(records: Sequence[str | Path], out: str | Path) -> Path:
    """Make an entry folder from record files that lie beside their embeddings.

    The records must be of one method and setting, one per seed. Scores that embeddings alone
    cannot prove are left out.
    """
    out, paths = Path(out), [Path(path) for path in records]
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"`out` must be a new or empty folder, got {str(out)!r}.")
    results = [load(path) for path in paths]
    _check_together(results, "`records`")
    arrays = [read_embeddings(path.with_suffix(".npy")) for path in paths]
    out.mkdir(parents=True, exist_ok=True)
    digests = {}
    for result, array in zip(results, arrays, strict=True):
        path = out / embeddings_name(result.seed)
        with open(path, "wb") as stream:
            np.save(stream, np.ascontiguousarray(array), allow_pickle=False)
        digests[str(result.seed)] = file_sha256(path)
    entry = {
        "kind": KIND,
        "version": VERSION,
        "records": [parse_json(_provable(result).to_json()) for result in results],
        "embeddings": digests,
    }
    entry["seal"] = seal(entry)
    (out / "entry.json").write_text(json.dumps(entry, allow_nan=False, indent=1), "utf-8")
    return out


def read_entry(folder: Path) -> tuple[dict[str, Any], list[Result]]:
    """Read `entry.json`, check its shape, its seal and that the folder holds nothing else."""
    if folder.is_symlink() or not folder.is_dir():
        raise ValueError(f"`entry` must be a folder, got {str(folder)!r}.")
    path = folder / "entry.json"
    found = read_json(path)
    if not isinstance(found, dict) or found.get("kind") != KIND:
        raise DataError(f'{path} is no entry: `"kind": "{KIND}"` is missing.')
    if type(found.get("version")) is not int or found["version"] != VERSION:
        raise DataError(f"{path} must have version {VERSION}; update ident3d.")
    if set(found) != {"kind", "version", "records", "embeddings", "seal"}:
        raise DataError(f"{path} must hold kind, version, records, embeddings and seal alone.")
    records, digests = found["records"], found["embeddings"]
    if not isinstance(records, list) or not 0 < len(records) <= 100:
        raise DataError(f"{path} must hold 1 to 100 records.")
    if not isinstance(digests, dict) or not all(isinstance(d, str) for d in digests.values()):
        raise DataError(f"{path} must name a digest for each seed's embeddings.")
    if not all(isinstance(record, dict) for record in records):
        raise DataError(f"{path} must hold records, got something else.")
    results = [Result.from_json(record, str(path)) for record in records]
    _check_together(results, str(path))
    if found["seal"] != seal(found):
        raise DataError(f"{path} was changed after packing: its seal does not agree.")
    _check_files(folder, results)
    return found, results


def read_embeddings(path: Path) -> np.ndarray:
    """Read a plain .npy matrix of limited size; never a pickle, never an archive."""
    if path.is_symlink() or not path.is_file():
        raise DataError(f"{path} is missing; an entry carries the embeddings of each seed.")
    if path.stat().st_size > MAX_EMBEDDINGS:
        raise DataError(f"{path} must have at most {MAX_EMBEDDINGS} bytes.")
    try:
        array = np.lib.format.open_memmap(path, mode="r")
    except (ValueError, OSError, OverflowError) as error:
        raise DataError(f"{path} is no plain .npy matrix: {str(error)[:200]}") from error
    if array.ndim != 2 or array.dtype not in (np.float32, np.float64):
        raise DataError(
            f"{path} must be float32 or float64 (n, k), got {array.dtype} {array.shape}."
        )
    if not 0 < array.shape[1] <= MAX_DIM or len(array) < 2:
        raise DataError(
            f"{path} must have 2 rows or more of 1 to {MAX_DIM} values, got {array.shape}."
        )
    array = np.array(array)
    if not (np.abs(array) <= MAX_VALUE).all():  # NaN fails this too
        row = int(np.argmin((np.abs(array) <= MAX_VALUE).all(axis=1)))
        raise DataError(
            f"{path} must be finite and sane; row {row} holds {array[row].tolist()!s:.60}."
        )
    return array


def embeddings_name(seed: int) -> str:
    """Name a seed's embeddings inside an entry."""
    return f"embeddings-s{int(seed)}.npy"


def seal(entry: dict[str, Any]) -> str:
    """Digest of all that an entry states; catches any later edit."""
    return canonical_sha256({key: value for key, value in entry.items() if key != "seal"})


def _provable(result: Result) -> Result:
    kept = {name: value for name, value in result.scores.items() if name in PROVABLE}
    return replace(result, scores=kept)


def _check_together(results: Sequence[Result], where: str) -> None:
    if not results:
        raise ValueError("`records` must name at least one record file.")
    if len({result.group for result in results}) > 1:
        raise DataError(f"{where} must be runs of one method and setting that differ in the seed.")
    seeds = [result.seed for result in results]
    if len(set(seeds)) < len(seeds):
        raise DataError(f"{where} must have each seed once, got {sorted(seeds)}.")
    if results[0].data is None:
        raise DataError(
            f"{where} is a synthetic run, with no data set to check it against; "
            "its command reproduces it."
        )


def _check_files(folder: Path, results: Sequence[Result]) -> None:
    allowed = {"entry.json"} | {embeddings_name(result.seed) for result in results}
    for path in sorted(folder.iterdir()):
        if path.name not in allowed or path.is_symlink() or not path.is_file():
            raise DataError(
                f"{folder} must hold entry.json and embeddings alone, found {path.name!r}."
            )
    for name in sorted(allowed):
        if not (folder / name).is_file():
            raise DataError(f"{folder / name} is missing; an entry carries each seed's embeddings.")
