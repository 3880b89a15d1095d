"""Conditionals p(z+ | z): where a positive lies, given its anchor."""

from .registry import VMF, Anisotropic, Conditional, Fixed, GenNorm, Laplace, Normal, Product, parse

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
