"""The images of a split as one array-like, read row by row from its shards."""

import errno
import math
import os
import stat
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin  # noqa: F401 (importing it teaches HDF5 to read zstd)
import numpy as np

from ..errors import DataError
from ..factors import Factor, as_latents

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

_OPEN_FILES = 256  # shards kept open, if the system allows four times as many; the oldest goes
REMAKE = "remove it and run the command that made it once more: it makes this file alone"
# name -> (type, number of axes): what a shard may hold
_ARRAYS = {
    "images": (np.dtype("|u1"), 4),
    "latents": (np.dtype("<f4"), 2),
    "rows": (np.dtype("<i8"), 1),
    "classes": (np.dtype("<i8"), 1),
    "sequences": (np.dtype("<i8"), 1),
    "digests": (np.dtype("|u1"), 2),
}
# How h5py says that a file's own tables are damaged; what the system refuses has a number.
_CONFUSED = (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError)


class Images:
    """Array-like uint8 (n, H, W, 3) over shards; gathers rows in the order requested.

    Uncompressed shards are read with `pread`, one call per row and straight into the result: no
    state to share, so threads and forked workers cannot disturb each other. Once `to_memory` has
    read all of them, rows come from RAM: in forked workers too, while a pickled copy reads files.
    """

    dtype = np.dtype(np.uint8)

    def __init__(
        self, folder: Path, shards: list[dict[str, Any]], resolution: tuple[int, int, int]
    ) -> None:
        counts = [shard["rows"] for shard in shards]
        self.shape = (sum(counts), *resolution)
        self._folder = folder
        self._shards = shards
        self._starts = np.concatenate([[0], np.cumsum(counts)])
        self._memory: np.ndarray | None = None
        self._forget_handles()

    @property
    def nbytes(self) -> int:
        """Size of all images as one array."""
        return math.prod(self.shape)

    def to_memory(self) -> None:
        """Read all images once and keep them."""
        if self._memory is None:
            self._memory = self[:]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> np.ndarray:
        """Read one image (an integer) or several (a slice, list, array or mask)."""
        rows = self._rows(key)
        images = np.empty((rows.size, *self.shape[1:]), np.uint8)
        self.read_into(rows.ravel(), images)
        return images.reshape(*rows.shape, *self.shape[1:])

    def read_into(self, rows: np.ndarray, out: np.ndarray | Sequence[np.ndarray]) -> None:
        """Read rows, given by number, into memory that is there already.

        Args:
            rows: Row numbers, shape (n,).
            out: Where their images go: uint8 (n, H, W, 3), or n arrays (H, W, 3).
        """
        rows = self._rows(rows)
        if self._memory is None:
            shards = np.searchsorted(self._starts, rows, side="right") - 1
            for image, shard, row in zip(out, shards.tolist(), rows.tolist(), strict=True):
                self._open(shard).read(row - int(self._starts[shard]), image)
        elif isinstance(out, np.ndarray):
            # Rows are checked; by default numpy would check them again, and copy for that.
            self._memory.take(rows, axis=0, out=out, mode="clip")
        else:
            for image, row in zip(out, rows.tolist(), strict=True):
                image[...] = self._memory[row]

    def _rows(self, key: Any) -> np.ndarray:
        """Find the rows that a key means by numpy's rules, negative numbers included."""
        count = len(self)
        if isinstance(key, slice):
            return np.arange(*key.indices(count))
        if isinstance(key, tuple):
            raise IndexError("Images are read whole; index what `images[rows]` returns.")
        rows = np.asarray(key)
        if rows.dtype.kind not in "iu":
            return np.arange(count)[key]  # masks, the empty list, and numpy's own errors
        if rows.size and not -count <= int(rows.min()) <= int(rows.max()) < count:
            raise IndexError(f"There are {count:,} images, so there is no row {key!r}."[:200])
        rows = rows.astype(np.int64)  # small types would overflow
        return np.where(rows < 0, rows + count, rows)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self[:].astype(dtype or np.uint8, copy=False)

    def __repr__(self) -> str:
        return f"Images({str(self._folder)!r}, shape={self.shape})"

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without handles and images: the receiving process opens its own files."""
        own = ("_handles", "_pid", "_lock", "_memory")
        return {name: value for name, value in self.__dict__.items() if name not in own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._memory = None
        self._forget_handles()

    def _forget_handles(self) -> None:
        self._pid = os.getpid()
        self._handles: dict[int, _Shard] = {}
        self._lock = threading.Lock()

    def _open(self, shard: int) -> "_Shard":
        if self._pid != os.getpid():  # forked: the parent's handles and lock are the parent's
            self._forget_handles()
        handle = self._handles.get(shard)
        if handle is None:
            with self._lock:
                handle = self._opened(shard)
                while len(self._handles) >= _most_open():
                    del self._handles[next(iter(self._handles))]  # closed once nobody reads it
                handle = self._handles.setdefault(shard, handle)
        return handle

    def _opened(self, shard: int) -> "_Shard":
        try:
            return _Shard(self._folder, self._shards[shard], self.shape[1:])
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._handles:
                raise
        self._handles.clear()  # others need files too: go on with fewer
        return _Shard(self._folder, self._shards[shard], self.shape[1:])


class _Shard:
    """One open shard: where its images lie in the file, or its HDF5 data set if compressed."""

    def __init__(
        self, folder: Path, entry: dict[str, Any], resolution: tuple[int, int, int]
    ) -> None:
        self._descriptor = -1
        self._images: h5py.Dataset | None = None
        self._path = path = folder / entry["name"]
        file = open_shard(path)
        try:
            images = plain_dataset(file, "images", path)
            if images.shape != (entry["rows"], *resolution):
                raise DataError(f"{path} disagrees with the manifest: {images.shape}.")
            self._bytes_per_image = int(np.prod(resolution))
            offset = None if images.chunks else images.id.get_offset()
            if offset is None or not hasattr(os, "preadv"):
                self._images, file = images, None  # keep the file open
            else:
                self._offset, self._descriptor = offset, os.open(path, os.O_RDONLY)
                # Unlike `__del__`, it works when an exiting interpreter has emptied this module.
                weakref.finalize(self, os.close, self._descriptor)
        finally:
            if file is not None:
                file.close()

    def read(self, position: int, out: np.ndarray) -> None:
        """Read one image into `out`."""
        if self._images is not None:
            with honest_errors(self._path):
                self._images.read_direct(out, np.s_[position])
            return
        start = self._offset + position * self._bytes_per_image
        if os.preadv(self._descriptor, [out.data], start) != self._bytes_per_image:
            raise DataError(f"{self._path} is truncated; `ident3d verify` tells what is left.")


def open_shard(path: Path) -> h5py.File:
    """Open a shard, or say in one sentence what is wrong with it."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # a pipe would wait for ever
            raise DataError(f"{path} is not a plain file; {REMAKE}.")
        with honest_errors(path):
            return h5py.File(path, "r")
    except FileNotFoundError:
        raise DataError(f"{path} is missing; render or import again to restore it.") from None


