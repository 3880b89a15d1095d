"""Reading an exported folder back: the same shards, rows and pixels as before the export."""

import itertools
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from ..dataset import Dataset
from ..errors import DataError, choose
from ..files import file_digest
from ..progress import progress
from ..published.png import decode_png
from ..shards import MANIFEST, ShardWriter, read_manifest, shard_name, write_manifest
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
        if (out / MANIFEST).exists() and name in (known := read_manifest(out)["splits"]):
            if known[name]["description"] != exported.description.to_record():
                raise DataError(f"{out / name} holds other data; import to another folder.")
            there = Dataset(out, name, known[name])
            if all((there.path / file["name"]).exists() for file in there.files()):
                continue
        _check_files(source, exported)
        _import(source, out, name, exported)
    return list(splits)


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
    write_manifest(out, name, split.description)


def _read(paths: list[Path], images: bool) -> Iterator[Row]:
    for path in paths:
        yield from (read_tar if path.suffix == ".tar" else read_parquet)(path, images)


def _write_shard(
    folder: Path, number: int, split: Split, known: list[Row], rows: Iterator[Row]
) -> None:
    paired = split.description.pairs is not None
    kinds = ("shard", "pairs") if paired else ("shard",)
    labels = None if split.description.class_names is None else _labels(known)
    with ExitStack() as stack:
        writers = []
        for kind in kinds:
            latents = [r.latents if kind == "shard" else r.positive_latents for r in known]
            if any(values is None for values in latents):
                raise DataError(f"{folder} would lack positives: a row comes without one.")
            writer = ShardWriter(
                folder / shard_name(number, kind),
                np.array([row.row for row in known]),
                np.stack(latents),  # type: ignore[arg-type]  # none is None, as checked
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


def _labels(known: list[Row]) -> np.ndarray:
    if any(row.label is None for row in known):
        raise DataError("A row comes without its class; export the data again.")
    return np.array([row.label for row in known])
