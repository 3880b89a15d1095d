"""Arrays that a caller hands over: real numbers, or refused."""

from typing import Any

import numpy as np


def as_reals(values: Any, name: str, dtype: type[np.floating] = np.float64) -> np.ndarray:
    """Turn real numbers into an array of floats.

    Numpy alone would also read text as numbers, and drop the imaginary part of complex ones.
    """
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"`{name}` must hold real numbers, got {array.dtype}.")
    with np.errstate(over="ignore"):  # too large for float32 is infinite, which callers refuse
        return np.asarray(array, dtype)
