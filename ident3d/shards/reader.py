"""The images of a split as one array-like, read row by row from its shards."""

import math
import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin  # noqa: F401 (importing it teaches HDF5 to read zstd)
import numpy as np

from ..errors import DataError

_OPEN_FILES = 256  # handles kept per process; further shards are opened for one read each


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
        self._numbers = np.arange(self.shape[0])
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
        rows = self._numbers[key]  # numpy's own rules, negative numbers and IndexError included
        if self._memory is not None:
            return self._memory.take(rows, axis=0)  # a copy, for slices as well
        images = np.empty((rows.size, *self.shape[1:]), np.uint8)
        flat = np.atleast_1d(rows).ravel()
        shards = np.searchsorted(self._starts, flat, side="right") - 1
        for out, shard, row in zip(images, shards.tolist(), flat.tolist(), strict=True):
            self._open(shard).read(row - int(self._starts[shard]), out)
        return images.reshape(*np.shape(rows), *self.shape[1:])

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
                handle = _Shard(self._folder, self._shards[shard], self.shape[1:])
                if len(self._handles) < _OPEN_FILES:
                    handle = self._handles.setdefault(shard, handle)
        return handle


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
            if images.shape != (entry["rows"], *resolution) or images.dtype != np.uint8:
                raise DataError(
                    f"{path} disagrees with the manifest: {images.dtype} {images.shape}."
                )
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
            self._images.read_direct(out, np.s_[position])
            return
        start = self._offset + position * self._bytes_per_image
        if os.preadv(self._descriptor, [out.reshape(-1).data], start) != self._bytes_per_image:
            raise DataError(f"{self._path} is truncated; `ident3d verify` tells what is left.")


@contextmanager
def shard_file(path: Path) -> Iterator[h5py.File]:
    """Open a shard for as long as a `with` block lasts."""
    file = open_shard(path)
    try:
        yield file
    finally:
        file.close()


def open_shard(path: Path) -> h5py.File:
    """Open a shard, or say in one sentence what is wrong with it."""
    try:
        return h5py.File(path, "r")
    except FileNotFoundError:
        raise DataError(f"{path} is missing; render or import again to restore it.") from None
    except OSError:
        raise DataError(f"{path} is damaged, truncated or not an HDF5 file.") from None


def plain_dataset(file: h5py.File, name: str, path: Path) -> h5py.Dataset:
    """Get an array stored in this very file: HDF5 can also point at other files on this disk."""
    link = file.get(name, getlink=True) if name in file else None
    dataset = file[name] if isinstance(link, h5py.HardLink) else None
    if not isinstance(dataset, h5py.Dataset) or dataset.is_virtual or dataset.external:
        raise DataError(f"{path} has no plain `{name}`; it is not an ident3d shard.")
    return dataset


def read_columns(folder: Path, shards: list[dict[str, Any]], name: str) -> np.ndarray:
    """Read one of `latents`, `rows`, `classes` of all shards, in their order."""
    parts = []
    for shard in shards:
        path = folder / shard["name"]
        with shard_file(path) as file:
            dataset = plain_dataset(file, name, path)
            if dataset.shape[:1] != (shard["rows"],):
                raise DataError(
                    f"{path} holds `{name}` of shape {dataset.shape}, "
                    f"the manifest says {shard['rows']} rows."
                )
            parts.append(dataset[()])
    return np.concatenate(parts)


def image_shape(path: Path) -> tuple[int, ...]:
    """Tell the shape (n, H, W, 3) of a shard's images."""
    with shard_file(path) as file:
        return plain_dataset(file, "images", path).shape


def is_compressed(path: Path) -> bool:
    """Tell whether a shard stores one zstd chunk per image."""
    with shard_file(path) as file:
        return plain_dataset(file, "images", path).chunks is not None
