"""Every experiment of the benchmark, row by row."""

from .select import EXPERIMENTS, title

__all__ = ["EXPERIMENTS", "title"]
