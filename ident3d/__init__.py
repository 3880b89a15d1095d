"""Ground-truth images and honest measurement for identifiable representation learning.

    import ident3d
    data = ident3d.sample()
    pairs = ident3d.Pairs(data, ident3d.Normal(0.1), seed=0)

Names are imported on first use, so that `ident3d --help` does not wait for FAISS.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import factors, metrics, spaces
    from .conditionals import VMF, Anisotropic, Fixed, GenNorm, Laplace, Normal, Product
    from .conditionals import registry as conditionals
    from .dataset import Dataset, load, sample
    from .errors import DataError
    from .factors import FACTORS, Factor
    from .pairs import Pairs
    from .spaces import Box, Sphere, Unbounded

__version__ = "0.1.0"
__all__ = [
    "FACTORS",
    "VMF",
    "Anisotropic",
    "Box",
    "DataError",
    "Dataset",
    "Factor",
    "Fixed",
    "GenNorm",
    "Laplace",
    "Normal",
    "Pairs",
    "Product",
    "Sphere",
    "Unbounded",
    "conditionals",
    "factors",
    "load",
    "metrics",
    "sample",
    "spaces",
]

_HOMES = {
    "conditionals": ("VMF", "Anisotropic", "Fixed", "GenNorm", "Laplace", "Normal", "Product"),
    "dataset": ("Dataset", "load", "sample"),
    "errors": ("DataError",),
    "factors": ("FACTORS", "Factor"),
    "metrics": (),
    "pairs": ("Pairs",),
    "spaces": ("Box", "Sphere", "Unbounded"),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f".{home}", __name__), name)
        if name == home and name in __all__:
            return importlib.import_module(f".{home}", __name__)
    raise AttributeError(f"module 'ident3d' has no attribute {name!r}")
