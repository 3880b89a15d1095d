"""Training, scoring and ranking of encoders.

    encoder = ident3d.benchmark.load_encoder("results/RUN.safetensors")

Names are imported on first use, so that `ident3d benchmark --help` does not wait for torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .encoders.trained import load_encoder as load_encoder
else:  # hidden from type checkers, or every misspelt name would seem to exist
    __all__ = ["load_encoder"]

    def __getattr__(name: str) -> Any:
        if name != "load_encoder":
            raise AttributeError(f"module 'ident3d.benchmark' has no attribute {name!r}")
        return importlib.import_module(".encoders.trained", __name__).load_encoder
