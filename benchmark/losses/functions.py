"""Every loss of the benchmark: a similarity, and what is done with it.

    similarity = Lp(3)                                  # or Dot(), Lp(1, power=False), Metric(10)
    loss = infonce(f(x), f(x_plus), similarity=similarity, tau=1.0)
    loss.backward()

`Metric` and `Importance` are modules: hand their parameters to the optimiser, read `.value`.
Gradients are exact; second derivatives are not supported.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from ident3d.errors import choose

from ._pairwise import mean_logsumexp
from .similarities import SIMILARITIES, Dot, Importance, Lp, Metric, Similarity, widen

__all__ = [
    "LOSSES",
    "SIMILARITIES",
    "Dot",
    "Importance",
    "Lp",
    "Metric",
    "alignment_uniformity",
    "ensemble",
    "infonce",
    "spectral",
    "supervised",
    "tricl",
]


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
    _check(anchors, positives, tau)
    _check_negatives(anchors, negatives, hard_negatives)
    loss = _one_way(
        anchors,
        positives,
        similarity,
        tau,
        negatives,
        hard_negatives,
        include_positive,
        self_negative,
    )
    if not symmetric:
        return loss
    back = _one_way(
        positives, anchors, similarity, tau, negatives, None, include_positive, self_negative
    )
    return (loss + back) / 2


def _one_way(
    anchors: Tensor,
    positives: Tensor,
    similarity: Similarity,
    tau: float,
    negatives: Tensor | str,
    hard_negatives: Tensor | None,
    include_positive: bool,
    self_negative: bool,
) -> Tensor:
    candidates, own = _candidates(anchors, positives, negatives)
    own = own and not self_negative
    reference = similarity.pairs(anchors, positives) / tau
    extra = reference.new_zeros(len(anchors), 0)
    if hard_negatives is not None:
        hard = similarity.pairs(anchors[:, None], hard_negatives) / tau
        extra = hard - reference[:, None]
    elif own:
        _check_rows(anchors)
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


def _check(anchors: Tensor, positives: Tensor, tau: float) -> None:
    if anchors.ndim != 2 or anchors.shape != positives.shape:
        raise ValueError(
            "`anchors` and `positives` must both have shape (n, d), "
            f"got {tuple(anchors.shape)} and {tuple(positives.shape)}."
        )
    if not tau > 0:
        raise ValueError(f"`tau` must be positive, got {tau}.")


def _check_rows(anchors: Tensor) -> None:
    if len(anchors) < 2:
        raise ValueError("`anchors` must hold at least 2 rows, got 1: one row has no negatives.")


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
    _check(anchors, positives, tau)
    if not 0 <= alpha <= 1:
        raise ValueError(f"`alpha` must lie in [0, 1], got {alpha}.")
    _check_rows(anchors)
    alignment = -similarity.pairs(anchors, positives).mean() / tau
    zero = widen(anchors.detach()).new_zeros(len(anchors))
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
    uniformity = uniformity - math.log(len(anchors) - 1)
    return (1 - alpha) * alignment.to(uniformity.dtype) + alpha * uniformity


def spectral(anchors: Tensor, positives: Tensor, *, similarity: Similarity | None = None) -> Tensor:
    """Return -2 mean_i s(z_i, z+_i) + mean_{i != j} s(z_i, z_j)^2, s a (weighted) dot product.

    The second mean is a norm of the d x d second moment, so no pair is ever formed.
    """
    similarity = similarity or Dot()
    if similarity.kernel != "dot":
        raise ValueError(f"`similarity` must be a dot product, got {similarity}; use Dot().")
    _check(anchors, positives, 1.0)
    _check_rows(anchors)
    n = len(anchors)
    x = widen(similarity.embed(anchors))
    all_pairs = (x.T @ x).square().sum()
    own = x.square().sum(1).square().sum()
    repulsion = (all_pairs - own) / (n * (n - 1))
    loss = repulsion - 2 * similarity.pairs(anchors, positives).mean()
    return loss.to(anchors.dtype)


def tricl(
    anchors: Tensor,
    positives: Tensor,
    *,
    similarity: Importance,
    form: str = "spectral",
    tau: float = 1.0,
    decorrelation: float = 1.0,
) -> Tensor:
    """Return the tri-factor loss of Zhang et al. (2023): s(x, y) = x' S y, plus decorrelation.

    Args:
        anchors: z, (n, d).
        positives: z+, (n, d).
        similarity: S.
        form: "spectral", for which their theorem holds, or "infonce".
        tau: Temperature of the InfoNCE form.
        decorrelation: Weight of |mean_i z_i z_i' - I|_F^2, over anchors and positives together.
    """
    forms = {
        "spectral": lambda: spectral(anchors, positives, similarity=similarity),
        "infonce": lambda: infonce(anchors, positives, similarity=similarity, tau=tau),
    }
    loss = choose(forms, form, "form")()
    z = torch.cat([anchors, positives])
    moment = z.T @ z / len(z)
    excess = moment - torch.eye(z.shape[1], dtype=z.dtype, device=z.device)
    return loss + decorrelation * excess.square().sum()


def ensemble(
    batches: Sequence[tuple[Tensor, Tensor]],
    *,
    similarities: Sequence[Similarity],
    **options: object,
) -> Tensor:
    """Return the sum of `infonce` over processes, each with its own pairs and its own metric."""
    if len(similarities) != len(batches):
        raise ValueError(
            f"`similarities` must be as many as the processes, {len(batches)}, "
            f"got {len(similarities)}."
        )
    losses = [
        infonce(anchors, positives, similarity=similarity, **options)
        for (anchors, positives), similarity in zip(batches, similarities, strict=True)
    ]
    return torch.stack(losses).sum()


def supervised(outputs: Tensor, latents: Tensor) -> Tensor:
    """Return the mean squared error to the true latents."""
    return functional.mse_loss(outputs, latents)


LOSSES = {
    "infonce": infonce,
    "alignment-uniformity": alignment_uniformity,
    "spectral": spectral,
    "tricl": tricl,
    "ensemble": ensemble,
    "supervised": supervised,
}
