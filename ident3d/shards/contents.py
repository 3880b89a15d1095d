"""What a shard holds, row by row, with the digest of every row beside it in the file.

A digest covers the row's number, latents, class, sequence and pixels: it tells when one of them is
changed, lost or in another row's place. The fingerprint of a split is made of its rows' digests, so
it is the same however the rows came into files.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

from ..errors import DataError
from ..files import sha256
from .reader import REMAKE, honest_errors, open_shard, plain_dataset, read_array

DIGEST = 32  # bytes of a SHA-256
_BLOCK = 16 << 20  # bytes of images read at a time


@dataclass(frozen=True)
class Columns:
    """All of a shard but its images."""

    rows: np.ndarray
    latents: np.ndarray
    classes: np.ndarray | None
    digests: np.ndarray | None  # uint8 (n, 32); None in files of format 1
    shape: tuple[int, ...]  # of the images, (n, H, W, 3)
    sequences: np.ndarray | None = None  # of the frame that each row is, if rows are frames

    def digest(self, position: int, pixels: bytes) -> bytes:
        """Hash one row with the given pixels."""
        label = None if self.classes is None else int(self.classes[position])
        sequence = None if self.sequences is None else int(self.sequences[position])
        row, latents = int(self.rows[position]), self.latents[position]
        return row_digest(row, latents, label, pixels, sequence)


def row_digest(
    row: int, latents: np.ndarray, label: int | None, pixels: bytes, sequence: int | None = None
) -> bytes:
    """Hash a row; spelled out so that it never changes."""
    head = struct.pack("<q", row) + np.asarray(latents, "<f4").tobytes()
    head += b"" if label is None else struct.pack("<q", label)
    head += b"" if sequence is None else b"sequence" + struct.pack("<q", sequence)
    return bytes.fromhex(sha256(head + pixels))


def content_digest(digests: Iterable[np.ndarray]) -> str:
    """Hash the rows of a split by their digests, in their order."""
    return sha256(b"".join(part.tobytes() for part in digests))


def read_shard_columns(path: Path) -> Columns:
    """Read a shard's columns; raises DataError unless they fit each other."""
    with open_shard(path) as file:
        rows, latents = (read_array(file, name, path) for name in ("rows", "latents"))
        classes, sequences, digests = (
            read_array(file, name, path) if _has(file, name, path) else None
            for name in ("classes", "sequences", "digests")
        )
        shape = plain_dataset(file, "images", path).shape
    columns = (rows, latents, classes, sequences, digests)
    lengths = {len(array) for array in columns if array is not None}
    if lengths != {shape[0]} or (digests is not None and digests.shape[1] != DIGEST):
        raise DataError(f"{path} has columns of different lengths; {REMAKE}.")
    return Columns(rows, latents, classes, digests, shape, sequences)


def check_columns(path: Path, expected: Columns) -> Columns:
    """Read a shard's columns; raises DataError unless they are the rows and latents expected.

    Where fewer latents than rows are expected, the first ones are compared.
    """
    found = read_shard_columns(path)
    for name in ("shape", "rows", "latents", "classes", "sequences"):
        one, two = getattr(found, name), getattr(expected, name)
        if name == "latents":
            one = one[: len(two)]
        if not np.array_equal(one, two):
            raise DataError(f"{path} is not what its name says: it has other {name}; {REMAKE}.")
    return found


def computed_digests(path: Path, columns: Columns) -> np.ndarray:
    """Hash every row of a shard as its pixels are now."""
    found = np.empty((len(columns.rows), DIGEST), np.uint8)
    step = max(1, _BLOCK // max(1, int(np.prod(columns.shape[1:]))))
    with open_shard(path) as file:
        images = plain_dataset(file, "images", path)
        for start in range(0, len(found), step):
            with honest_errors(path):
                block = images[start : start + step]
            for position, image in enumerate(block, start):
                digest = columns.digest(position, image.tobytes())
                found[position] = np.frombuffer(digest, np.uint8)
    return found


def check_every_row(path: Path, columns: Columns) -> None:
    """Compare every row of a shard with its digest; raises DataError where one disagrees.

    A file of format 1 has none, so nothing tells whether it is as it was written.
    """
    if columns.digests is None:
        raise DataError(
            f"{path} is of an earlier version, and no manifest says whether it is whole; {REMAKE}."
        )
    differ = (computed_digests(path, columns) != columns.digests).any(axis=1)
    if differ.any():
        row = int(columns.rows[differ.argmax()])
        raise DataError(f"{path} is damaged: row {row} is not what was written; {REMAKE}.")


def _has(file: h5py.File, name: str, path: Path) -> bool:
    with honest_errors(path):
        return name in file
