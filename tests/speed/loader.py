"""The loader beside one written as the released one works: `python -m tests.speed.loader`.

Reference: PNG files read with Pillow, and for each pair two one-row FAISS searches
(IVF1024_HNSW32, nprobe 10), one for the anchor and one for the positive. Both sides read the same
images, all of them in the page cache, and search the same 250,000 latents. Images are synthetic: an
ellipsoid under one light before a gradient, with noise that makes a PNG about as large as a
rendered one (23 KB). Only the pixels of 2,000 rows are on disk: row r has those of r mod 2,000.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import faiss
import numpy as np
from PIL import Image

from ident3d.conditionals import Normal
from ident3d.dataset import load
from ident3d.factors import FACTORS
from ident3d.index import Index, open_index
from ident3d.index.tuning import Queries, exact_nearest, share_found
from ident3d.loaders import PairLoader
from ident3d.pairs import Pairs
from ident3d.rows import row_latents
from ident3d.shards import Description, ShardWriter, write_manifest

ROWS, IMAGES, BATCH, SIZE = 250_000, 2_000, 512, 224
CONDITIONAL = Normal(0.1)


def render_like(latents: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Shade one ellipsoid per row of latents, uint8 (n, SIZE, SIZE, 3)."""
    y, x = np.mgrid[-1 : 1 : SIZE * 1j, -1 : 1 : SIZE * 1j].astype(np.float32)
    images = np.empty((len(latents), SIZE, SIZE, 3), np.uint8)
    for image, z in zip(images, latents, strict=True):
        u, v = (x - 0.3 * z[0]) / (0.45 + 0.1 * z[2]), (y - 0.3 * z[1]) / (0.35 + 0.05 * z[3])
        height = np.sqrt(np.clip(1 - u**2 - v**2, 0, None))
        shade = np.clip(0.3 * u * z[6] + 0.5 * v * z[4] + 0.8 * height, 0, 1) + height**40
        ground = 70 + 20 * z[9] + 25 * x + 20 * y
        for channel, colour in enumerate(120 + 60 * np.cos(z[7] * 2 + np.arange(3) * 2.1)):
            values = np.where(height > 0, colour * shade, ground + 8 * channel)
            # A path tracer's noise: mostly none, here and there one level.
            values += 0.125 * rng.standard_normal(values.shape)
            image[..., channel] = np.clip(values, 0, 255)
    return images


class Folded:
    """Array-like of ROWS images over the few on disk."""

    dtype = np.dtype(np.uint8)
    shape = (ROWS, SIZE, SIZE, 3)

    def __init__(self, images: object) -> None:
        self.images = images

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        return self.images[rows % IMAGES]


def write(root: Path, latents: np.ndarray) -> np.ndarray:
    """Write the images both ways, as PNG files and as shards; return them."""
    rng = np.random.default_rng(0)
    description = Description(seed=0)
    (root / "png").mkdir()
    images = render_like(latents[:IMAGES], rng)
    for number, rows in enumerate(np.split(np.arange(IMAGES), 2)):
        path = root / "train" / f"shard-{number:05d}.h5"
        with ShardWriter(path, rows, latents[rows], (SIZE, SIZE, 3), description) as writer:
            for position, row in enumerate(rows):
                writer.put(position, images[row])
                Image.fromarray(images[row]).save(root / "png" / f"{row:06d}.png")
            writer.finish()
    write_manifest(root, "train", description)
    return images


