"""The invertible mixing network of the synthetic experiments: latents in, observations out."""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

SLOPE = 0.2  # of the leaky ReLU between layers


class Mixing(nn.Module):
    """Square linear layers without bias, leaky ReLU between them; fixed and invertible."""

    def __init__(self, weights: list[np.ndarray]) -> None:
        super().__init__()
        for index, weight in enumerate(weights):
            self.register_buffer(f"weight{index}", torch.tensor(weight, dtype=torch.float64))

    @property
    def weights(self) -> list[Tensor]:
        """The layers' matrices, first layer first."""
        return list(self.buffers())

    def forward(self, latents: Tensor) -> Tensor:
        """Mix latents, (n, dim) -> (n, dim)."""
        first, *others = (weight.to(latents.dtype) for weight in self.weights)
        x = latents @ first.T
        for weight in others:
            x = functional.leaky_relu(x, SLOPE) @ weight.T
        return x

    def inverse(self, observations: Tensor) -> Tensor:
        """Return the latents of observations, solved in float64."""
        first, *others = self.weights
        x = observations.double()
        for weight in reversed(others):
            x = torch.linalg.solve(weight, x.T).T
            x = torch.where(x < 0, x / SLOPE, x)
        return torch.linalg.solve(first, x.T).T


def make_mixing(
    dim: int, rng: np.random.Generator, *, layers: int = 3, draws: int = 25_000
) -> Mixing:
    """Draw a mixing network, each layer the best conditioned of `draws` random matrices."""
    if dim < 1 or layers < 1 or draws < 1:
        raise ValueError(
            f"`dim`, `layers` and `draws` must be at least 1, got {dim}, {layers}, {draws}."
        )
    return Mixing([best_conditioned(dim, rng, draws) for _ in range(layers)])


def best_conditioned(dim: int, rng: np.random.Generator, draws: int) -> np.ndarray:
    """Return the matrix of lowest condition number out of `draws`.

    Entries are uniform(-1, 1), columns scaled to length 1.
    """
    matrices = rng.uniform(-1, 1, (draws, dim, dim))
    matrices /= np.linalg.norm(matrices, axis=1, keepdims=True)
    return matrices[np.argmin(condition_numbers(matrices))]


def condition_numbers(matrices: np.ndarray) -> np.ndarray:
    """Return the 2-norm condition numbers of a stack of matrices, (k, n, n) -> (k,).

    From the eigenvalues of A'A: several times faster than singular values, and as good for the
    well-conditioned matrices that are looked for here (above 10^7 this only says "large").
    """
    eigenvalues = np.linalg.eigvalsh(matrices.swapaxes(-1, -2) @ matrices)
    largest = eigenvalues[:, -1]
    return np.sqrt(largest / np.maximum(eigenvalues[:, 0], 1e-16 * largest))
