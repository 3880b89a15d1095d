"""Reading an exported folder back: the same shards, rows and pixels as before the export."""

import itertools
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from ..dataset import Dataset
from ..errors import DataError, choose
from ..factors import as_latents
from ..files import Lock, file_digest
from ..progress import progress
from ..published.png import decode_png
from ..shards import MANIFEST, ShardWriter, read_manifest, shard_name
from ..shards.manifest import check_free, check_no_others, split_entry, write_manifest_locked
from .layout import FOLDER, RECORD, Row, Split, read_record
from .parquet import read_parquet
from .tars import read_tar


def is_exchanged(source: str | os.PathLike) -> bool:
    """Whether a folder is one that `ident3d export` wrote for the Hub or for webdataset."""
    return Path(source, RECORD).is_file()


def import_exchanged(
    source: str | os.PathLike, out: str | os.PathLike, split: str | None = None
) -> list[str]:
    """Import the splits of an exported folder; run it again after a kill, and it goes on.

    Returns:
        The names of the splits.
    """
    source, out = Path(source), Path(out)
    splits = read_record(source)
    if split is not None:
        splits = {split: choose(splits, split, "split")}
    for name, exported in splits.items():
        if not _is_imported(out, name, exported):
            check_free(out / name, exported.shard_names())
            _check_files(source, exported)
            _import(source, out, name, exported)
    return list(splits)


def _is_imported(out: Path, name: str, split: Split) -> bool:
    """Tell whether a split is there, and whole; one of other content is refused."""
    known = read_manifest(out)["splits"].get(name) if (out / MANIFEST).exists() else None
    if known is None:
        return False
    there = Dataset(out, name, known)
    if there.fingerprint != split.fingerprint:
        raise DataError(f"{there.path} holds other data; import to another folder.")
    return all((there.path / file["name"]).exists() for file in there.files())


def _check_files(source: Path, split: Split) -> None:
    for file in split.files:
        path = source / FOLDER / file["name"]
        if not path.is_file():
            raise DataError(f"{path} is missing; download or export it again.")
        if file_digest(path) != file["sha256"]:
            raise DataError(f"{path} is damaged: its SHA-256 disagrees; download it again.")


def _import(source: Path, out: Path, name: str, split: Split) -> None:
    paths = [source / FOLDER / file["name"] for file in split.files]
    facts, rows = _read(paths, images=False), _read(paths, images=True)
    with progress(sum(split.shards), "importing", unit="image") as bar:
        for number, count in enumerate(split.shards):
            # Once for what a shard must know before its first image, once for the images.
            known = list(itertools.islice(facts, count))
            images = itertools.islice(rows, count)
            if len(known) < count:
                raise DataError(f"{source} holds fewer rows than it says; download it again.")
            _write_shard(out / name, number, split, known, images)
            bar.update(count)
    with Lock(out / ".lock", wait=True):  # what is checked is what is declared
        check_no_others(out / name, split.shard_names())
        _check_promise(source, out, name, split)
        write_manifest_locked(out, name, split.description)


def _check_promise(source: Path, out: Path, name: str, split: Split) -> None:
    """Compare the shards with what the record says of them, before they are declared."""
    made = Dataset(out, name, split_entry(out, name, split.description))
    if made.fingerprint != split.fingerprint or len(np.unique(made.rows)) < len(made.rows):
        raise DataError(
            f"{source} holds other rows than its {RECORD} promises; export or download it again, "
            f"and remove {made.path}, which is not whole."
        )


def _read(paths: list[Path], images: bool) -> Iterator[Row]:
    for path in paths:
        yield from (read_tar if path.suffix == ".tar" else read_parquet)(path, images)


def _write_shard(
    folder: Path, number: int, split: Split, known: list[Row], rows: Iterator[Row]
) -> None:
    names = split.description.class_names
    labels = None if names is None else _labels(known, len(names))
    with ExitStack() as stack:
        writers = []
        for kind in split.kinds:
            writer = ShardWriter(
                folder / shard_name(number, kind),
                np.array([row.row for row in known]),
                _latents(known, kind, split),
                split.resolution,
                split.description,
                split.compressed,
                labels,
            )
            writers.append(stack.enter_context(writer))
        for position, row in enumerate(rows):
            for writer, image in zip(writers, (row.image, row.positive), strict=False):
                pixels = decode_png(image or b"", f"row {row.row}", split.resolution)
                writer.put(position, pixels)
        for writer in writers:
            writer.finish()


def _latents(known: list[Row], kind: str, split: Split) -> np.ndarray:
    found = [row.latents if kind == "shard" else row.positive_latents for row in known]
    given = [latents for latents in found if latents is not None]
    if len(given) < len(found):
        raise DataError("A row comes without its positive; export it again.")
    try:
        return as_latents(np.stack(given), split.description.factors)
    except ValueError as error:
        said = str(error).rstrip(".")
        raise DataError(f"The latents of a row are not of its factors ({said}).") from None


def _labels(known: list[Row], classes: int) -> np.ndarray:
    if any(row.label is None or row.label >= classes for row in known):
        raise DataError(f"A row comes without its class, 0 to {classes - 1}; export it again.")
    return np.array([row.label for row in known])
