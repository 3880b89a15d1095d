"""The log-sum-exp over all pairs of a batch; its gradient is computed along with its value.

Only (n, d) gradients are kept for the backward pass. Second derivatives are refused. Ranks that
share a loss (`sharing`) each take a share of the rows, and have the sums of all.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..training.distributed import Ranks, sharers
from ._kernels import KERNELS
from ._passes import by_halves, by_rows
from .similarities import Similarity

# A batch against itself is done by halves if that stores no more similarities than these: 256 MB.
STORED = 2**26


def check(anchors: Tensor, positives: Tensor, tau: float = 1.0) -> None:
    """Refuse pairs that are none, and temperatures that are not positive."""
    if anchors.ndim != 2 or anchors.shape != positives.shape:
        raise ValueError(
            "`anchors` and `positives` must both have shape (n, d), "
            f"got {tuple(anchors.shape)} and {tuple(positives.shape)}."
        )
    if not tau > 0:
        raise ValueError(f"`tau` must be positive, got {tau}.")


def check_rows(anchors: Tensor) -> None:
    """Refuse a batch of one row."""
    if len(anchors) < 2:
        raise ValueError("`anchors` must hold at least 2 rows, got 1: one row has no negatives.")


def mean_logsumexp(
    x: Tensor,
    y: Tensor | None,
    *,
    similarity: Similarity,
    tau: float,
    reference: Tensor,
    extra: Tensor,
    count_reference: bool,
    own: bool,
) -> Tensor:
    """Return the mean over i of log([1] + sum_k exp(e_ik) + sum_j exp(s(x_i, y_j) / tau - r_i)).

    Everything is relative to a reference logit, so that a loss near zero keeps its digits.

    Args:
        x: Anchors, (n, d).
        y: Candidates, (m, d); None: the anchors.
        similarity: s.
        tau: Temperature.
        reference: r, (n,).
        extra: e, further logits of each row, already relative to r: (n, k).
        count_reference: Whether the 1, the reference itself, is in the sum.
        own: Leave candidate j out of row j mod n (the anchor itself, or its own positive).
    """
    kernel = KERNELS[similarity.kernel](similarity, tau)
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32  # half is too coarse
    # Matrix products are so quick that sparing half of them gains nothing.
    ranks = sharers()
    small = ranks.world == 1 and len(x) ** 2 / 2 <= STORED
    halves = y is None and similarity.kernel == "lp" and small
    x = similarity.embed(x.to(dtype))
    y = x if y is None else similarity.embed(y.to(dtype))
    if not torch.is_grad_enabled():  # a Function is not told
        x, y, reference, extra = x.detach(), y.detach(), reference.detach(), extra.detach()
    compute = by_halves if halves else partial(by_rows, rows=ranks.share(len(x)))
    with torch.autocast(x.device.type, enabled=False):
        return _MeanLogSumExp.apply(
            x, y, reference, extra, kernel, compute, ranks, dtype, count_reference, own
        )


class _MeanLogSumExp(torch.autograd.Function):
    """See `mean_logsumexp`."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        y: Tensor,
        reference: Tensor,
        extra: Tensor,
        kernel: Any,
        compute: Callable[..., tuple[Tensor, Tensor, Tensor]],
        ranks: Ranks,
        dtype: torch.dtype,
        count_reference: bool,
        own: bool,
    ) -> Tensor:
        rows = min(len(x), max(1, kernel.block(x.device) // len(y)))
        kernel.start(x, y, reference, x.new_empty((rows, len(y)), dtype=dtype))
        wanted = any(ctx.needs_input_grad)
        value, *others = compute(kernel, reference, extra, count_reference, own, wanted)
        gradients = [*kernel.gradients(), *others]
        ranks.sum_([value, *gradients] if wanted else [value])
        ctx.save_for_backward(*gradients)
        return value.to(dtype)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # as constants, these gradients would silently be half right
            raise RuntimeError("This loss has no second derivative; leave out `create_graph`.")
        return *(upstream.to(g.dtype) * g for g in ctx.saved_tensors), *[None] * 6
