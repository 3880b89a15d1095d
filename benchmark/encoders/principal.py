"""An encoder of observations that have more dimensions than latents, such as pixels."""

import torch
from torch import Tensor, nn

COMPONENTS = 64  # principal ones that it sees, at most


class Principal(nn.Module):
    """head(rotation of the first principal components + MLP(components)), the MLP 0 at the start.

    `Whitened` for observations of more dimensions than there are latents: the first `dim` of the
    whitened components are what it starts from, and the MLP learns the bend from all of them. Mean
    and covariance are those of `sample`, (n, p); the last layer of `bend` is set to 0.
    """

    centre: Tensor
    whiten: Tensor

    def __init__(self, sample: Tensor, dim: int, head: nn.Module, bend: nn.Sequential) -> None:
        super().__init__()
        count, sample = components(sample), sample.double()
        centred = sample - sample.mean(0)
        values, vectors = torch.linalg.eigh(centred.T @ centred / (len(sample) - 1))  # ascending
        scales = values.clamp(min=1e-12).rsqrt()
        self.register_buffer("centre", sample.mean(0).float())
        self.register_buffer("whiten", (vectors * scales)[:, -count:].flip(1).float())
        self.linear = nn.Linear(count, dim)
        start = torch.zeros(dim, count)
        start[:, :dim] = nn.init.orthogonal_(torch.empty(dim, dim))
        with torch.no_grad():
            self.linear.weight.copy_(start)
        self.bend, self.head = bend, head
        for parameter in (*self.linear.parameters(), *bend[-2].parameters())[1:]:
            nn.init.zeros_(parameter)

    def forward(self, x: Tensor) -> Tensor:
        """Embed observations, (n, p) -> (n, dim)."""
        x = (x - self.centre) @ self.whiten
        return self.head(self.linear(x) + self.bend(x))


def components(sample: Tensor) -> int:
    """Return how many principal components of such observations are kept."""
    return min(COMPONENTS, sample.shape[1])
