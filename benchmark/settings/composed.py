"""Settings that are composed of parts, and the flat names by which records and `--set` know them.

    settings.training.steps                  # in code: part by part
    settings.with_(steps=100, model_space="box")
    settings.read({"steps": "100", "widths": "64,64"})
    plain(settings)                          # {"steps": 100, "model_space": "box", ...}

A field's flat name is its own name, or the one that `named` gives it; none occurs twice.
"""

import types
import typing
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from typing import Any, TypeVar

from ident3d.errors import DataError, choose

S = TypeVar("S", bound="Composed")


def named(flat: str, default: Any = MISSING) -> Any:
    """Return a field whose flat name is another: records have it from before there were parts."""
    return field(default=default, metadata={"flat": flat})


def added(default: Any) -> Any:
    """Return a field that older records lack: left out of records while it has its default."""
    return field(default=default, metadata={"added": True})


@dataclass(frozen=True, kw_only=True)
class Composed:
    """Settings: every field is a part, which is a frozen dataclass of plain values."""

    def with_(self: S, **changes: Any) -> S:
        """Return the settings with some values changed, by their flat names."""
        places = _places(self)
        parts: dict[str, dict[str, Any]] = {}
        for name, value in changes.items():
            part, its = choose(places, name, "setting")
            parts.setdefault(part, {})[its.name] = value
        return replace(self, **{k: replace(getattr(self, k), **v) for k, v in parts.items()})

    def read(self: S, changes: Mapping[str, str]) -> S:
        """Return the settings with some values changed, given as text."""
        places, values = _places(self), {}
        for name, text in changes.items():
            part, its = choose(places, name, "setting")
            kind = typing.get_type_hints(type(getattr(self, part)))[its.name]
            values[name] = read_value(name, text, kind)
        return self.with_(**values)

    def fingerprints(self) -> tuple[str, ...]:
        """Return what identifies the data that they name; raises DataError if it is not there."""
        return ()

    def pinned(self: S) -> S:
        """Return the settings with their data's fingerprints; data that is not there has none."""
        try:
            found = self.fingerprints()
        except (DataError, OSError):
            return self
        return self.with_(fingerprints=found) if found else self


def plain(settings: Composed) -> dict[str, Any]:
    """Return settings as a record keeps them: flat, plain JSON values."""
    found = {}
    for name, (part, its) in _places(settings).items():
        value = getattr(getattr(settings, part), its.name)
        if not (its.metadata.get("added") and value == its.default):
            found[name] = list(value) if isinstance(value, tuple) else value
    return found


READERS: dict[Any, Callable[[str], Any]] = {
    int: int,
    float: float,
    str: str,
    bool: {"true": True, "false": False}.__getitem__,
    tuple[int, ...]: lambda words: tuple(map(int, words.split(","))),
    tuple[str, ...]: lambda words: tuple(words.split(";")),
}


def read_value(name: str, text: str, kind: Any) -> Any:
    """Read a value of some type, or "none" where there may be none, from text."""
    kinds = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    if text == "none" and types.NoneType in kinds:
        return None
    for reader in (READERS[k] for k in kinds if k is not types.NoneType):
        with suppress(ValueError, KeyError):
            return reader(text)
    words = kind.__name__ if isinstance(kind, type) and not typing.get_args(kind) else str(kind)
    way = "; each setting has a --set of its own" if "=" in text else ""
    raise ValueError(f"`{name}` must be of type {words}, got {text!r}{way}.")


def _places(settings: Composed) -> dict[str, tuple[str, Field[Any]]]:
    """Return where each flat name stands: the part, and its field there."""
    return {
        its.metadata.get("flat", its.name): (part.name, its)
        for part in fields(settings)
        for its in fields(getattr(settings, part.name))
    }
