"""Writing a split for the Hub or for webdataset; after a kill, the same call goes on."""

import io
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from ..dataset import Dataset, load
from ..errors import DataError
from ..files import Lock, atomic, file_digest, remove, remove_partials, write_bytes
from ..outside import read_sealed, write_sealed
from ..progress import progress
from ..published.png import THREADS, write_png
from .card import card
from .layout import (
    FOLDER,
    RECORD,
    Row,
    Split,
    files_of,
    imported_fingerprint,
    read_record,
    write_record,
)
from .parquet import write_parquet
from .tars import write_tar

_FILE_BYTES = 256 << 20  # of pixels in a file; PNG makes them a third of it

Writer = Callable[[Path, Dataset, Sequence[Row]], None]


def export_parquet(path: str | os.PathLike, out: str | os.PathLike) -> Path:
    """Write one split as Parquet files with `Image` features, its rendered positives included."""
    return _export(load(path), Path(out), "parquet", write_parquet)


def export_webdataset(path: str | os.PathLike, out: str | os.PathLike) -> Path:
    """Write one split as tar files, its rendered positives included."""
    return _export(load(path), Path(out), "tar", write_tar)


def _export(data: Dataset, out: Path, ending: str, write: Writer) -> Path:
    if data.description.sequences:
        raise ValueError(f"{data.path} holds sequences, for which this format has no column.")
    (out / FOLDER).mkdir(parents=True, exist_ok=True)
    with Lock(out / ".lock", wait=True):  # who comes second finds the work done
        splits = read_record(out) if (out / RECORD).exists() else {}
        if any(not file["name"].endswith(ending) for s in splits.values() for file in s.files):
            raise DataError(f"{out} holds an export in another format; export to another folder.")
        known = splits.get(data.split)
        fingerprint = imported_fingerprint(data)
        mark = out / FOLDER / f".{data.split}-{fingerprint[:16]}"
        for path in (out / "README.md", out / RECORD, mark):
            remove_partials(path)
        if known is not None and known.fingerprint == fingerprint:
            if (out / "README.md").exists() and _are_whole(mark.parent, known.files):
                remove(mark)  # a kill may have come before it went
                return out
            counts = [file["rows"] for file in known.files]
            write_sealed(mark, {file["name"]: file["sha256"] for file in known.files})
        else:
            counts = _rows_per_file(data)
        others = [*(out / FOLDER).glob(files_of(data.split, "*"))]
        if others and not mark.exists():
            raise DataError(f"{out} holds other data of split {data.split!r}; remove it first.")
        for stale in out.glob(f"{FOLDER}/.{data.split}-{'[0-9a-f]' * 16}"):
            if stale != mark:  # of an export that was killed, and would go on over this one
                remove(stale)
        if not mark.exists():
            write_sealed(mark, {})  # whose files these are, until the record tells
        files = _write_files(data, counts, mark, ending, write)
        splits[data.split] = Split.of(data, fingerprint, files)
        write_bytes(out / "README.md", card(splits, ending).encode())
        write_record(out, splits)
        remove(mark)
    return out


def _are_whole(folder: Path, files: Iterable[dict[str, Any]]) -> bool:
    return all(_has(folder / file["name"], file["sha256"]) for file in files)


def _has(path: Path, digest: str | None) -> bool:
    return path.exists() and file_digest(path) == digest


def _rows_per_file(data: Dataset) -> list[int]:
    per_image = int(np.prod(data.resolution)) * (1 if data.pairs is None else 2)
    size = max(1, _FILE_BYTES // per_image)
    return [min(size, len(data) - start) for start in range(0, len(data), size)]


def _write_files(
    data: Dataset, counts: list[int], mark: Path, ending: str, write: Writer
) -> list[dict[str, Any]]:
    """Write the files that are not there yet; the mark notes the digests of those that are."""
    try:
        noted = read_sealed(mark)
    except ValueError:  # empty in earlier versions, or damaged: nothing tells which are whole
        noted = {}
    files = []
    with progress(len(data), "exporting", unit="image") as bar:
        for number, numbers in enumerate(np.split(np.arange(len(data)), np.cumsum(counts)[:-1])):
            path = mark.parent / f"{data.split}-{number:05d}.{ending}"
            remove_partials(path)
            if not _has(path, noted.get(path.name)):
                with atomic(path) as partial:
                    write(partial, data, _rows(data, numbers))
                    noted[path.name] = file_digest(partial)
                    write_sealed(mark, noted)
            bar.update(len(numbers))
            files.append({"name": path.name, "rows": len(numbers), "sha256": noted[path.name]})
    return files


def _rows(data: Dataset, numbers: np.ndarray) -> list[Row]:
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(lambda number: _row(data, number), numbers.tolist()))


def _row(data: Dataset, number: int) -> Row:
    pairs = data.pairs
    return Row(
        int(data.rows[number]),
        data.latents[number],
        _png(data.images[number]),
        None if data.classes is None else int(data.classes[number]),
        None if pairs is None else pairs.latents[number],
        None if pairs is None else _png(pairs.images[number]),
    )


def _png(image: np.ndarray) -> bytes:
    stream = io.BytesIO()
    write_png(image, stream)
    return stream.getvalue()
