"""Scores of embeddings against the true latents."""

from .protocols import AS_RELEASED, HELD_OUT, PROTOCOLS, fit_and_score, scored_rows
from .scores import PROBES, PROVABLE, QUICK, SCORES, correlation, describe, points, score

__all__ = [
    "AS_RELEASED",
    "HELD_OUT",
    "PROBES",
    "PROTOCOLS",
    "PROVABLE",
    "QUICK",
    "SCORES",
    "correlation",
    "describe",
    "fit_and_score",
    "points",
    "score",
    "scored_rows",
]
