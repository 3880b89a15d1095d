"""Scores of embeddings against the true latents."""

from .scores import PROBES, PROVABLE, QUICK, SCORES, correlation, describe, points, score

__all__ = [
    "PROBES",
    "PROVABLE",
    "QUICK",
    "SCORES",
    "correlation",
    "describe",
    "points",
    "score",
]
