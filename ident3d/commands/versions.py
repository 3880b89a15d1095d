"""`ident3d --version`: every version that a result or a fault may depend on."""

import importlib.metadata
import platform
from typing import Any

import click

from .. import __version__

# Asked of the packages' metadata, which takes no import: what matters -> who may bring it.
_BROUGHT_BY = {
    "Blender": ("bpy",),
    "torch": ("torch",),
    "FAISS": ("faiss-gpu", "faiss-cpu"),
    "NumPy": ("numpy",),
    "h5py": ("h5py",),
}


def version_text() -> str:
    """Lay out the versions, a line each; what is not installed says so."""
    lines = [f"ident3d {__version__}"]
    lines += [f"Python {platform.python_version()}, {platform.platform()}"]
    return "\n".join([*lines, *(f"{name} {_version(by)}" for name, by in _BROUGHT_BY.items())])


def _version(packages: tuple[str, ...]) -> str:
    for package in packages:
        try:
            return f"{importlib.metadata.version(package)} ({package})"
        except importlib.metadata.PackageNotFoundError:
            continue
    return "not installed"


def _show(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        click.echo(version_text())
        ctx.exit()


version_option: Any = click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show,
    help="Show the versions of ident3d and of what it runs on.",
)
