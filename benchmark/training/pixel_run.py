"""The identity of images, as released: factors read off all pixels, flattened, by a linear map.

There are more pixels than rows, so there are no embeddings to keep: R2 alone is computed.
"""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from ident3d.dataset import Dataset
from ident3d.rows import evenly

from ..results.records import data_fields, scored_latents
from ..scoring import AS_RELEASED, fit_and_score, scored_rows
from ..scoring.controls import pixel_r2

READ = 4_096  # rows, at most: the fit is solved in rows
RIDGE = {
    "fit": "ridge, chosen by rows left out",
    "mcc": "no MCC: the best of so many values would be picked",
}


def pixel_fields(data: Dataset, protocol: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Score all pixels; return the fields of a record, and in words what was done."""
    began = time.monotonic()
    rows = scored_rows(protocol, len(data))
    rows = rows[evenly(len(rows), READ)]
    latents, factors = scored_latents(data, protocol, rows)
    pixels = data.images[rows].reshape(len(rows), -1)
    released = protocol == AS_RELEASED
    fields = read_pixels(latents.astype(np.float64), pixels, factors, protocol, released)
    words = f"all {pixels.shape[1]:,} values of the image, flattened; {len(rows):,} rows"
    way = {"fit": "the map of least norm, as released"} if released else {}
    fields |= {"data": data_fields(data), "seconds": time.monotonic() - began}
    return fields, {"words": words, **RIDGE, **way}


def read_pixels(
    latents: np.ndarray,
    pixels: np.ndarray,
    factors: Sequence[str],
    protocol: str,
    least_norm: bool = False,
    synthetic: bool = False,
) -> dict[str, Any]:
    """Read latents, (n, d), off pixels, (n, p); return protocol, scores and factors of a record."""
    fit, scored = fit_and_score(protocol, len(latents), synthetic)
    per_factor = pixel_r2(latents, pixels, fit, scored, least_norm=least_norm)
    scores = {
        "r2": float(per_factor.mean()),
        "mcc": None,
        "r2_per_factor": dict(zip(factors, per_factor.tolist(), strict=True)),
    }
    return {"protocol": protocol, "scores": scores, "factors": list(factors)}
