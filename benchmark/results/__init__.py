"""Result records and leaderboard entries: written, read and verified."""

from .environment import commit, environment
from .loading import load_all
from .result import PROTOCOLS, Result, load, scored_rows

__all__ = ["PROTOCOLS", "Result", "commit", "environment", "load", "load_all", "scored_rows"]
