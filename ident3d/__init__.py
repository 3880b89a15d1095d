"""Ground-truth images and honest measurement for identifiable representation learning.

    import ident3d
    data = ident3d.sample()
    pairs = ident3d.Pairs(data, ident3d.Normal(0.1), seed=0)

Names are imported on first use, so that `ident3d --help` does not wait for FAISS.
"""

import importlib
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

_HOMES = {  # public name -> its module; a module is at home in the package
    **dict.fromkeys(("conditionals", "factors", "metrics", "spaces"), ""),
    **dict.fromkeys(("VMF", "Anisotropic", "ByTime", "Fixed", "GenNorm"), ".conditionals"),
    **dict.fromkeys(("Laplace", "Normal", "Product"), ".conditionals"),
    **dict.fromkeys(("Dataset", "load", "sample"), ".dataset"),
    **dict.fromkeys(("DataError",), ".errors"),
    **dict.fromkeys(("FACTORS", "Factor"), ".factors"),
    **dict.fromkeys(("Pairs",), ".pairs"),
    **dict.fromkeys(("Box", "Sphere", "Unbounded"), ".spaces"),
}

# Further modules, and what must be installed for them: no part of `from ident3d import *`.
_EXTRAS = {"augment": "torch", "datasets": "torchvision", "loaders": "torch"}

if TYPE_CHECKING:  # the table once more, as type checkers read it: `as` makes a name public
    from . import augment as augment
    from . import conditionals as conditionals
    from . import datasets as datasets
    from . import factors as factors
    from . import loaders as loaders
    from . import metrics as metrics
    from . import spaces as spaces
    from .conditionals import VMF as VMF
    from .conditionals import Anisotropic as Anisotropic
    from .conditionals import ByTime as ByTime
    from .conditionals import Fixed as Fixed
    from .conditionals import GenNorm as GenNorm
    from .conditionals import Laplace as Laplace
    from .conditionals import Normal as Normal
    from .conditionals import Product as Product
    from .dataset import Dataset as Dataset
    from .dataset import load as load
    from .dataset import sample as sample
    from .errors import DataError as DataError
    from .factors import FACTORS as FACTORS
    from .factors import Factor as Factor
    from .pairs import Pairs as Pairs
    from .spaces import Box as Box
    from .spaces import Sphere as Sphere
    from .spaces import Unbounded as Unbounded
else:  # hidden from them, or every misspelt name would seem to exist
    __all__ = sorted(_HOMES)

    def __getattr__(name: str) -> Any:
        if name not in {**_HOMES, **_EXTRAS}:
            raise AttributeError(f"module 'ident3d' has no attribute {name!r}")
        if not _HOMES.get(name):
            return importlib.import_module(f".{name}", __name__)
        return getattr(importlib.import_module(_HOMES[name], __name__), name)


def __dir__() -> list[str]:
    helpers = {"TYPE_CHECKING", "Any", "find_spec", "importlib"}  # of no use to who looks for names
    extras = {name for name, needed in _EXTRAS.items() if find_spec(needed)}
    return sorted(({*globals(), *_HOMES} | extras) - helpers)