class Released:
    """One pair at a time, as the released loader finds and reads them."""

    def __init__(self, latents: np.ndarray, folder: Path) -> None:
        self.folder = folder
        self.rng = np.random.default_rng(0)
        self.index = faiss.index_factory(latents.shape[1], "IVF1024_HNSW32,Flat")
        self.index.train(latents)
        self.index.add(latents)
        self.index.nprobe = 10

    def look_up(self, anchor: np.ndarray, positive: np.ndarray) -> tuple[int, int]:
        """Search for one pair of points, two searches of one row each."""
        first = int(self.index.search(anchor, 1)[1][0, 0])
        found = self.index.search(positive, 2)[1][0]
        return first, int(found[1] if found[0] == first else found[0])

    def pair(self) -> tuple[np.ndarray, np.ndarray]:
        """Draw and read one pair."""
        anchor = self.rng.uniform(-1, 1, (1, len(FACTORS)))
        positive = CONDITIONAL.sample(anchor, self.rng)
        rows = self.look_up(anchor.astype(np.float32), positive.astype(np.float32))
        return tuple(self._read(row % IMAGES) for row in rows)

    def batch(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Stack pairs to a batch."""
        anchors, positives = zip(*(self.pair() for _ in range(size)), strict=True)
        return np.stack(anchors), np.stack(positives)

    def _read(self, row: int) -> np.ndarray:
        with Image.open(self.folder / f"{row:06d}.png") as image:
            return np.asarray(image.convert("RGB"))


def seconds(work: Callable[[], object], repeats: int) -> float:
    """Time the quickest of several calls."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def line(what: str, plain: str, ours: str, ratio: float, goal: str) -> None:
    """Print one row of the table."""
    print(f"| {what} | {plain} | {ours} | {ratio:.1f} | {goal} |", flush=True)


def compare_lookups(data: SimpleNamespace, index: Index, released: Released) -> None:
    """Both find a positive for the same draws; the reference finds the anchor's row, too."""
    rng = np.random.default_rng(1)
    rows = rng.integers(ROWS, size=8 * BATCH)
    anchors = data.latents[rows]
    drawn = CONDITIONAL.sample(anchors, rng).astype(np.float32)
    truth = exact_nearest(data.latents, Queries(drawn, rows))

    def ours() -> np.ndarray:
        batches = range(0, len(rows), BATCH)
        found = [index.search(drawn[b : b + BATCH], 1, rows[b : b + BATCH])[1] for b in batches]
        return np.concatenate(found)[:, 0]

    def plain() -> list[tuple[int, int]]:
        return [released.look_up(anchors[i : i + 1], drawn[i : i + 1]) for i in range(BATCH)]

    times = [(seconds(plain, 1) / BATCH, seconds(ours, 2) / len(rows)) for _ in range(5)]
    slow, fast = (min(column) for column in zip(*times, strict=True))
    recall = [
        share_found(data.latents, Queries(drawn[: len(found)], rows), found, truth[: len(found)])
        for found in (np.array(plain())[:, 1], ours())
    ]
    line(
        "look-ups, pairs/s",
        f"{1 / slow:,.0f} (recall {recall[0]:.4f})",
        f"{1 / fast:,.0f} (recall {recall[1]:.4f})",
        slow / fast,
        "5, recall 0.999",
    )


def compare_batches(data: SimpleNamespace, released: Released) -> None:
    """Whole batches of 512 pairs, in one process; ours through the torch loader."""
    loader = iter(PairLoader(Pairs(data, CONDITIONAL, seed=0), BATCH))
    next(loader)
    times = [
        (seconds(lambda: released.batch(BATCH), 1), seconds(lambda: next(loader), 4))
        for _ in range(3)
    ]
    slow, fast = (min(column) for column in zip(*times, strict=True))
    line(
        f"batches of {BATCH} pairs, {SIZE} px, s",
        f"{slow:.3f}",
        f"{fast:.3f}",
        slow / fast,
        "20",
    )


def compare_gathers(stored: object, images: np.ndarray) -> None:
    """512 images in any order, from disk's page cache and from an array in RAM."""
    rng = np.random.default_rng(2)

    def rows() -> np.ndarray:
        return rng.integers(IMAGES, size=BATCH)

    times = [
        (seconds(lambda: images[rows()], 3), seconds(lambda: stored[rows()], 3)) for _ in range(5)
    ]
    ram, disk = (BATCH / min(column) for column in zip(*times, strict=True))
    line("gathers, images/s (reference: RAM)", f"{ram:,.0f}", f"{disk:,.0f}", disk / ram, "0.5")


def main() -> None:
    """Print the table."""
    latents = row_latents(0, "train", range(ROWS))
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        images = write(root, latents)
        stored = load(root / "train")
        data = SimpleNamespace(
            latents=latents, images=Folded(stored.images), factors=FACTORS,
            fingerprint="speed", classes=None, path=root, pairs=None,
        )  # fmt: skip
        size = np.mean([path.stat().st_size for path in (root / "png").iterdir()]) / 1024
        print(f"{ROWS:,} rows, {CONDITIONAL}, PNG files of {size:.1f} KB, {faiss.__version__=}\n")
        start = time.perf_counter()
        index = open_index(data)
        built = time.perf_counter() - start
        loaded = seconds(lambda: Index.load(data), 3)
        released = Released(latents, root / "png")
        print("| what | reference | ident3d | ratio | goal |\n|---|---|---|---|---|")
        compare_batches(data, released)
        compare_lookups(data, index, released)
        compare_gathers(stored.images, images)
        print(
            f"\nIndex built and tuned in {built:.1f} s (goal 10), loaded in {loaded:.3f} s (0.2)."
        )
        print(f"Certificate: {index.certificate}")


if __name__ == "__main__":
    main()
