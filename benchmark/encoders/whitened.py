"""An encoder that starts as a linear map: whitened inputs, a rotation, and an MLP that is still 0.

A random MLP folds the latent space, and unfolding it takes most of a small budget. A linear map
folds nothing: the mixing is invertible, so is what it starts from, and the MLP learns the bend.
"""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

SLOPE = 0.01  # of every leaky ReLU of ours
# sigmoid(1.7 x) is close to the normal distribution's function, so whitened features start out
# nearly uniform in a box model.
SPREAD = {"box": 1.7, "sphere": 1.0, "unbounded": 1.0}


class Whitened(nn.Module):
    """head(rotation of whitened x + MLP(whitened x))."""

    centre: Tensor
    whiten: Tensor

    def __init__(
        self, sample: Tensor, head: nn.Module, widths: Sequence[int], spread: float = 1.0
    ) -> None:
        """Build the encoder.

        Args:
            sample: Observations, (n, dim), to take mean and covariance from.
            head: Puts features into the model's space.
            widths: Hidden widths of the MLP.
            spread: Standard deviation of the features at the start.
        """
        super().__init__()
        dim = sample.shape[1]
        centre, whiten = _whitening(sample.double())
        self.register_buffer("centre", centre.float())
        self.register_buffer("whiten", whiten.float())
        self.linear = nn.Linear(dim, dim)
        nn.init.orthogonal_(self.linear.weight, spread)
        nn.init.zeros_(self.linear.bias)
        layers: list[nn.Module] = []
        for before, after in pairwise([dim, *widths]):
            layers += [nn.Linear(before, after), nn.LeakyReLU(SLOPE)]
        last = nn.Linear(widths[-1], dim)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.bend = nn.Sequential(*layers, last)
        self.head = head

    def forward(self, x: Tensor) -> Tensor:
        """Embed observations, (n, dim) -> (n, dim)."""
        x = (x - self.centre) @ self.whiten
        return self.head(self.linear(x) + self.bend(x))


def _whitening(sample: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean (d,) and inverse root V diag(1 / sqrt(values)) V' of the covariance, (d, d)."""
    values, vectors = torch.linalg.eigh(torch.cov(sample.T))
    return sample.mean(0), vectors @ torch.diag(values.clamp(min=1e-12).rsqrt()) @ vectors.T
