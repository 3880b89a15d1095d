"""From the embeddings of a split to the record of a run: the same for every way to get them."""

from itertools import compress
from typing import Any

import numpy as np

from ident3d.dataset import Dataset
from ident3d.errors import DataError
from ident3d.factors import varying
from ident3d.metrics import match_columns

from ..scoring import PROVABLE, correlation, points, score
from .environment import commit, environment
from .result import MAX_DIM, Result, scored_rows


def scored_latents(
    data: Dataset, protocol: str, rows: int | None = None
) -> tuple[np.ndarray, list[str]]:
    """Return the latents that a protocol scores, and their names: factors held fixed are left out.

    A fixed factor has no variance to explain: R2 and MCC do not exist for it.
    """
    latents = data.latents[: scored_rows(protocol, len(data)) if rows is None else rows]
    varies = varying(latents)
    if not varies.any():
        raise DataError(f"{data.path} varies no factor, so there is nothing to score.")
    return latents[:, varies], [factor.name for factor in compress(data.factors, varies)]


def image_fields(data: Dataset, embeddings: np.ndarray, protocol: str) -> dict[str, Any]:
    """Score the embeddings of a split's first rows; return those fields of a record."""
    latents, factors = scored_latents(data, protocol, len(embeddings))
    return {
        "protocol": protocol,
        "scores": score(latents, embeddings, protocol, factors, PROVABLE),
        "data": {
            "name": data.path.resolve().parent.name,
            "split": data.split,
            "rows": len(data),
            "fingerprint": data.fingerprint,
        },
        # Wider ones, such as a backbone's features, are scored but not drawn.
        "correlation": correlation(latents, embeddings) if embeddings.shape[1] <= MAX_DIM else None,
        "factors": factors,
        "points": points(latents, embeddings, protocol),
    }


def image_record(data: Dataset, embeddings: np.ndarray, *, protocol: str, **fields: Any) -> Result:
    """Score embeddings and return the record of the run that made them."""
    found = image_fields(data, embeddings, protocol)
    return Result(environment=environment(), commit=commit(), **found, **fields)


def matched(correlation: np.ndarray) -> list[int]:
    """Return, for each learned dimension, the factor that it was matched with, as MCC does."""
    factors, dimensions = match_columns(correlation)
    return factors[np.argsort(dimensions)].tolist()
