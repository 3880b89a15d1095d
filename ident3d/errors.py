"""How ident3d says no: one sentence, with a way out."""

import difflib
import errno
import math
import numbers
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


def above_zero(value: Any, what: str) -> float:
    """Return a finite number above 0, or say that it must be one."""
    if not isinstance(value, numbers.Real) or not 0 < float(value) < math.inf:
        raise ValueError(f"`{what}` must be a finite number above 0; got {value!r}.")
    return float(value)


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


# What to do about what the system refuses; otherwise the path is worth a look.
_WAYS_OUT = {
    errno.ENOSPC: "free some space and run the same command again: what was finished is kept",
    errno.EDQUOT: "free some space and run the same command again: what was finished is kept",
    errno.EFBIG: "allow larger files (`ulimit -f`) or make smaller ones, and run it again",
    errno.EMFILE: "allow more (`ulimit -n`) and run the same command again",
    errno.ENFILE: "close other programs and run the same command again",
    errno.EIO: "the disk or network fails; once it works, run the same command again",
    errno.EROFS: "name a folder on a disk that may be written",
    errno.EACCES: "change who may read and write it, or name another path",
    errno.EPERM: "change who may read and write it, or name another path",
    errno.ENOENT: "check the path: it is not there, or was removed meanwhile",
}


def system_sentence(error: OSError) -> str:
    """Write an error of the system as others are written: what, why, a way out."""
    if not error.strerror:
        return str(error)
    where = f"{error.filename}: " if error.filename else ""
    way_out = _WAYS_OUT.get(error.errno or 0, "check the path and who may write there")
    return f"{where}{error.strerror}; {way_out}."
