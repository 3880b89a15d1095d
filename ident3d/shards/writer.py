"""Writing one shard so that a kill at any instant loses at most the image in hand.

Images arrive in any order and are appended to a journal, each record with its checksum. When all
are there, the journal becomes an HDF5 file in `.work/`, is hashed, synced and given its
final name: a shard under its final name is whole, and only then does the journal go.

    OUT/train/shard-00000.h5             images, latents, rows (and classes)
    OUT/train/.work/shard-00000.journal  images stored so far; gone once the shard is whole
    OUT/train/.work/shard-00000.json     name, rows, bytes and SHA-256, until the manifest has them
    OUT/train/.work/shard-00000.lock     held by the process that writes the shard
"""

import errno
import json
import os
import struct
import zlib
from pathlib import Path
from typing import IO, Any

import h5py
import numpy as np

from ..errors import DataError
from ..factors import as_latents
from ..files import Lock, publish, settle, sha256, write_bytes, write_json
from ..outside import read_json
from .manifest import Description, file_entry

_RECORD = struct.Struct("<qI")  # position in the shard, CRC-32 of the image


class ShardWriter:
    """The one writer of a shard: a context manager that holds the shard's lock.

    Args:
        path: The shard's final name, `.../shard-00000.h5` or `.../pairs-00000.h5`.
        rows: Row numbers, shape (n,).
        latents: Unit latents of those rows, shape (n, d).
        shape: Height, width and channels of an image.
        description: What to write into the attributes.
        compress: Store one zstd chunk per image instead of one contiguous block.
        classes: Class number of every row, if there are classes.

    Raises:
        files.Busy: Another process holds the shard.
        DataError: An unfinished shard of other content is in the way.
    """

    def __init__(
        self,
        path: Path,
        rows: np.ndarray,
        latents: np.ndarray,
        shape: tuple[int, int, int],
        description: Description,
        compress: bool = False,
        classes: np.ndarray | None = None,
    ) -> None:
        self.path = Path(path)
        self.rows = np.asarray(rows, np.int64)
        self.latents = as_latents(latents, description.factors)
        self.shape = tuple(shape)
        self.description = description
        self.compress = compress
        self.classes = None if classes is None else np.asarray(classes, np.int64)
        if len(self.rows) != len(self.latents):
            raise ValueError(f"`rows` has {len(self.rows)} rows, `latents` {len(self.latents)}.")
        work = self.path.parent / ".work"
        work.mkdir(parents=True, exist_ok=True)
        self._journal = work / f"{self.path.stem}.journal"
        self._entry = work / f"{self.path.stem}.json"
        self._lock = Lock(work / f"{self.path.stem}.lock")
        try:
            self._stream = self._open_journal()
        except BaseException:
            self._lock.release()
            raise

    def __enter__(self) -> "ShardWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the shard; what is stored stays."""
        self._stream.close()
        self._lock.release()

    def missing(self) -> list[int]:
        """Positions whose image is not stored yet, in order."""
        return [position for position in range(len(self.rows)) if position not in self._stored]

    def put(self, position: int, image: np.ndarray) -> None:
        """Store one image; once this returns, a kill of this process cannot lose it."""
        image = np.ascontiguousarray(image)
        if image.shape != self.shape or image.dtype != np.uint8:
            raise ValueError(
                f"`image` must be uint8 {self.shape}, got {image.dtype} {image.shape}."
            )
        if not 0 <= position < len(self.rows):
            raise ValueError(f"`position` must be in 0..{len(self.rows) - 1}, got {position}.")
        if position in self._stored:
            return
        pixels = image.tobytes()
        record = _RECORD.pack(position, zlib.crc32(pixels)) + pixels
        start = self._stream.tell()
        if self._stream.write(record) != len(record):  # a full disk writes what still fits
            self._stream.truncate(start)
            self._stream.seek(start)
            raise OSError(errno.ENOSPC, "No space left; free some and run again", str(self.path))
        self._stored[position] = start + _RECORD.size

    def finish(self) -> dict[str, Any]:
        """Publish the shard under its final name and return its manifest entry."""
        missing = self.missing()
        if missing:
            raise ValueError(
                f"{self.path.name} still lacks {len(missing)} of {len(self.rows)} rows."
            )
        if not self.path.exists():
            partial = self._entry.with_suffix(".partial")
            self._write_hdf5(partial)
            write_json(self._entry, file_entry(partial, self.path.name, len(self.rows)))
            publish(partial, self.path)
        elif self._journal.exists():  # an earlier process may have stopped at this very line
            settle(self.path)
        self._journal.unlink(missing_ok=True)
        if not self._entry.exists():  # the manifest has it already
            return file_entry(self.path, self.path.name, len(self.rows))
        return read_json(self._entry)

    def _open_journal(self) -> IO[bytes]:
        """Open the journal, keep its whole records, cut a torn one off the end."""
        identity = self._identity()
        self._stored: dict[int, int] = {}  # position -> where its pixels start in the journal
        if self.path.exists():  # finished by somebody else: nothing is missing
            self._stored = dict.fromkeys(range(len(self.rows)), 0)
            return open(os.devnull, "wb")
        if not self._journal.exists():
            write_bytes(self._journal, identity)
        stream = open(self._journal, "r+b", buffering=0)  # noqa: SIM115 (closed by `close`)
        if stream.read(len(identity)) != identity:
            stream.close()
            raise DataError(
                f"{self.path.name} was begun with other latents or settings; "
                f"continue with those, or remove {self._journal} to begin it anew."
            )
        size = int(np.prod(self.shape))
        end = len(identity)
        while len(record := stream.read(_RECORD.size + size)) == _RECORD.size + size:
            position, checksum = _RECORD.unpack_from(record)
            if zlib.crc32(memoryview(record)[_RECORD.size :]) != checksum:
                break
            self._stored[position] = end + _RECORD.size
            end += len(record)
        stream.truncate(end)
        stream.seek(end)
        return stream

    def _identity(self) -> bytes:
        """Hash everything but the images: a journal of other content must not be continued."""
        plain = [self.shape, self.compress, self.description.to_record()]
        arrays = (self.rows, self.latents, self.classes)
        columns = [b"-" if array is None else array.tobytes() for array in arrays]
        return bytes.fromhex(sha256(json.dumps(plain, sort_keys=True).encode() + b"".join(columns)))

    def _write_hdf5(self, path: Path) -> None:
        count, size = len(self.rows), int(np.prod(self.shape))
        with h5py.File(path, "w") as file, open(self._journal, "rb") as journal:
            file.attrs.update(self.description.attributes())
            file["rows"] = self.rows
            file["latents"] = self.latents
            if self.classes is not None:
                file["classes"] = self.classes
            images = file.create_dataset(
                "images", (count, *self.shape), np.uint8, **image_layout(self.shape, self.compress)
            )
            for position in range(count):
                journal.seek(self._stored[position])
                images[position] = np.frombuffer(journal.read(size), np.uint8).reshape(self.shape)


def image_layout(shape: tuple[int, ...], compress: bool) -> dict[str, Any]:
    """Tell h5py how to store images: in one contiguous block, or one zstd chunk per image."""
    if not compress:
        return {}
    import hdf5plugin

    return {"chunks": (1, *shape), **hdf5plugin.Zstd(clevel=3)}
