"""Writing one shard so that a kill at any instant loses at most the image in hand.

Images arrive in any order and are appended to a journal, each record with its checksum. When all
are there, the journal becomes an HDF5 file in `.work/`, is hashed, and is renamed to its final
name: a shard under its final name is whole.

    OUT/train/shard-00000.h5             images, latents, rows (and classes)
    OUT/train/.work/shard-00000.journal  images stored so far; gone once the shard is whole
    OUT/train/.work/shard-00000.json     name, rows, bytes and SHA-256, until the manifest has them
    OUT/train/.work/shard-00000.lock     held by the process that writes the shard
"""

import errno
import hashlib
import json
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import h5py
import numpy as np

from ..errors import DataError
from ..factors import FACTORS, Factor, as_latents

FORMAT = "ident3d"
FORMAT_VERSION = 1
_RECORD = struct.Struct("<qI")  # position in the shard, CRC-32 of the image


class ShardBusy(Exception):
    """Another process is writing this shard."""


@dataclass(frozen=True)
class Description:
    """What a split holds and how it was made; stored in the manifest and in every shard."""

    factors: tuple[Factor, ...] = FACTORS
    seed: int | None = None  # None: the latents were given, not drawn
    settings: dict[str, Any] = field(default_factory=dict)  # renderer, hue convention, versions
    pairs: str | None = None  # the conditional of the rendered positives
    class_names: tuple[str, ...] | None = None
    command: str | None = None

    def to_record(self) -> dict[str, Any]:
        """Give the plain JSON form."""
        return json.loads(json.dumps(asdict(self), allow_nan=False))

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> "Description":
        """Read the plain JSON form; raises KeyError, TypeError or ValueError on a foreign one."""
        names = record["class_names"]
        return cls(
            factors=tuple(Factor(**factor) for factor in record["factors"]),
            seed=record["seed"],
            settings=dict(record["settings"]),
            pairs=record["pairs"],
            class_names=None if names is None else tuple(map(str, names)),
            command=record["command"],
        )

    def attributes(self) -> dict[str, Any]:
        """Spell it out as HDF5 attributes, readable with no ident3d at hand."""
        ranges = np.array([[factor.low, factor.high] for factor in self.factors])
        named = {"seed": self.seed, "pairs": self.pairs, "command": self.command}
        return {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "factors": [factor.name for factor in self.factors],
            "factor_groups": [factor.group for factor in self.factors],
            "factor_units": [factor.unit for factor in self.factors],
            "factor_scene_ranges": ranges,
            "latents": "unit latents in [-1, 1], columns in the order of `factors`",
            **{name: value for name, value in named.items() if value is not None},
            **({"class_names": list(self.class_names)} if self.class_names else {}),
            **{f"settings.{name}": value for name, value in self.settings.items()},
        }


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
        ShardBusy: Another process holds the shard.
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
        self._lock = _lock(work / f"{self.path.stem}.lock")
        try:
            self._stream = self._open_journal()
        except BaseException:
            os.close(self._lock)
            raise

    def __enter__(self) -> "ShardWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the shard; what is stored stays."""
        if self._lock >= 0:
            self._stream.close()
            os.close(self._lock)
            self._lock = -1

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
            os.replace(partial, self.path)
        self._journal.unlink(missing_ok=True)
        if not self._entry.exists():  # the manifest has it already
            return file_entry(self.path, self.path.name, len(self.rows))
        return json.loads(self._entry.read_text())

    def _open_journal(self) -> BinaryIO:
        """Open the journal, keep its whole records, cut a torn one off the end."""
        identity = self._identity()
        self._stored: dict[int, int] = {}  # position -> where its pixels start in the journal
        if self.path.exists():  # finished by somebody else: nothing is missing
            self._stored = dict.fromkeys(range(len(self.rows)), 0)
            return open(os.devnull, "wb")
        if not self._journal.exists():
            partial = self._journal.with_suffix(".new")
            partial.write_bytes(identity)
            os.replace(partial, self._journal)
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
        digest = hashlib.sha256(json.dumps(plain, sort_keys=True).encode())
        for array in (self.rows, self.latents, self.classes):
            digest.update(b"-" if array is None else array.tobytes())
        return digest.digest()

    def _write_hdf5(self, path: Path) -> None:
        count, size = len(self.rows), int(np.prod(self.shape))
        layout: dict[str, Any] = {}
        if self.compress:
            import hdf5plugin

            layout = {"chunks": (1, *self.shape), **hdf5plugin.Zstd(clevel=3)}
        with h5py.File(path, "w") as file, open(self._journal, "rb") as journal:
            file.attrs.update(self.description.attributes())
            file["rows"] = self.rows
            file["latents"] = self.latents
            if self.classes is not None:
                file["classes"] = self.classes
            images = file.create_dataset("images", (count, *self.shape), np.uint8, **layout)
            for position in range(count):
                journal.seek(self._stored[position])
                images[position] = np.frombuffer(journal.read(size), np.uint8).reshape(self.shape)


def shard_name(number: int, kind: str = "shard") -> str:
    """Name a shard: `shard-00007.h5`, or `pairs-00007.h5` for the positives of the same rows."""
    return f"{kind}-{number:05d}.h5"


def file_entry(path: Path, name: str, rows: int) -> dict[str, Any]:
    """Describe a finished file as the manifest does."""
    return {"name": name, "rows": rows, "bytes": path.stat().st_size, "sha256": file_sha256(path)}


def file_sha256(path: Path) -> str:
    """Hash a file without holding it in memory."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def write_json(path: Path, record: Any) -> None:
    """Write JSON atomically: readers see the old file or the new one, never half of one."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    with open(partial, "w") as stream:
        json.dump(record, stream, indent=1, sort_keys=True, allow_nan=False)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(partial, path)


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Wait for the lock on a folder itself: it leaves no file behind."""
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _lock(path: Path) -> int:
    """Take an exclusive lock that the kernel drops when this process dies, however it dies."""
    import fcntl  # only on POSIX; reading data needs none of this

    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise ShardBusy(f"Another process is writing {path.stem}.") from None
    return descriptor
