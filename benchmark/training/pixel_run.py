"""The identity of images, as released: factors read off all pixels, flattened, by a linear map.

There are more pixels than rows, so there are no embeddings to keep: R2 alone is computed.
"""

import time
from typing import Any

import numpy as np

from ident3d.dataset import Dataset

from ..results.records import data_fields, scored_latents
from ..scoring import AS_RELEASED, fit_and_score, scored_rows
from ..scoring.controls import pixel_r2

READ = 4_096  # rows, at most: the fit is solved in rows


def pixel_fields(data: Dataset, protocol: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Score all pixels; return the fields of a record, and in words what was done."""
    began = time.monotonic()
    rows = scored_rows(protocol, len(data))
    if len(rows) > READ:
        rows = rows[np.linspace(0, len(rows) - 1, READ).astype(int)]
    latents, factors = scored_latents(data, protocol, rows)
    pixels = data.images[rows].reshape(len(rows), -1)
    released = protocol == AS_RELEASED
    fit, scored = fit_and_score(protocol, len(rows))
    per_factor = pixel_r2(latents.astype(np.float64), pixels, fit, scored, least_norm=released)
    way = "the map of least norm, as released" if released else "ridge, chosen by rows left out"
    words = {
        "words": f"all {pixels.shape[1]:,} values of the image, flattened; {len(rows):,} rows",
        "fit": way,
        "mcc": "no MCC: the best of so many values would be picked",
    }
    fields = {
        "protocol": protocol,
        "scores": {
            "r2": float(per_factor.mean()),
            "mcc": None,
            "r2_per_factor": dict(zip(factors, per_factor.tolist(), strict=True)),
        },
        "factors": factors,
        "data": data_fields(data),
        "seconds": time.monotonic() - began,
    }
    return fields, words
