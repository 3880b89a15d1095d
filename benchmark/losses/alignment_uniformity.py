"""Alignment and uniformity: what InfoNCE becomes with ever more negatives."""

import math
from collections.abc import Sequence

from torch import Tensor

from ._pairwise import check, check_rows, mean_logsumexp
from .objective import Objective
from .similarities import Similarity, widen


def alignment_uniformity(
    anchors: Tensor,
    positives: Tensor,
    *,
    similarity: Similarity,
    tau: float = 1.0,
    alpha: float = 0.5,
) -> Tensor:
    """Return (1 - alpha) alignment + alpha uniformity, the limit of InfoNCE in many negatives.

    Alignment is the mean of -s(z_i, z+_i) / tau; uniformity the mean over i of
    log mean_{j != i} exp(s(z_i, z_j) / tau).
    """
    check(anchors, positives, tau)
    if not 0 <= alpha <= 1:
        raise ValueError(f"`alpha` must lie in [0, 1], got {alpha}.")
    check_rows(anchors)
    alignment = -similarity.pairs(anchors, positives).mean() / tau
    zero = widen(anchors.detach()).new_zeros(len(anchors))  # logits relative to nothing
    uniformity = mean_logsumexp(
        anchors,
        None,
        similarity=similarity,
        tau=tau,
        reference=zero,
        extra=zero[:, None][:, :0],
        count_reference=False,
        own=True,
    )
    uniformity = uniformity - math.log(len(anchors) - 1)  # the sum over j becomes a mean
    return (1 - alpha) * alignment.to(uniformity.dtype) + alpha * uniformity


class AlignmentUniformity(Objective):
    """Both terms, equally weighted."""

    function = staticmethod(alignment_uniformity)

    def forward(self, views: Sequence[Tensor], latents: Tensor | None = None) -> Tensor:
        """Return the loss."""
        tau = self.settings.tau
        return alignment_uniformity(*self.pair(views), similarity=self.similarity, tau=tau)
