"""Opening a path that somebody else may have made: plain files only.

A pipe in place of a file would block for ever, and a device such as /dev/zero never ends.
"""

import os
import stat
from pathlib import Path
from typing import BinaryIO

from ..errors import DataError


def open_plain(path: Path, follow: bool = True) -> BinaryIO:
    """Open a file for reading; refuses pipes, devices and folders, and links unless `follow`."""
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
