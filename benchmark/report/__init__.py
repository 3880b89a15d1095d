"""The leaderboard as a static site and as Markdown."""

from .write import write

__all__ = ["write"]
