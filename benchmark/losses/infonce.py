"""InfoNCE: tell an anchor's positive from negatives."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ident3d.errors import choose

from ._pairwise import check, check_rows, mean_logsumexp
from .objective import Objective
from .similarities import Similarity


def infonce(
    anchors: Tensor,
    positives: Tensor,
    *,
    similarity: Similarity,
    tau: float = 1.0,
    negatives: Tensor | str = "anchors",
    hard_negatives: Tensor | None = None,
    include_positive: bool = True,
    symmetric: bool = False,
    self_negative: bool = False,
) -> Tensor:
    """Return InfoNCE of a batch of pairs.

    It is the mean over i of

        -s(z_i, z+_i) / tau + log([exp(s(z_i, z+_i) / tau)] + sum_j exp(s(z_i, z-_ij) / tau)).

    Args:
        anchors: z, (n, d).
        positives: z+, (n, d).
        similarity: s.
        tau: Temperature.
        negatives: What every anchor is compared to: "anchors", the other anchors of the batch;
            "positives", the other positives; "both"; or independent draws, (m, d).
        hard_negatives: Further negatives of each anchor, (n, k, d).
        include_positive: Whether the bracket, the positive, is in the denominator.
        symmetric: Average with the same loss anchored in z+, where z and z+ swap their parts.
            Hard negatives were drawn around z and stay in the first direction.
        self_negative: Keep a pair's own anchor (and own positive) among the batch's negatives, as
            the released code does. The theory asks for independent negatives.
    """
    check(anchors, positives, tau)
    _check_negatives(anchors, negatives, hard_negatives)
    options = (similarity, tau, include_positive, self_negative)
    loss = _one_way(anchors, positives, negatives, hard_negatives, *options)
    if not symmetric:
        return loss
    back = _one_way(positives, anchors, negatives, None, *options)
    return (loss + back) / 2


def _one_way(
    anchors: Tensor,
    positives: Tensor,
    negatives: Tensor | str,
    hard_negatives: Tensor | None,
    similarity: Similarity,
    tau: float,
    include_positive: bool,
    self_negative: bool,
) -> Tensor:
    """Return InfoNCE with z as anchors: the mean log-sum-exp of all logits less the positive's."""
    candidates, own = _candidates(anchors, positives, negatives)
    own = own and not self_negative
    reference = similarity.pairs(anchors, positives) / tau  # (n,)
    extra = reference.new_zeros(len(anchors), 0)
    if hard_negatives is not None:
        # (n, 1, d) against (n, k, d): each anchor meets its own k alone.
        hard = similarity.pairs(anchors[:, None], hard_negatives) / tau
        extra = hard - reference[:, None]  # (n, k)
    elif own:
        check_rows(anchors)
    return mean_logsumexp(
        anchors,
        candidates,
        similarity=similarity,
        tau=tau,
        reference=reference,
        extra=extra,
        count_reference=include_positive,
        own=own,
    )


def _candidates(
    anchors: Tensor, positives: Tensor, negatives: Tensor | str
) -> tuple[Tensor | None, bool]:
    """Return what anchors are compared to (None: anchors), and whether it is the batch's own."""
    if isinstance(negatives, Tensor):
        return negatives, False
    pools = {"anchors": None, "positives": positives, "both": torch.cat([anchors, positives])}
    return choose(pools, negatives, "negatives"), True


def _check_negatives(
    anchors: Tensor, negatives: Tensor | str, hard_negatives: Tensor | None
) -> None:
    n, dim = anchors.shape
    if isinstance(negatives, Tensor) and (negatives.ndim != 2 or negatives.shape[1] != dim):
        raise ValueError(
            f"`negatives` must have shape (m, {dim}), got {tuple(negatives.shape)}; "
            "negatives of each anchor are `hard_negatives`."
        )
    if hard_negatives is not None and (
        hard_negatives.ndim != 3 or hard_negatives.shape[::2] != (n, dim)
    ):
        raise ValueError(
            f"`hard_negatives` must have shape ({n}, k, {dim}), got {tuple(hard_negatives.shape)}."
        )


class InfoNCE(Objective):
    """InfoNCE of one process, with hard negatives if the batch has them."""

    function = staticmethod(infonce)

    def forward(self, views: Sequence[Tensor], latents: Tensor | None = None) -> Tensor:
        """Return the loss."""
        anchors, positives = self.pair(views[:2])
        hard = views[2].unflatten(0, (len(anchors), -1)) if views[2:] else None  # (n, k, d)
        return infonce(
            anchors,
            positives,
            similarity=self.similarity,
            hard_negatives=hard,
            **self.options,
        )
