"""Every row of a data set by its address: (seed, split, row) alone decides its latents.

Counter-based (Philox), so any row can be drawn by itself, on any machine and in any order, and
shard size, worker count and resuming change nothing.
"""

import hashlib
from collections.abc import Sequence

import numpy as np

_WORDS_PER_BLOCK = 4  # one Philox counter step yields four 64-bit words


def row_latents(
    seed: int, split: str, rows: Sequence[int] | np.ndarray, dim: int = 10
) -> np.ndarray:
    """Draw the unit latents of the given rows, uniform in [-1, 1], shape (n, dim), float32."""
    rows = _checked(rows)
    blocks = -(-dim // _WORDS_PER_BLOCK)
    latents = np.empty((len(rows), dim), np.float32)
    # Runs of consecutive rows come from one generator: drawing 250,000 rows takes milliseconds.
    breaks = np.flatnonzero(np.diff(rows) != 1) + 1
    for start, stop in zip([0, *breaks], [*breaks, len(rows)], strict=True):
        if start == stop:
            continue
        generator = np.random.Philox(key=_key(seed, split, "latents"))
        generator.advance(int(rows[start]) * blocks)
        words = generator.random_raw((stop - start) * blocks * _WORDS_PER_BLOCK)
        words = words.reshape(stop - start, -1)[:, :dim]
        latents[start:stop] = (words >> np.uint64(11)) * 2.0**-52 - 1.0
    return latents


def row_generator(seed: int, split: str, row: int, stream: str) -> np.random.Generator:
    """Open the random stream `stream` of one row, for what else belongs to it, such as its pair."""
    (row,) = _checked([row])
    # The row fills the counter's third word, so 2**128 draws separate one row from the next.
    philox = np.random.Philox(key=_key(seed, split, stream), counter=[0, 0, int(row), 0])
    return np.random.Generator(philox)


def _key(seed: int, split: str, stream: str) -> int:
    """Hash the address to Philox's 128-bit key; spelled out so that it never changes."""
    digest = hashlib.sha256(f"ident3d/{seed}/{split}/{stream}".encode()).digest()
    return int.from_bytes(digest[:16], "little")


def _checked(rows: Sequence[int] | np.ndarray) -> np.ndarray:
    rows = np.asarray(rows, dtype=np.int64)
    if rows.ndim != 1 or rows.min(initial=0) < 0:
        raise ValueError("`rows` must be a list of row numbers of at least 0.")
    return rows


def evenly(rows: int, most: int) -> np.ndarray:
    """Return at most `most` of the numbers 0 to rows - 1, evenly spaced, both ends among them."""
    return np.linspace(0, rows - 1, min(rows, most)).astype(int)
