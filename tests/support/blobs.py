"""Tiny image data sets that a small network learns in seconds: a blob moves as x, y and z say."""

from pathlib import Path

import numpy as np

from ident3d.conditionals import parse
from ident3d.dataset import Dataset, load
from ident3d.rows import row_latents
from ident3d.shards import Description, ShardWriter, shard_name, write_manifest

SIZE = 16


def blob(latents: np.ndarray, size: int = SIZE) -> np.ndarray:
    """x and y place the blob, z is its size."""
    grid = np.linspace(-1, 1, size)
    x, y, z = (latents[:, k, None, None] for k in range(3))
    distance = (grid[None, None, :] - 0.6 * x) ** 2 + (grid[None, :, None] - 0.6 * y) ** 2
    bright = np.exp(-distance / (0.08 + 0.06 * z))[..., None]
    return (bright * [250, 180, 90] + 5).astype(np.uint8)


def make_blobs(
    root: Path, split: str, rows: int, pairs: str | None = None, size: int = SIZE
) -> Dataset:
    """Write a split of blobs, with position factors varying, through the real writer."""
    description = Description(seed=0, settings={}, pairs=pairs)
    numbers = np.arange(rows)
    latents = row_latents(0, split, numbers)
    latents[:, 3:] = 0
    kinds = {"shard": latents}
    if pairs:
        drawn = parse(pairs).sample(latents, np.random.default_rng(0)).astype(np.float32)
        drawn[:, 3:] = 0
        kinds["pairs"] = drawn
    for kind, values in kinds.items():
        path = root / split / shard_name(0, kind)
        shape = (size, size, 3)
        with ShardWriter(path, numbers, values, shape, description, False, None) as writer:
            for position, image in enumerate(blob(values, size)):
                writer.put(position, image)
            writer.finish()
    write_manifest(root, split, description)
    return load(root / split)
