"""Result records and leaderboard entries: written, read and verified."""

from .result import PROTOCOLS, Result, commit, environment, load, load_all, scored_rows

__all__ = ["PROTOCOLS", "Result", "commit", "environment", "load", "load_all", "scored_rows"]
