"""Ground-truth images and honest measurement for identifiable representation learning.

    import ident3d
    data = ident3d.sample()
    pairs = ident3d.Pairs(data, ident3d.Normal(0.1), seed=0)

Names are imported on first use, so that `ident3d --help` does not wait for FAISS.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import metrics
    from .conditionals import (
        VMF,
        Anisotropic,
        Fixed,
        GenNorm,
        Laplace,
        Normal,
        Product,
    )
    from .conditionals import parse as parse_conditional
    from .dataset import Dataset, load, sample
    from .errors import DataError
    from .factors import FACTORS, Factor
    from .pairs import Pairs
    from .spaces import Box, Sphere, Unbounded

__version__ = "0.1.0"

# public name -> (module, name there)
_PUBLIC = {
    "VMF": ("conditionals", "VMF"),
    "Anisotropic": ("conditionals", "Anisotropic"),
    "Fixed": ("conditionals", "Fixed"),
    "GenNorm": ("conditionals", "GenNorm"),
    "Laplace": ("conditionals", "Laplace"),
    "Normal": ("conditionals", "Normal"),
    "Product": ("conditionals", "Product"),
    "parse_conditional": ("conditionals", "parse"),
    "Dataset": ("dataset", "Dataset"),
    "load": ("dataset", "load"),
    "sample": ("dataset", "sample"),
    "DataError": ("errors", "DataError"),
    "FACTORS": ("factors", "FACTORS"),
    "Factor": ("factors", "Factor"),
    "Pairs": ("pairs", "Pairs"),
    "Box": ("spaces", "Box"),
    "Sphere": ("spaces", "Sphere"),
    "Unbounded": ("spaces", "Unbounded"),
}
__all__ = ["metrics", *_PUBLIC]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name == "metrics":
        return importlib.import_module(".metrics", __name__)
    if name in _PUBLIC:
        module, attribute = _PUBLIC[name]
        return getattr(importlib.import_module(f".{module}", __name__), attribute)
    raise AttributeError(f"module 'ident3d' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
