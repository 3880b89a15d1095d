"""Writing one shard so that a kill at any instant loses at most the image in hand.

Images arrive in any order and are appended to a journal, each record with its checksum. When all
are there, the journal becomes an HDF5 file in `.work/`, is hashed, synced and given its
final name: a shard under its final name is whole, and only then does the journal go.

    OUT/train/shard-00000.h5             images, latents, rows (and classes, sequences)
    OUT/train/.work/shard-00000.journal  images stored so far; gone once the shard is whole
    OUT/train/.work/shard-00000.json     name, rows, bytes and SHA-256, until the manifest has them
    OUT/train/.work/shard-00000.lock     held by the process that writes the shard
"""

import json
import os
import struct
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..errors import DataError
from ..factors import as_latents
from ..files import Lock, append, publish, remove, settle, sha256, step, write_bytes
from ..outside import read_sealed, write_sealed
from .contents import DIGEST, Columns, check_columns, check_every_row
from .hdf5_output import write_hdf5
from .manifest import Description, file_entry

_MAGIC = b"ident3d journal 2\n"
_RECORD = struct.Struct(f"<q{DIGEST}s")  # position in the shard, seal over all of the record


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
        sequences: Sequence of every row, if rows are frames of sequences.

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
        sequences: np.ndarray | None = None,
    ) -> None:
        self.path = Path(path)
        self.rows = np.asarray(rows, np.int64)
        self.latents = as_latents(latents, description.factors)
        self.shape = tuple(shape)
        self.description = description
        self.compress = compress
        self.classes = None if classes is None else np.asarray(classes, np.int64)
        self.sequences = None if sequences is None else np.asarray(sequences, np.int64)
        if len(self.rows) != len(self.latents):
            raise ValueError(f"`rows` has {len(self.rows)} rows, `latents` {len(self.latents)}.")
        shape_of_all = (len(self.rows), *self.shape)
        known = (self.rows, self.latents, self.classes, None, shape_of_all, self.sequences)
        self._columns = Columns(*known)
        self._identity = self._hash_settings()
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

    def holds(self, position: int) -> bool:
        """Tell whether an image is stored."""
        return position in self._stored

    def stored(self, position: int) -> np.ndarray:
        """Read a stored image back."""
        return np.frombuffer(self._read(position)[0], np.uint8).reshape(self.shape)

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
        if os.fstat(self._stream.fileno()).st_nlink == 0:  # it would go nowhere
            raise DataError(f"{self._journal} was removed while it was written; run again.")
        pixels, start = image.tobytes(), self._stream.tell()
        seal = self._seal(position, self._columns.digest(position, pixels))
        append(self._stream, _RECORD.pack(position, seal) + pixels)
        self._stored[position] = start

    def finish(self) -> dict[str, Any]:
        """Publish the shard under its final name and return its manifest entry."""
        missing = self.missing()
        if missing:
            raise ValueError(
                f"{self.path.name} still lacks {len(missing)} of {len(self.rows)} rows."
            )
        if not self._finished:
            self._publish()
        elif self._journal.exists():  # an earlier process may have stopped at this very line
            settle(self.path)
        remove(self._journal)
        with suppress(FileNotFoundError, ValueError):  # else the manifest has it already
            return read_sealed(self._entry)["entry"]
        return file_entry(self.path, self.path.name, len(self.rows))

    def _publish(self) -> None:
        partial = self._entry.with_suffix(".partial")
        attributes = self.description.attributes()
        try:
            write_hdf5(partial, self._columns, attributes, self.compress, self._read)
            entry = file_entry(partial, self.path.name, len(self.rows))
            write_sealed(self._entry, {"entry": entry})
            publish(partial, self.path)
        finally:
            partial.unlink(missing_ok=True)  # it takes the space that a full disk needs

    def _open_journal(self) -> IO[bytes]:
        """Open the journal, keep its whole records, cut what is torn off its end."""
        self._stored: dict[int, int] = {}  # position -> where its record starts in the journal
        self._finished = self.path.exists() and self._is_whole()
        if self._finished:  # by somebody else: nothing is missing
            self._stored = dict.fromkeys(range(len(self.rows)), 0)
            return open(os.devnull, "wb")
        header = _MAGIC + self._identity + bytes.fromhex(sha256(self._identity))
        if not self._journal.exists() or self._journal.stat().st_size < len(header):
            write_bytes(self._journal, header)
        stream = open(self._journal, "r+b", buffering=0)  # noqa: SIM115 (closed by `close`)
        try:
            found = stream.read(len(header))
            end = self._find_records(stream)
            if found != header and not self._stored:
                raise DataError(self._foreign_journal(found))
            step("cut", self._journal)
            stream.truncate(end)
            stream.seek(end)
        except BaseException:
            stream.close()
            raise
        return stream

    def _find_records(self, stream: IO[bytes]) -> int:
        """Note where each whole record is, and return where the last one ends.

        A damaged record between others costs its own image alone.
        """
        end = start = stream.tell()
        while record := self._record(stream, start):
            position, seal, pixels = record
            after = start + _RECORD.size + len(pixels)
            known = 0 <= position < len(self.rows)
            if known and seal == self._seal(position, self._columns.digest(position, pixels)):
                self._stored[position], end = start, after
            start = after
        return end

    def _record(self, stream: IO[bytes], start: int) -> tuple[int, bytes, bytes] | None:
        """Read position, seal and pixels of a record; None where the journal ends before it."""
        size = int(np.prod(self.shape))
        record = os.pread(stream.fileno(), _RECORD.size + size, start)
        if len(record) < _RECORD.size + size:
            return None
        return (*_RECORD.unpack_from(record), record[_RECORD.size :])

    def _foreign_journal(self, header: bytes) -> str:
        """Say why a journal that holds none of this shard's images is not this shard's."""
        start, identity, check = (
            header[: -2 * DIGEST],
            header[-2 * DIGEST : -DIGEST],
            header[-DIGEST:],
        )
        if start == _MAGIC and bytes.fromhex(sha256(identity)) == check:
            return (
                f"{self.path.name} was begun with other latents or settings; "
                f"continue with those, or remove {self._journal} to begin it anew."
            )
        return (
            f"{self._journal} is damaged, or of an earlier version, and none of its images can be "
            f"trusted; remove it to begin {self.path.name} anew."
        )

    def _is_whole(self) -> bool:
        """Check a shard that has its final name; a journal that is still there can repair it."""
        try:
            found = check_columns(self.path, self._columns)
            if self._journal.exists():
                check_every_row(self.path, found)
        except DataError:
            if self._journal.exists():
                return False
            raise
        return True

    def _seal(self, position: int, digest: bytes) -> bytes:
        """Hash a row with its place and shard: moved, or of other settings, it does not fit."""
        return bytes.fromhex(sha256(self._identity + struct.pack("<q", position) + digest))

    def _read(self, position: int) -> tuple[bytes, bytes]:
        """Read an image and its row's digest; what was damaged since is not passed on."""
        _, seal, pixels = self._record(self._stream, self._stored[position]) or (0, b"", b"")
        digest = self._columns.digest(position, pixels)
        if seal != self._seal(position, digest):
            raise DataError(f"{self._journal} was damaged while it was written; run again.")
        return pixels, digest

    def _hash_settings(self) -> bytes:
        """Hash everything but the images: a journal of other content must not be continued."""
        described = {k: v for k, v in self.description.to_record().items() if k != "command"}
        plain = [self.shape, self.compress, described]
        arrays = (self.rows, self.latents, self.classes)
        columns = [b"-" if array is None else array.tobytes() for array in arrays]
        columns += [] if self.sequences is None else [self.sequences.tobytes()]
        return bytes.fromhex(sha256(json.dumps(plain, sort_keys=True).encode() + b"".join(columns)))
