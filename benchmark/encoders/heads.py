"""Heads: what puts a backbone's features into the model's space."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from ident3d.errors import choose


class Head(nn.Module):
    """A map from features to a space of some size, fixed or learned.

    The size is kept as a logarithm: a learning rate is then a relative rate, and a size that must
    grow twentyfold gets there as quickly as one that must grow by half.
    """

    log_size: Tensor
    sides = False  # whether each dimension has a size of its own

    def __init__(self, dim: int, size: float = 1.0, learnable: bool = True) -> None:
        super().__init__()
        if not size > 0:
            raise ValueError(f"`size` must be positive, got {size}.")
        log_size = torch.full((dim,) if self.sides else (), float(size)).log()
        if learnable:
            self.log_size = nn.Parameter(log_size)
        else:
            self.register_buffer("log_size", log_size)

    @property
    def size(self) -> Tensor:
        """Radius, side lengths or scale."""
        return self.log_size.exp()


class Unbounded(Head):
    """All of R^d: features times one scale."""

    def forward(self, features: Tensor) -> Tensor:
        """Scale the features."""
        return features * self.size


class Sphere(Head):
    """The sphere of radius `size`."""

    def forward(self, features: Tensor) -> Tensor:
        """Project the features radially."""
        return functional.normalize(features, dim=-1) * self.size


class Box(Head):
    """The box [0, size]^d, each side its own: sigmoid times size."""

    sides = True

    def forward(self, features: Tensor) -> Tensor:
        """Squash the features."""
        return features.sigmoid() * self.size


HEADS: dict[str, type[Head]] = {
    "unbounded": Unbounded,
    "sphere": Sphere,
    "box": Box,
}


def make_head(space: str, dim: int, *, size: float = 1.0, learnable: bool = True) -> Head:
    """Return the head of a model space: "unbounded", "sphere" or "box"."""
    return choose(HEADS, space, "space")(dim, size, learnable)
