"""The spectral contrastive loss (HaoChen et al. 2021)."""

from collections.abc import Sequence

from torch import Tensor

from ._pairwise import check, check_rows
from .objective import Objective
from .similarities import Dot, Similarity, widen


def spectral(anchors: Tensor, positives: Tensor, *, similarity: Similarity | None = None) -> Tensor:
    """Return -2 mean_i s(z_i, z+_i) + mean_{i != j} s(z_i, z_j)^2, s a (weighted) dot product.

    The second mean is a norm of the d x d second moment, so no pair is ever formed.
    """
    similarity = similarity or Dot()
    if similarity.kernel != "dot":
        raise ValueError(f"`similarity` must be a dot product, got {similarity}; use Dot().")
    check(anchors, positives)
    check_rows(anchors)
    n = len(anchors)
    x = widen(similarity.embed(anchors))  # (n, d), so that s(z_i, z_j) = x_i . x_j
    all_pairs = (x.T @ x).square().sum()  # sum_ij (x_i . x_j)^2 = |X X'|_F^2 = |X' X|_F^2
    own = x.square().sum(1).square().sum()  # its terms i = j
    repulsion = (all_pairs - own) / (n * (n - 1))
    loss = repulsion - 2 * similarity.pairs(anchors, positives).mean()
    return loss.to(anchors.dtype)


class Spectral(Objective):
    """The spectral loss of dot products."""

    function = staticmethod(spectral)
    prescribed = "dot"

    def forward(self, views: Sequence[Tensor], latents: Tensor | None = None) -> Tensor:
        """Return the loss."""
        return spectral(*self.pair(views))
