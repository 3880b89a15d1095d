"""Files that outlive a crash: atomic writes, digests and locks. Nothing else here does any of it.

A file under its final name is whole, also after a power cut: its bytes are on the disk before the
name is, and the name is before anything that relies on it is removed.
"""

import errno
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO

from .errors import DataError

try:
    import fcntl
except ImportError:  # Windows: reading works, and reading takes no lock
    fcntl = None  # type: ignore[assignment]


watchers: list[Callable[[str, Path], None]] = []  # called before every change of the disk


class Busy(DataError):
    """Another process holds the lock."""


def step(action: str, path: Path) -> None:
    """Come before every change of the disk: tests watch here, to kill the process or to fail it."""
    for watch in watchers:
        watch(action, path)


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Yield the name of a file to write; it becomes `path` if the block ends well, else nothing."""
    partial = _partial(path)
    try:
        step("create", partial)
        yield partial
        publish(partial, path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield a folder to fill; it becomes `path`, new or empty, if the block ends well."""
    partial = _partial(path)
    try:
        step("create", partial)
        partial.mkdir(parents=True)
        yield partial
        publish(partial, path)
    except OSError as error:
        if error.errno == errno.ENOTEMPTY:
            said = f"Another process filled {path} meanwhile; name another folder."
            raise DataError(said) from None
        raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def publish(partial: Path, path: Path) -> None:
    """Give a finished file its final name: bytes to the disk, then the name, then the folder."""
    _sync(partial)
    step("rename", path)
    os.replace(partial, path)
    _sync(path.parent)


def append(stream: IO[bytes], content: bytes | memoryview) -> None:
    """Write all of `content` to an unbuffered file, or, if the disk is full, nothing of it."""
    start, done, view = stream.tell(), 0, memoryview(content)
    step("write", Path(stream.name))
    try:
        while done < len(view):  # a disk that fills up takes a part before it refuses
            written = stream.write(view[done:])
            if not written:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), stream.name)
            done += written
    except OSError as error:
        error.filename = str(stream.name)
        stream.truncate(start)
        stream.seek(start)
        raise


def remove(path: Path) -> None:
    """Remove a file, if it is there."""
    step("remove", path)
    path.unlink(missing_ok=True)


def remove_partials(path: Path) -> None:
    """Remove what killed processes left of writing `path`; for whoever holds the lock on it."""
    for partial in path.parent.glob(f".{path.name}.*.partial"):
        remove(partial)


def settle(path: Path) -> None:
    """Bring a file and its name to the disk, where an earlier process may not have come to it."""
    _sync(path)
    _sync(path.parent)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file: readers see the old one or the new one, never half of one."""
    with atomic(path) as partial:
        step("write", partial)
        partial.write_bytes(content)


def write_json(path: Path, record: Any) -> None:
    """Write a JSON file as `write_bytes` does."""
    text = json.dumps(record, indent=1, sort_keys=True, allow_nan=False)
    write_bytes(path, text.encode())


def open_plain(path: Path, follow: bool = True) -> BinaryIO:
    """Open a file for reading; refuses pipes, devices and folders, and links unless `follow`.

    A pipe in place of a file would block for ever, and a device such as /dev/zero never ends.
    """
    # Without O_NONBLOCK, opening a pipe waits for a writer. Windows has neither flag, nor pipes.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    if not follow and path.is_symlink():
        raise DataError(f"{path} must be a plain file, not a link.")
    descriptor = os.open(path, flags)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise DataError(f"{path} must be a plain file, not a folder, pipe or device.")
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_plain(path: Path, limit: int, follow: bool = True) -> bytes:
    """Read a file of at most `limit` bytes."""
    with open_plain(path, follow) as stream:
        content = stream.read(limit + 1)
    if len(content) > limit:
        raise DataError(f"{path} has more than {limit:,} bytes; it is refused.")
    return content


def file_digest(
    path: Path, algorithm: str = "sha256", advance: Callable[[int], object] = lambda size: None
) -> str:
    """Hash a file without holding it in memory, and `advance` a progress bar by the bytes read.

    "md5" is for sums that publishers give.
    """
    digest = hashlib.new(algorithm, usedforsecurity=False)
    with open_plain(path) as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
            advance(len(block))
    return digest.hexdigest()


def sha256(content: bytes | memoryview) -> str:
    """Hash some bytes."""
    return hashlib.sha256(content).hexdigest()


def canonical_sha256(record: Any) -> str:
    """Hash a JSON record, whatever the order and spacing of its text."""
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return sha256(text.encode())


class Lock:
    """An exclusive lock on a file, which the system frees however the process ends.

    Args:
        path: A file, made if it is not there; a folder's is `.lock` in it, since network disks lock
            only what is open for writing.
        wait: Wait for the lock; otherwise a lock that is taken raises `Busy`.
    """

    def __init__(self, path: Path, wait: bool = False) -> None:
        if fcntl is None:
            raise OSError("Writing data sets takes file locks, which this system does not have.")
        while True:
            step("lock", path)
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                self.release()
                raise Busy(f"Another process works on {path}; wait until it ends.") from None
            except BaseException:
                self.release()
                raise
            if _is_open_at(self._descriptor, path):
                return
            self.release()  # the one before has removed it: a lock on a file without a name

    def release(self) -> None:
        """Let go; doing it twice is harmless."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> "Lock":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.partial")


def _is_open_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _sync(path: Path) -> None:
    step("sync", path)
    with suppress(PermissionError):  # a folder on Windows
        # Windows syncs only what is open for writing.
        descriptor = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
