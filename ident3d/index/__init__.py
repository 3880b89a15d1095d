"""The look-up index of a data set."""

from .index import DEVICES, RECALL, Data, Index, open_index

__all__ = ["DEVICES", "RECALL", "Data", "Index", "open_index"]
