"""The parts of an index: one for all rows, or one for each class, each with its certificate."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from ..errors import DataError
from ..files import read_plain, sha256
from .faiss_ivf import NearestRows, build, codes_suffice
from .tuning import CERTIFICATE_QUERIES, TUNING_QUERIES, Certificate, Queries, certify, tune

EXACT_BELOW = 10_000  # rows: comparing with every one is as fast as any index
Draw = Callable[[np.ndarray, int, int], Queries]  # points, how many, number of the random stream


def build_part(points: np.ndarray, recall: float, draw: Draw) -> tuple[NearestRows, Certificate]:
    """Build an index over `points`, tune it on some draws and certify it on others."""
    if len(points) < EXACT_BELOW:
        exact = NearestRows(points)
        return exact, certify(exact, points, draw(points, CERTIFICATE_QUERIES, 1), recall)
    coded = codes_suffice(*points.shape)
    part = build(points, coded)
    tuning = draw(points, TUNING_QUERIES, 0)
    if not tune(part, points, tuning, recall) and coded:
        part = build(points, coded=False)
        tune(part, points, tuning, recall)
    fresh = draw(points, CERTIFICATE_QUERIES, 1)
    certificate = certify(part, points, fresh, recall)
    while certificate.recall < recall and part.settings.probes < part.lists:
        part.set(part.settings.harder(part.lists))
        certificate = certify(part, points, fresh, recall)
    return part, certificate


def merge_certificates(certificates: list[Certificate], sizes: list[int]) -> Certificate:
    """One certificate for all parts: means by size, the worst speed and distances."""
    return Certificate(
        recall=float(np.average([c.recall for c in certificates], weights=sizes)),
        target=certificates[0].target,
        queries=sum(c.queries for c in certificates),
        per_second=min(c.per_second for c in certificates),
        distance_median=max(c.distance_median for c in certificates),
        distance_95=max(c.distance_95 for c in certificates),
    )


def read_bytes(path: Path, size: int, digest: str) -> bytes:
    """Read a file whose size and digest are known; anything else is refused unread by FAISS."""
    if (actual := path.stat().st_size) != size:
        raise DataError(f"{path} has {actual:,} bytes, its description says {size:,}")
    content = read_plain(path, size)
    if sha256(content) != digest:
        raise DataError(f"{path} was changed or damaged")
    return content
