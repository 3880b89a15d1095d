"""Code from outside, named on the command line: `module:attribute`, or an entry point."""

import importlib
import importlib.metadata
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ident3d.errors import DataError


@contextmanager
def foreign(name: str) -> Iterator[None]:
    """Turn what goes wrong in somebody's code into one sentence that says whose it is."""
    try:
        yield
    except ImportError:
        raise  # names what is missing by itself
    except Exception as error:
        if os.environ.get("IDENT3D_TRACEBACK"):
            raise
        raise DataError(
            f"{name} failed: {type(error).__name__}: {error} (IDENT3D_TRACEBACK=1 shows where)."
        ) from error


def load_object(spec: str, what: str) -> Any:
    """Import `module:attribute`; modules in the working directory are found too."""
    module, colon, attribute = spec.partition(":")
    if not (colon and module and attribute):
        raise ValueError(f"`{what}` must be written module:name, got {spec!r}.")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        with foreign(f"Importing {module}"):
            found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # the module is there, something that it imports is not
        raise ValueError(
            f"`{what}` names the module {module!r}, which is neither installed nor in {here}."
        ) from None
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise ValueError(f"`{what}` names {attribute!r}, which {module!r} does not have.")
        found = getattr(found, part)
    return found


def entry_points(group: str) -> dict[str, importlib.metadata.EntryPoint]:
    """Return the entry points that installed packages declare in a group."""
    return {point.name: point for point in importlib.metadata.entry_points(group=group)}
