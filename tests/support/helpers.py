"""Small data sets for tests, with the row number painted into every image."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ident3d.conditionals import parse
from ident3d.dataset import Dataset, load
from ident3d.errors import DataError
from ident3d.factors import FACTORS
from ident3d.rows import row_latents
from ident3d.shards import Description, ShardWriter, shard_name, write_manifest
from ident3d.shards.manifest import MAX_SIDE


def painted(row: int, size: int = 8, mark: int = 0) -> np.ndarray:
    """An image that tells its row: three bytes of the number, and `mark` for positives."""
    image = np.zeros((size, size, 3), np.uint8)
    image[..., 0], image[..., 1], image[..., 2] = row % 256, row // 256 % 256, mark
    return image


def painted_row(image: np.ndarray) -> np.ndarray:
    """Read the row number back from one image or many."""
    return image[..., 0, 0, 0].astype(int) + 256 * image[..., 0, 0, 1].astype(int)


def shard_writer(folder: Path, count: int, **changes: Any) -> ShardWriter:
    """Open the first shard of a split, of so many rows."""
    given = {
        "rows": np.arange(count),
        "latents": row_latents(0, "train", range(count)),
        "shape": (8, 8, 3),
        "description": Description(seed=0),
    }
    return ShardWriter(folder / "train" / shard_name(0), **given | changes)


def check_unfinished_render_is_kept(root: Path, add: Callable[[], object], foreign: str) -> None:
    """Whatever `add` would add is refused beside a render, and beside files that it left."""
    with shard_writer(root, 4) as writer:
        writer.put(0, painted(0))
    plan = root / "train/.work/plan"
    plan.write_text("{}")
    with pytest.raises(DataError, match=r"has an unfinished render, by its \.work/plan; import"):
        add()
    plan.unlink()
    journal = plan.with_name("shard-00000.journal").rename(plan.with_name(foreign))
    with pytest.raises(DataError, match=rf"files of another run: \.work/{foreign};"):
        add()
    assert journal.exists() and not list(root.glob("train/*.h5"))


def large_images(root: Path) -> Dataset:
    """Write a row with an image as high as images may be; narrow, so that it is quick."""
    description, shape = Description(), (MAX_SIDE, 2, 3)
    path = root / "train" / shard_name(0)
    latents = np.zeros((1, 10), np.float32)
    with ShardWriter(path, np.arange(1), latents, shape, description) as writer:
        writer.put(0, np.arange(MAX_SIDE * 6, dtype=np.uint8).reshape(shape))
        writer.finish()
    write_manifest(root, "train", description)
    return load(root / "train")


def latent_data(
    rows: int,
    rendered: str | None = None,
    classes: np.ndarray | None = None,
    scale: float = 1.0,
    dim: int = 10,
    paint: Callable[[np.ndarray], np.ndarray] | None = None,
) -> SimpleNamespace:
    """Uniform latents as a data set in memory; painted, positives have numbers from 100,000 on."""
    latents = row_latents(0, "train", range(rows), dim) * np.float32(scale)
    numbers, pairs = np.arange(rows), None
    images, positives = (paint(numbers), paint(numbers + 100_000)) if paint else (None, None)
    if rendered is not None:
        drawn = parse(rendered).sample(latents, np.random.default_rng(0)).astype(np.float32)
        pairs = SimpleNamespace(latents=drawn, images=positives, conditional=rendered)
    return SimpleNamespace(
        latents=latents,
        images=images,
        factors=FACTORS,
        fingerprint="test",
        classes=classes,
        path=None,
        pairs=pairs,
    )


def make_dataset(
    root: Path,
    rows: int = 20,
    shard_size: int = 7,
    split: str = "train",
    size: int = 8,
    compress: bool = False,
    pairs: str | None = None,
    classes: int = 0,
    seed: int = 0,
) -> Dataset:
    """Write a data set through the real writer and open it."""
    names = tuple(f"class{k}" for k in range(classes)) or None
    description = Description(
        seed=seed, settings={"hue": "injective"}, pairs=pairs, class_names=names
    )
    for number, start in enumerate(range(0, rows, shard_size)):
        numbers = np.arange(start, min(start + shard_size, rows))
        latents = row_latents(seed, split, numbers)
        for kind in ("shard", "pairs") if pairs else ("shard",):
            values = latents if kind == "shard" else latents * np.float32(0.9)
            path = root / split / shard_name(number, kind)
            labels = numbers % classes if classes else None
            shape = (size, size, 3)
            with ShardWriter(path, numbers, values, shape, description, compress, labels) as writer:
                for position in writer.missing():
                    mark = int(kind == "pairs")
                    writer.put(position, painted(int(numbers[position]), size, mark))
                writer.finish()
    write_manifest(root, split, description)
    return load(root / split)
