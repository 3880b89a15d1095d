"""How ident3d says no: one sentence, with a way out."""

import difflib
from collections.abc import Iterable, Mapping
from typing import TypeVar

T = TypeVar("T")


class DataError(Exception):
    """Something on disk, or from outside, is not what it should be. The CLI exits with 1.

    Bad arguments are plain `ValueError`s; the CLI exits with 2 for those.
    """


def choose(table: Mapping[str, T], name: str, what: str) -> T:
    """Look `name` up in `table`, naming the alternatives when it is not there."""
    if name not in table:
        known = ", ".join(table)
        raise ValueError(f"`{what}` must be one of {known}; got {name!r}.{hint(table, name)}")
    return table[name]


def hint(names: Iterable[str], name: str) -> str:
    """Ask whether the name most like a mistyped one was meant; empty if none is like it."""
    close = difflib.get_close_matches(name, names, n=1)
    return f" Did you mean {close[0]!r}?" if close else ""
