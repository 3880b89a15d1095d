"""Scores of embeddings against the true latents."""

from .scores import SCORES, correlation, points, score

__all__ = ["SCORES", "correlation", "points", "score"]
