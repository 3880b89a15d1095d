"""Heads: what puts a backbone's features into the model's space."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from ident3d.errors import choose

SIZES = {"log": "log_size", "raw": "raw_size"}  # what is learned of a size -> its name in a head


class Head(nn.Module):
    """A map from features to a space of some size, fixed or learned; linear in its size.

    The size is learned as a logarithm: a learning rate is then a relative rate, and a size that
    must grow twentyfold gets there as quickly as one that must grow by half. "raw" is the number
    itself, as released.
    """

    sides = False  # whether each dimension has a size of its own

    def __init__(
        self, dim: int, size: float = 1.0, learnable: bool = True, size_as: str = "log"
    ) -> None:
        super().__init__()
        if not size > 0:
            raise ValueError(f"`size` must be positive, got {size}.")
        self.size_name = choose(SIZES, size_as, "size_as")
        kept = torch.zeros((dim,) if self.sides else ())
        if learnable:
            self.register_parameter(self.size_name, nn.Parameter(kept))
        else:
            self.register_buffer(self.size_name, kept)
        self.resize(size)

    @property
    def size(self) -> Tensor:
        """Radius, side lengths or scale."""
        kept: Tensor = getattr(self, self.size_name)
        return kept.exp() if self.size_name == SIZES["log"] else kept

    def resize(self, size: float) -> None:
        """Set the size."""
        with torch.no_grad():
            kept = torch.tensor(float(size))
            kept = kept.log() if self.size_name == SIZES["log"] else kept
            getattr(self, self.size_name).copy_(kept)


class Unbounded(Head):
    """All of R^d: features times one scale; fixed at 1 there is none, as released."""

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


class Whitening(nn.Module):
    """Makes features uncorrelated, each of deviation `spread`, as a batch has them in training.

    A dimension in which nothing has been found yet otherwise shrinks, and with it the gradient by
    which something could be found. Evaluated, it is a linear map by running statistics.

    The inverse root of the covariance comes from Newton's iteration, whose gradient, unlike that of
    eigenvectors, is tame where variances are equal. Few iterations leave what is next to nothing
    smaller than the rest.
    """

    mean: Tensor
    covariance: Tensor
    whitens_rows = True  # those that it sees together: training must not cut them up
    iterations = 7
    momentum = 0.1  # of the running statistics, as in batch-norm
    ridge = 1e-4

    def __init__(self, dim: int, spread: float) -> None:
        super().__init__()
        self.spread = spread
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("covariance", torch.eye(dim))

    def forward(self, features: Tensor) -> Tensor:
        """Whiten (n, dim), in float32 whatever the rest has: small variances matter."""
        with torch.autocast(features.device.type, enabled=False):
            return self._whiten(features.float())

    def _whiten(self, features: Tensor) -> Tensor:
        mean, covariance = self.mean, self.covariance
        if self.training:
            mean = features.mean(0)
            centred = features - mean
            covariance = centred.T @ centred / len(features)
            with torch.no_grad():
                self.mean.lerp_(mean, self.momentum)
                self.covariance.lerp_(covariance, self.momentum)
        return (features - mean) @ self._inverse_root(covariance) * self.spread

    def _inverse_root(self, covariance: Tensor) -> Tensor:
        """Return the (dim, dim) map that whitens; the iteration needs eigenvalues of at most 1."""
        unit = torch.eye(len(covariance), device=covariance.device)
        covariance = covariance + self.ridge * unit
        trace = covariance.diagonal().sum()
        scaled, root = covariance / trace, unit
        for _ in range(self.iterations):
            root = 1.5 * root - 0.5 * root @ root @ root @ scaled
        return root / trace.sqrt()


HEADS: dict[str, type[Head]] = {
    "unbounded": Unbounded,
    "sphere": Sphere,
    "box": Box,
}


def make_head(
    space: str, dim: int, *, size: float = 1.0, learnable: bool = True, size_as: str = "log"
) -> Head:
    """Return the head of a model space: "unbounded", "sphere" or "box"."""
    return choose(HEADS, space, "space")(dim, size, learnable, size_as)


def head_of(encoder: nn.Module) -> Head:
    """Return the head of an encoder."""
    return next(module for module in encoder.modules() if isinstance(module, Head))
