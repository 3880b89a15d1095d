"""How ident3d says no: one sentence, with a way out."""

import difflib
from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")


class DataError(Exception):
    """Something on disk, or from outside, is not what it should be. The CLI exits with 1.

    Bad arguments are plain `ValueError`s; the CLI exits with 2 for those.
    """


def choose(table: Mapping[str, T], name: str, what: str) -> T:
    """Look `name` up in `table`, naming the alternatives when it is not there."""
    if name not in table:
        close = difflib.get_close_matches(name, table, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"`{what}` must be one of {', '.join(table)}; got {name!r}.{hint}")
    return table[name]
