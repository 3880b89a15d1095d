"""How alike two representations are: the model's log conditional, up to a constant.

The class of a similarity says which p(z+ | z) the model assumes; SIMILARITIES names them all.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from ident3d.errors import choose


class Similarity(Protocol):
    """What a loss needs of a similarity."""

    @property
    def kernel(self) -> str:
        """A key of `_kernels.KERNELS`, which computes all pairs of what `embed` returns."""

    @property
    def conditional(self) -> str:
        """The conditional that it stands for, in a word."""

    def embed(self, x: Tensor) -> Tensor:
        """Return the vectors that the kernel compares, (n, d)."""

    def pairs(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the similarity of matching vectors, over the last axis, in float64."""


def widen(x: Tensor) -> Tensor:
    """Return `x` in float64, in which sums of large terms that cancel stay exact to float32."""
    return x if x.device.type == "mps" else x.double()  # Apple's GPUs have no float64


@dataclass(frozen=True)
class Dot:
    """x . y: the von Mises-Fisher conditional on a sphere."""

    kernel = "dot"
    conditional = "vMF"

    def embed(self, x: Tensor) -> Tensor:
        """Return the vectors that the kernel compares."""
        return x

    def pairs(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the similarity of matching vectors, over the last axis."""
        return (widen(x) * widen(y)).sum(-1)


@dataclass(frozen=True)
class Lp:
    """-|x - y|_p^p, or -|x - y|_p without `power`: Laplace (1), normal (2), GenNorm(p)."""

    p: float = 2.0
    power: bool = True

    def __post_init__(self) -> None:
        """Refuse exponents that give no metric."""
        if not self.p >= 1:
            raise ValueError(f"`p` must be at least 1, got {self.p}; Laplace is p = 1.")

    @property
    def kernel(self) -> str:
        """Squared distances are a matrix product; others go dimension by dimension."""
        return "squared" if self.p == 2 and self.power else "lp"

    @property
    def conditional(self) -> str:
        """The conditional that it stands for, in a word."""
        return {1.0: "Laplace", 2.0: "Normal"}.get(self.p, f"GenNorm({self.p:g})")

    def embed(self, x: Tensor) -> Tensor:
        """Return the vectors that the kernel compares."""
        return x

    def pairs(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the similarity of matching vectors, over the last axis."""
        difference = widen(x) - widen(y)
        if self.power:
            return -difference.abs().pow(self.p).sum(-1)
        return -torch.linalg.vector_norm(difference, ord=self.p, dim=-1)


class Diagonal(nn.Module):
    """A learned positive diagonal, softplus of a free vector."""

    def __init__(self, dim: int, start: float | Sequence[float] | Tensor = 1.0) -> None:
        super().__init__()
        value = torch.as_tensor(start, dtype=torch.float64)
        if value.shape not in ((), (dim,)):
            raise ValueError(
                f"`start` must be one number or {dim}, got shape {tuple(value.shape)}."
            )
        if not (value > 0).all():
            raise ValueError(f"`start` must be positive, got {start}.")
        raw = value + torch.log(-torch.expm1(-value))  # softplus, solved for its argument
        self.raw = nn.Parameter(raw.float().expand(dim).clone())

    @property
    def value(self) -> Tensor:
        """The diagonal, shape (dim,)."""
        return functional.softplus(self.raw)

    def embed(self, x: Tensor) -> Tensor:
        """Return the vectors that the kernel compares: `x` scaled by the root of the diagonal."""
        return widen(x) * self._wide_value().sqrt()

    def _wide_value(self) -> Tensor:
        return functional.softplus(widen(self.raw))


class Metric(Diagonal):
    """-(x - y)' L (x - y) with a learned diagonal L: the anisotropic conditional of AnInfoNCE."""

    kernel = "squared"
    conditional = "learned metric"

    def pairs(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the similarity of matching vectors, over the last axis."""
        return -((widen(x) - widen(y)).square() * self._wide_value()).sum(-1)


class Importance(Diagonal):
    """x' S y with a learned diagonal S: the feature importance of TriCL."""

    kernel = "dot"
    conditional = "learned importance"

    def pairs(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the similarity of matching vectors, over the last axis."""
        return (widen(x) * widen(y) * self._wide_value()).sum(-1)


# name -> what makes it, of some dimensions, learned diagonals beginning at a value
SIMILARITIES: dict[str, Callable[[int, float], Similarity]] = {
    "dot": lambda dim, start: Dot(),
    "l1": lambda dim, start: Lp(1),
    "l2": lambda dim, start: Lp(2),
    "l3": lambda dim, start: Lp(3),
    "metric": Metric,
    "importance": Importance,
}


def make_similarity(name: str, dim: int, start: float = 1.0, *, root: bool = False) -> Similarity:
    """Return a similarity by its name; learned diagonals begin at `start`.

    With `root` it is the norm itself, not its power: of l1, l2 and l3 alone.
    """
    found = choose(SIMILARITIES, name, "similarity")(dim, start)
    if not root:
        return found
    if not isinstance(found, Lp):
        raise ValueError(f"`root` must be false for {name}, which is no norm; use l1, l2 or l3.")
    return Lp(found.p, power=False)
