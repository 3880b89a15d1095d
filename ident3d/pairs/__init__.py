"""Positive pairs: drawn, looked up and audited."""

from .batches import Batch, View
from .epochs import Epochs
from .pairs import CANDIDATES, METHODS, PairData, Pairs

__all__ = ["CANDIDATES", "METHODS", "Batch", "Epochs", "PairData", "Pairs", "View"]
