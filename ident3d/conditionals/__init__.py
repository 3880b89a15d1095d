"""Conditionals p(z+ | z): where a positive lies, given its anchor.

`sample` draws one positive for each anchor, exactly, float64. `log_density` is known up to a term
that depends on the anchor alone; it is -inf outside the space.
"""

from .conditional import Conditional as Conditional
from .registry import VMF as VMF
from .registry import Anisotropic as Anisotropic
from .registry import ByTime as ByTime
from .registry import Fixed as Fixed
from .registry import GenNorm as GenNorm
from .registry import Laplace as Laplace
from .registry import Normal as Normal
from .registry import Product as Product
from .registry import parse as parse