@contextmanager
def honest_errors(path: Path) -> Iterator[None]:
    """Tell what the system refused from what is wrong with the file, whatever HDF5 makes of it."""
    try:
        yield
    except _CONFUSED as error:
        number = error.errno if isinstance(error, OSError) else None
        if number:
            raise OSError(number, os.strerror(number), str(path)) from None
        raise DataError(f"{path} is damaged, truncated or not an HDF5 file; {REMAKE}.") from None


def plain_dataset(file: h5py.File, name: str, path: Path) -> h5py.Dataset:
    """Get an array stored in this very file, whole and of its type.

    HDF5 can also point at other files on this disk, and declare a size that was never written.
    """
    with honest_errors(path):
        link = file.get(name, getlink=True) if name in file else None
        dataset = file[name] if isinstance(link, h5py.HardLink) else None
        if not isinstance(dataset, h5py.Dataset) or dataset.is_virtual or dataset.external:
            dataset, whole = None, False
        else:
            whole = _is_stored(dataset, name, os.stat(path).st_size)
    if dataset is None:
        raise DataError(f"{path} has no plain `{name}`; it is not an ident3d shard: {REMAKE}.")
    form = f"`{name}` of {dataset.dtype} {dataset.shape}"
    if (dataset.dtype, dataset.ndim) != _ARRAYS[name]:
        raise DataError(f"{path} has {form}; it is not an ident3d shard: {REMAKE}.")
    if not whole:
        raise DataError(f"{path} declares {form}, which was never written; {REMAKE}.")
    return dataset


def _is_stored(dataset: h5py.Dataset, name: str, file_size: int) -> bool:
    """Tell whether every value declared has its place in the file."""
    if dataset.chunks is None:
        start = dataset.id.get_offset()
        return start is not None and start + dataset.nbytes <= file_size
    one_image = (1, *dataset.shape[1:])
    return (
        name == "images"
        and dataset.chunks == one_image
        and dataset.shape[0] <= file_size  # before HDF5 counts them
        and dataset.id.get_num_chunks() == dataset.shape[0]
    )


def _most_open() -> int:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0] if resource else 4 * _OPEN_FILES
    return max(1, min(_OPEN_FILES, limit // 4)) if limit > 0 else _OPEN_FILES  # below 0: none


def read_columns(folder: Path, shards: list[dict[str, Any]], name: str) -> np.ndarray:
    """Read a column, such as `latents` or `rows`, of all shards, in their order."""
    parts = []
    for shard in shards:
        path = folder / shard["name"]
        with open_shard(path) as file:
            parts.append(read_array(file, name, path))
        if len(parts[-1]) != shard["rows"]:
            raise DataError(
                f"{path} holds `{name}` of shape {parts[-1].shape}, "
                f"the manifest says {shard['rows']} rows."
            )
    return np.concatenate(parts)


def read_latents(
    folder: Path, shards: list[dict[str, Any]], factors: Sequence[Factor]
) -> np.ndarray:
    """Read the unit latents of all shards; past this line they are trusted.

    Digests tell whether a file is as it was written, not whether that was right.
    """
    parts = []
    for shard in shards:
        found = read_columns(folder, [shard], "latents")
        try:
            parts.append(as_latents(found, factors))
        except ValueError as error:
            said = str(error).split(". ")[0].rstrip(".")  # without advice for who wrote them
            raise DataError(
                f"{folder / shard['name']} is of no use ({said}); "
                "make or download the data set again."
            ) from None
    return np.concatenate(parts)


def read_array(file: h5py.File, name: str, path: Path) -> np.ndarray:
    """Read a whole array of a shard that is open."""
    dataset = plain_dataset(file, name, path)
    with honest_errors(path):
        return dataset[()]


def image_shape(path: Path) -> tuple[int, ...]:
    """Tell the shape (n, H, W, 3) of a shard's images."""
    with open_shard(path) as file:
        return plain_dataset(file, "images", path).shape


def is_compressed(path: Path) -> bool:
    """Tell whether a shard stores one zstd chunk per image."""
    with open_shard(path) as file:
        return plain_dataset(file, "images", path).chunks is not None
