"""A small data set on disk whose images carry their row's number, and loaders of it."""

import numpy as np
import torch

from ident3d.conditionals import Normal
from ident3d.dataset import load
from ident3d.loaders import PairLoader
from ident3d.pairs import Pairs
from ident3d.rows import row_latents
from ident3d.shards import Description, ShardWriter, write_manifest

ROWS = 300
BATCH = 16


def painted(rows, size=8):
    """Images that carry their row's number in their first pixel."""
    images = np.full((len(rows), size, size, 3), 200, np.uint8)
    images[:, 0, 0] = np.stack([rows & 255, rows >> 8 & 255, rows >> 16], axis=1)
    return images


def painted_rows(images):
    """Read the numbers back, from (n, 3, H, W)."""
    return (images[:, :, 0, 0].long() * torch.tensor([1, 256, 65536])).sum(1)


def write_data(root):
    description = Description(seed=0, pairs="normal:0.1")
    latents = row_latents(0, "train", range(ROWS))
    drawn = Normal(0.1).sample(latents, np.random.default_rng(0)).astype(np.float32)
    for kind, values, first in (("shard", latents, 0), ("pairs", drawn, 100_000)):
        for number, rows in enumerate(np.split(np.arange(ROWS), [70, 200])):
            path = root / "train" / f"{kind}-{number:05d}.h5"
            with ShardWriter(path, rows, values[rows], (8, 8, 3), description) as writer:
                for position, image in enumerate(painted(rows + first)):
                    writer.put(position, image)
                writer.finish()
    write_manifest(root, "train", description)
    return load(root / "train")


def make_loader(data, method="nearest", seed=0, negatives=None, **settings):
    pairs = Pairs(data, Normal(0.1), seed, method=method, negatives=negatives)
    return PairLoader(pairs, BATCH, **settings)
