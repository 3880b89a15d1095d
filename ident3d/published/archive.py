"""Walking a folder, a tar or a tar.gz as one stream of named files, in its own order.

Archives are hostile until checked: Python's `tarfile` keeps every member in memory and believes
the sizes it reads, so headers are parsed here, one at a time, and nothing is ever unpacked.
"""

import functools
import gzip
import os
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ..errors import DataError
from ..outside import open_plain

_BLOCK = 512
_EXTENDED_LIMIT = 1 << 20  # bytes of one extended header; real ones are below 1 KB
_MEMBER_LIMIT = 20_000_000
_SIZE_LIMIT = 1 << 30  # bytes of one member; the largest published one is below 100 MB
_MOST_PACKED = 100  # bytes that one packed byte may become: PNG files hardly shrink at all
_GRACE = 1 << 26
_FOLDER_DEPTH = 4  # `images` lies two folders below the root of every published set
_EXTENDED = {tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE}
_IGNORED = {tarfile.XGLTYPE, tarfile.GNUTYPE_LONGLINK}
_BROKEN = (EOFError, zlib.error, gzip.BadGzipFile)  # what a gzip stream that was cut raises
_PAX_RECORD = re.compile(rb"(\d{1,9}) ([^=]+)=")


@dataclass(frozen=True)
class Member:
    """One file of a source. `read` works until the next member is asked for."""

    name: str  # relative, with forward slashes, checked
    size: int
    read: Callable[[], bytes]


def walk(source: Path) -> Iterator[Member]:
    """Yield every regular file of a folder or archive; refuses an archive with anything unsafe."""
    if source.is_dir():
        yield from _walk_folder(source, "", _FOLDER_DEPTH)
        return
    with open_plain(source) as stream:
        packed = stream.read(2) == b"\x1f\x8b"
        stream.seek(0)
        if packed:
            with gzip.GzipFile(fileobj=stream) as unpacked:
                yield from _walk_tar(_Blocks(unpacked, source.name, stream))
        else:
            yield from _walk_tar(_Blocks(stream, source.name))


def _walk_folder(folder: Path, prefix: str, depth: int) -> Iterator[Member]:
    """Follow links: a folder is its user's own, unlike an archive. The depth ends any circle."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        path = Path(entry.path)
        if entry.is_dir() and depth:
            yield from _walk_folder(path, f"{prefix}{entry.name}/", depth - 1)
        elif entry.is_file():
            yield Member(prefix + entry.name, entry.stat().st_size, path.read_bytes)


class _Blocks:
    """Forward-only reading, so that a gzip stream is unpacked once; its faults in one sentence."""

    def __init__(
        self, stream: BinaryIO | gzip.GzipFile, source: str, packed: BinaryIO | None = None
    ) -> None:
        self._stream = stream
        self._packed = packed
        self.source = source

    def take(self, count: int) -> bytes:
        data = self.take_up_to(count)
        if len(data) < count:
            raise DataError(f"{self.source} is truncated; download it again.")
        return data

    def take_up_to(self, count: int) -> bytes:
        if self._packed and self.tell() > _GRACE + _MOST_PACKED * self._packed.tell():
            raise DataError(f"{self.source} unpacks to far more than published images do; refused.")
        try:
            return self._stream.read(count)
        except _BROKEN as error:
            raise DataError(f"{self.source} is damaged ({error}); download it again.") from None

    def skip_to(self, position: int) -> None:
        """Move on; the last byte is read, since seeking alone would pass the end in silence."""
        if count := position - self._stream.tell():
            try:
                self._stream.seek(count - 1, os.SEEK_CUR)
            except _BROKEN:
                raise DataError(f"{self.source} is damaged; download it again.") from None
            self.take(1)

    def tell(self) -> int:
        return self._stream.tell()


def _walk_tar(blocks: _Blocks) -> Iterator[Member]:
    for _ in range(_MEMBER_LIMIT):
        info = _next_header(blocks)
        if info is None:
            while blocks.take_up_to(1 << 20):  # gzip checks its checksum at the very end
                pass
            return
        name = _safe_name(info.name, blocks.source)
        if info.isdir():
            continue
        if info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
            raise DataError(
                f"{blocks.source} holds {name!r}, a link, device or other special file; "
                "published archives hold plain files only, so it is refused."
            )
        start = blocks.tell()
        yield Member(name, info.size, functools.partial(blocks.take, info.size))
        blocks.skip_to(start + _padded(info.size))
    raise DataError(f"{blocks.source} holds more than {_MEMBER_LIMIT:,} members; it is refused.")


def _next_header(blocks: _Blocks) -> tarfile.TarInfo | None:
    """Parse the next member's header, extended ones before it included; None at the end."""
    extended: dict[str, str] = {}
    first = blocks.tell() == 0
    while block := blocks.take_up_to(_BLOCK):
        if not any(block):
            break
        try:
            info = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        except tarfile.HeaderError:
            problem = "is not a tar archive" if first else "is damaged"
            raise DataError(
                f"{blocks.source} {problem}; give a folder, a .tar or a .tar.gz."
            ) from None
        if info.type in _EXTENDED | _IGNORED or info.type == tarfile.GNUTYPE_LONGNAME:
            extended |= _read_extended(blocks, info)
            continue
        info.name = extended.get("path", info.name)
        info.size = int(extended.get("size", info.size))
        if any(key.startswith("GNU.sparse") for key in extended):
            info.type = tarfile.GNUTYPE_SPARSE
        if not 0 <= info.size <= _SIZE_LIMIT:
            raise DataError(
                f"{blocks.source} holds {info.name[:200]!a} of {info.size:,} bytes; "
                f"members above {_SIZE_LIMIT:,} bytes are refused."
            )
        return info
    return None


def _read_extended(blocks: _Blocks, info: tarfile.TarInfo) -> dict[str, str]:
    """Read what an extended header says of the member after it: its path and size matter."""
    if not 0 <= info.size <= _EXTENDED_LIMIT:
        raise DataError(f"{blocks.source} has a header of {info.size:,} bytes; it is refused.")
    data = blocks.take(_padded(info.size))[: info.size]
    if info.type == tarfile.GNUTYPE_LONGNAME:
        return {"path": data.rstrip(b"\0").decode("utf-8", "surrogateescape")}
    if info.type in _IGNORED:
        return {}
    records = {}
    while match := _PAX_RECORD.match(data):
        length = max(int(match[1]), match.end() + 1)  # the record's own, its newline included
        value = data[match.end() : length - 1].decode("utf-8", "surrogateescape")
        records[match[2].decode("utf-8", "replace")] = value
        data = data[length:]
    if not re.fullmatch(r"[0-9]{1,18}", records.get("size", "0")):
        raise DataError(f"{blocks.source} is damaged: a member's size is not a number.")
    return records


def _safe_name(name: str, source: str) -> str:
    parts = name.split("/")
    if name.startswith("/") or ".." in parts or "\\" in name or not name.isprintable():
        raise DataError(
            f"{source} holds a member named {name[:200]!a}, which could leave its folder; "
            "it is refused."
        )
    return "/".join(part for part in parts if part not in ("", "."))


def _padded(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK
