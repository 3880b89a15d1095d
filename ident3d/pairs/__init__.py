"""Positive pairs: drawn, looked up and audited."""

from .pairs import METHODS, Batch, Pairs, View

__all__ = ["METHODS", "Batch", "Pairs", "View"]
