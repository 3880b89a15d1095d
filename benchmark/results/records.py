"""From the embeddings of a split to the record of a run: the same for every way to get them."""

from collections.abc import Collection
from itertools import compress
from typing import Any

import numpy as np

from ident3d.dataset import Dataset
from ident3d.errors import DataError
from ident3d.factors import varying

from ..scoring import PROVABLE, QUICK, correlation, points, score, scored_rows
from .environment import commit, environment
from .result import MAX_DIM, Result


def scored_latents(
    data: Dataset, protocol: str, rows: np.ndarray | None = None
) -> tuple[np.ndarray, list[str]]:
    """Return the latents that a protocol scores, and their names: factors held fixed are left out.

    A fixed factor has no variance to explain: R2 and MCC do not exist for it. `rows` are others
    than the protocol's own.
    """
    latents = data.latents[scored_rows(protocol, len(data)) if rows is None else rows]
    varies = varying(latents)
    if not varies.any():
        raise DataError(f"{data.path} varies no factor, so there is nothing to score.")
    return latents[:, varies], [factor.name for factor in compress(data.factors, varies)]


def image_fields(
    data: Dataset,
    embeddings: np.ndarray,
    protocol: str,
    rows: np.ndarray | None = None,
    names: Collection[str] = PROVABLE,
) -> dict[str, Any]:
    """Score the embeddings of a protocol's rows, or of others; return those fields of a record."""
    found = score_fields(scored_latents(data, protocol, rows), embeddings, protocol, names)
    return found | {"data": data_fields(data)}


def score_fields(
    truth: tuple[np.ndarray, list[str]],
    embeddings: np.ndarray,
    protocol: str,
    names: Collection[str] = QUICK,
    synthetic: bool = False,
) -> dict[str, Any]:
    """Score embeddings of rows with true latents, and names of those; return those fields."""
    latents, factors = truth
    return {
        "protocol": protocol,
        "scores": score(latents, embeddings, protocol, factors, names, synthetic=synthetic),
        # Wider ones, such as a backbone's features, are scored but not drawn.
        "correlation": correlation(latents, embeddings) if embeddings.shape[1] <= MAX_DIM else None,
        "factors": factors,
        "points": points(latents, embeddings, protocol, synthetic=synthetic),
    }


def data_fields(data: Dataset) -> dict[str, Any]:
    """Return what a record says of a split."""
    return {
        "name": data.path.resolve().parent.name,
        "split": data.split,
        "rows": len(data),
        "fingerprint": data.fingerprint,
        "resolution": data.images.shape[1],
        # A stand-in is told from what was published.
        **{name: data.settings[name] for name in ("made_by",) if name in data.settings},
    }


def image_record(data: Dataset, embeddings: np.ndarray, *, protocol: str, **fields: Any) -> Result:
    """Score embeddings and return the record of the run that made them."""
    found = image_fields(data, embeddings, protocol)
    return Result(environment=environment(), commit=commit(), **found, **fields)
