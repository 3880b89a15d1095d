"""Code from outside, named on the command line: `module:attribute`, or an entry point."""

import importlib
import importlib.metadata
import os
import sys
from typing import Any


def load_object(spec: str, what: str) -> Any:
    """Import `module:attribute`; modules in the working directory are found too."""
    module, colon, attribute = spec.partition(":")
    if not (colon and module and attribute):
        raise ValueError(f"`{what}` must be written module:name, got {spec!r}.")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
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
