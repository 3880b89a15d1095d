"""Result records and leaderboard entries: written, read and verified."""

from .environment import commit, environment
from .loading import load_all
from .result import Result, load

__all__ = ["Result", "commit", "environment", "load", "load_all"]
