"""Choosing an index's search settings, and the certificate that says what they are worth.

The measure is the one that counts for pairs: a query is a point near a row, and the right answer
is the nearest row other than that one. Nothing here depends on timings, so the same data gives the
same settings, and the same pairs, on every machine.
"""

import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from .faiss_ivf import IvfRows, NearestRows, Settings

TUNING_QUERIES = 4096
CERTIFICATE_QUERIES = 4096
_PROBES = (4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64, 80, 96, 128, 192, 256, 384, 512)
_CANDIDATES = (8, 12, 16, 24, 32, 48, 64)
_BEAMS = (1.0, 1.5, 2.0)  # efSearch, in units of the lists it must find
_TREE_DIMENSIONS = 16  # beyond about this, a k-d tree is slower than comparing with every row


class Queries(NamedTuple):
    """Points to look up, and for each the row that must not be the answer (-1: none)."""

    points: np.ndarray
    exclude: np.ndarray


@dataclass(frozen=True)
class Certificate:
    """What an index was measured to be worth, on queries that did not tune it."""

    recall: float  # share of queries answered with the nearest row other than the excluded one
    target: float
    queries: int
    per_second: float
    distance_median: float  # to the row served, in the index's own units
    distance_95: float


def draws_near(points: np.ndarray, n: int, rng: np.random.Generator) -> Queries:
    """Draw queries like those of pairs: rows plus noise of many widths, and uniform points."""
    low, high = points.min(0), points.max(0)
    rows = rng.integers(len(points), size=n)
    widths = rng.choice([0.05, 0.1, 0.2, 0.4], (n, 1)) * (high - low) / 2
    near = np.clip(points[rows] + widths * rng.standard_normal(points[rows].shape), low, high)
    uniform = rng.uniform(low, high, near.shape)
    anywhere = rng.random(n) < 0.2
    queries = np.where(anywhere[:, None], uniform, near).astype(np.float32)
    return Queries(queries, np.where(anywhere, -1, rows))


def exact_nearest(points: np.ndarray, queries: Queries) -> np.ndarray:
    """Find the true nearest row other than the excluded one, shape (n,)."""
    if points.shape[1] > _TREE_DIMENSIONS:
        return NearestRows(points).search(queries.points, 1, queries.exclude)[1][:, 0]
    _, found = cKDTree(points).query(queries.points, 2, workers=-1)
    return nearest_other(found, queries.exclude)


def nearest_other(neighbours: np.ndarray, exclude: np.ndarray) -> np.ndarray:
    """Pick each query's nearest row that is not its excluded one.

    Args:
        neighbours: Row ids of the two nearest rows, nearest first, shape (n, 2).
        exclude: Row that must not be picked, shape (n,); -1 for none.
    """
    return np.where(neighbours[:, 0] == exclude, neighbours[:, 1], neighbours[:, 0])


def share_found(
    points: np.ndarray, queries: Queries, found: np.ndarray, truth: np.ndarray
) -> float:
    """Tell the share of queries whose row is as near as the true one; equal distances both count.

    Distances are compared in float64, so rounding inside an index is no excuse and no penalty.
    """
    near, best = (
        np.square(points[rows].astype(np.float64) - queries.points).sum(1)
        for rows in (found, truth)
    )
    return float((near <= best * (1 + 1e-6)).mean())


def tune(searcher: IvfRows, points: np.ndarray, queries: Queries, target: float) -> bool:
    """Set the least work that reaches the target recall on `queries`; False if none does.

    Probes cost most, so they are settled first, with the rest generous.
    """
    truth = exact_nearest(points, queries)
    # Chance alone would let settings just below the target pass here and fail on other queries.
    enough = 1 - (1 - target) / 2

    def reaches(settings: Settings) -> bool:
        searcher.set(settings)
        found = searcher.search(queries.points, 1, queries.exclude)[1][:, 0]
        return share_found(points, queries, found, truth) >= enough

    most = _CANDIDATES[-1]
    # Compressed codes that still miss after reading half the lists are too coarse for the data.
    limit = searcher.lists // 2 if searcher.coded else searcher.lists
    ladder = [probes for probes in _PROBES if probes < limit] + [limit]
    probes = next((p for p in ladder if reaches(Settings(p, 2 * p, most))), None)
    if probes is None:
        return False
    candidates = next(
        c for c in _CANDIDATES if c == most or reaches(Settings(probes, 2 * probes, c))
    )
    beams = [int(beam * probes) for beam in _BEAMS]
    ef_search = next(e for e in beams if e == beams[-1] or reaches(Settings(probes, e, candidates)))
    searcher.set(Settings(probes, ef_search, candidates))
    return True


def certify(
    searcher: NearestRows, points: np.ndarray, queries: Queries, target: float
) -> Certificate:
    """Measure recall against exact search, and speed."""
    start = time.perf_counter()
    distances, found = searcher.search(queries.points, 1, queries.exclude)
    seconds = time.perf_counter() - start
    return Certificate(
        recall=share_found(points, queries, found[:, 0], exact_nearest(points, queries)),
        target=target,
        queries=len(queries.points),
        per_second=len(queries.points) / seconds,
        distance_median=float(np.median(distances)),
        distance_95=float(np.quantile(distances, 0.95)),
    )
