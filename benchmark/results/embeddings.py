"""Embeddings on disk: plain .npy matrices, written atomically, read with care."""

from pathlib import Path

import numpy as np

from ident3d.errors import DataError
from ident3d.outside import read_npy, write_npy

MAX_VALUE = 1e15  # squares and sums of embeddings stay finite


def save_embeddings(path: Path, embeddings: np.ndarray) -> None:
    """Write a matrix as float32 if it is that, else as float64."""
    array = np.asarray(embeddings)
    kept = array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)
    write_npy(path, kept)


def read_embeddings(path: Path) -> np.ndarray:
    """Read a plain .npy matrix; never a pickle, never an archive: those run code."""
    if not path.is_file():
        raise DataError(f"{path} is missing; it must hold the embeddings, a .npy file.")
    array = read_npy(path)
    if array.ndim != 2 or len(array) < 2 or not array.shape[1]:
        raise DataError(
            f"{path} must hold numbers of shape (n, k) in 2 rows or more, "
            f"got {array.dtype} {array.shape}."
        )
    return finite(array, str(path))


def finite(embeddings: np.ndarray, what: str) -> np.ndarray:
    """Return the embeddings if every value is finite and of a sane size."""
    fits = (embeddings >= -MAX_VALUE) & (embeddings <= MAX_VALUE)  # NaN is neither
    if not fits.all():
        row = int(np.argmin(fits.all(axis=1)))
        value = embeddings[row][~fits[row]][0]
        raise DataError(f"{what} must be finite and below {MAX_VALUE:g}; row {row} holds {value}.")
    return embeddings
