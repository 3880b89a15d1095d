"""Code from outside, named on the command line: `module:attribute`, or an entry point."""

import importlib
import importlib.metadata
import os
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ident3d.errors import DataError
from ident3d.files import canonical_sha256, file_digest


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


def source_digest(found: Any) -> str | None:
    """Hash the source of an object's class: its package, or its module and those imported beside.

    None where there is no source file.
    """
    name = type(found).__module__
    module, top = sys.modules.get(name), sys.modules.get(name.partition(".")[0])
    place = getattr(module, "__file__", None)
    if place is None or top is None:
        return None
    path = Path(place)
    libraries = ("purelib", "platlib", "stdlib")
    installed = {Path(sysconfig.get_path(kind)).resolve() for kind in libraries}
    files = {path}
    if hasattr(top, "__path__"):
        files |= {file for root in top.__path__ for file in Path(root).rglob("*.py")}
    elif path.resolve().parent not in installed:
        places = (getattr(other, "__file__", None) for other in list(sys.modules.values()))
        files |= {file for p in places if p and (file := Path(p)).parent == path.parent}
    # By content alone: a folder that was moved holds the same method.
    return canonical_sha256([[file.name, file_digest(file)] for file in sorted(files)])[:16]


def entry_points(group: str) -> dict[str, importlib.metadata.EntryPoint]:
    """Return the entry points that installed packages declare in a group."""
    return {point.name: point for point in importlib.metadata.entry_points(group=group)}
