"""How ident3d says no: one sentence, with a way out."""

import difflib
import operator
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

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


def whole(value: Any, what: str, least: int = 1, most: int | None = None, why: str = "") -> int:
    """Return a whole number in its limits, or say what they are, and `why` they are that."""
    limits = f"at least {least}" if most is None else f"between {least} and {most}"
    limits = (str(least) if most == least else limits) + (f", {why}" if why else "")
    try:
        number = operator.index(value)  # also numpy's and torch's integers
    except TypeError:
        raise ValueError(f"`{what}` must be a whole number, {limits}; got {value!r}.") from None
    if number < least or (most is not None and number > most):
        raise ValueError(f"`{what}` must be {limits}; got {value!r}.")
    return number


def hint(names: Iterable[str], name: str) -> str:
    """Ask whether the name most like a mistyped one was meant; empty if none is like it."""
    close = difflib.get_close_matches(name, names, n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def printable(text: object, keep: str = "") -> str:
    """Write control, invisible and direction-changing characters as escapes, but those in `keep`.

    A terminal obeys some of them: it may be told to hide, rewrite or send text.
    """
    return "".join(
        c if c.isprintable() or c in keep else c.encode("unicode_escape").decode()
        for c in str(text)
    )
