"""Positive pairs: drawn, looked up and audited."""

from .pairs import CANDIDATES, METHODS, Batch, PairData, Pairs, View

__all__ = ["CANDIDATES", "METHODS", "Batch", "PairData", "Pairs", "View"]
