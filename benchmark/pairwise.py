"""The log-sum-exp over all pairs of a batch, value and gradient in one pass over blocks of rows.

A block's logits become its softmax weights and its share of the gradient while they are in cache;
only (n, d) gradients outlive it, so memory grows as batch x dimension.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from .kernels import KERNELS
from .similarities import Similarity

# Terms this far below a row's largest count as zero. Most are, in the spaces that models learn,
# and as denormal numbers they would make every later operation many times slower.
NOTHING = 1e-30


def mean_logsumexp(
    x: Tensor,
    y: Tensor,
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
        y: Candidates, (m, d).
        similarity: s.
        tau: Temperature.
        reference: r, (n,).
        extra: e, further logits of each row, already relative to r: (n, k).
        count_reference: Whether the 1, the reference itself, is in the sum.
        own: Leave candidate j out of row j mod n (the anchor itself, or its own positive).
    """
    kernel = KERNELS[similarity.kernel](similarity, tau)
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32  # half is too coarse
    x, y = similarity.embed(x.to(dtype)), similarity.embed(y.to(dtype))
    if not torch.is_grad_enabled():  # a Function is not told
        x, y, reference, extra = x.detach(), y.detach(), reference.detach(), extra.detach()
    with torch.autocast(x.device.type, enabled=False):
        return _MeanLogSumExp.apply(x, y, reference, extra, kernel, dtype, count_reference, own)


class _MeanLogSumExp(torch.autograd.Function):
    """See `mean_logsumexp`; the gradient is ready when the value is."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        y: Tensor,
        reference: Tensor,
        extra: Tensor,
        kernel: Any,
        dtype: torch.dtype,
        count_reference: bool,
        own: bool,
    ) -> Tensor:
        n, m = len(x), len(y)
        rows = min(n, max(1, kernel.block(x.device) // m))
        kernel.start(x, y, reference, x.new_empty((rows, m), dtype=dtype))
        grad_reference, grad_extra = torch.zeros_like(reference), torch.zeros_like(extra)
        total = reference.new_zeros(())
        for first in range(0, n, rows):
            block = slice(first, min(first + rows, n))
            logits = kernel.logits(block)
            if own:
                _leave_out_own(logits, block, n)
            value, weights, others = _softmax(logits, extra[block], count_reference, n)
            total += value.sum()
            if any(ctx.needs_input_grad):
                kernel.pull(block, weights)
                grad_reference[block] = -weights.sum(1)
                grad_extra[block] = others
        ctx.save_for_backward(*kernel.gradients(), grad_reference, grad_extra)
        return (total / n).to(dtype)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # as constants, these gradients would silently be half right
            raise RuntimeError("This loss has no second derivative; leave out `create_graph`.")
        return *(upstream.to(g.dtype) * g for g in ctx.saved_tensors), None, None, None, None


def _leave_out_own(logits: Tensor, block: slice, n: int) -> None:
    for offset in range(0, logits.shape[1], n):
        own = logits[:, offset + block.start : offset + block.stop]
        own.diagonal().fill_(-torch.inf)


def _softmax(
    logits: Tensor, extra: Tensor, count_reference: bool, n: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return log-sum-exps, and their mean's derivatives by `logits`, in place, and by `extra`."""
    wide = extra.dtype
    top = logits.amax(1).to(wide)
    if extra.shape[1]:
        top = torch.maximum(top, extra.amax(1))
    if count_reference:
        top = top.clamp(min=0)
    logits.sub_(top.to(logits.dtype)[:, None]).clamp_(min=-80)
    weights = functional.threshold_(logits.exp_(), NOTHING, 0)
    others = (extra - top[:, None]).exp()
    # One less than the whole sum: with the reference on top that is tiny, and log1p keeps it.
    excess = weights.sum(1).to(wide) + others.sum(1)
    excess += torch.expm1(-top) if count_reference else -1
    scale = 1 / (n * (1 + excess[:, None]))
    return top + excess.log1p(), weights.mul_(scale.to(weights.dtype)), others * scale
