"""Conditionals p(z+ | z): where a positive lies, given its anchor.

`sample` draws one positive for each anchor, exactly, float64. `log_density` is known up to a term
that depends on the anchor alone; it is -inf outside the space.
"""

from .conditional import Conditional
from .registry import VMF, Anisotropic, Fixed, GenNorm, Laplace, Normal, Product, parse

__all__ = [
    "VMF",
    "Anisotropic",
    "Conditional",
    "Fixed",
    "GenNorm",
    "Laplace",
    "Normal",
    "Product",
    "parse",
]
