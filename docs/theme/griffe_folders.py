"""For griffe, which reads the docstrings: `render/` and `benchmark/` are parts of `ident3d`.

pyproject.toml says so to Python (`package-dir`); griffe looks at folders alone and must be told.
"""

from pathlib import Path
from typing import Any

import griffe

ROOT = Path(__file__).parents[2]


class Folders(griffe.Extension):
    """Puts the two folders where `import` finds them: below `ident3d`."""

    def on_package(self, *, pkg: griffe.Module, loader: griffe.GriffeLoader, **_: Any) -> None:
        """Load them once `ident3d` is loaded."""
        if pkg.path != "ident3d":
            return
        for name in ("render", "benchmark"):
            apart = griffe.GriffeLoader(
                search_paths=[ROOT], docstring_parser=loader.docstring_parser
            )
            pkg.set_member(name, apart.load(name))
