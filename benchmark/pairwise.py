"""The log-sum-exp over all pairs of a batch, value and gradient in one pass over blocks of rows.

Only (n, d) gradients outlive a block, so memory grows as batch x dimension plus one block.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .similarities import Similarity, widen

# Elements of a block of rows, and of a tile of it that is worked on dimension by dimension. On a
# CPU a tile and its scratch stay in the core's cache; a GPU wants few and large launches.
BLOCK = {"cpu": 2**20, "gpu": 2**25}
TILE = {"cpu": 2**16, "gpu": 2**25}


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
    kernel = _KERNELS[similarity.kernel]
    options = {"p": similarity.p, "power": similarity.power} if kernel is _Lp else {}
    with torch.autocast(x.device.type, enabled=False):
        return _MeanLogSumExp.apply(
            similarity.embed(_full(x)),
            similarity.embed(_full(y)),
            reference,
            extra,
            lambda a, b, c: kernel(a, b, c, tau, **options),
            _full(x).dtype,
            count_reference,
            own,
        )


def _full(x: Tensor) -> Tensor:
    """Half precision, from autocast, is too coarse for logits."""
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


class _MeanLogSumExp(torch.autograd.Function):
    """See `mean_logsumexp`; gradients are ready when the value is."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        y: Tensor,
        reference: Tensor,
        extra: Tensor,
        make_kernel: Any,
        dtype: torch.dtype,
        count_reference: bool,
        own: bool,
    ) -> Tensor:
        n, m = len(x), len(y)
        kernel = make_kernel(x, y, reference)
        grad_reference, grad_extra = torch.zeros_like(reference), torch.zeros_like(extra)
        total = reference.new_zeros(())
        rows = max(1, BLOCK["cpu" if x.device.type == "cpu" else "gpu"] // m)
        buffer = x.new_empty((min(rows, n), m), dtype=dtype)
        needs_grad = any(ctx.needs_input_grad)
        for start in range(0, n, rows):
            block = slice(start, min(start + rows, n))
            logits = kernel.fill(block, buffer[: block.stop - start])
            if own:
                for offset in range(0, m, n):
                    logits[:, offset + start : offset + block.stop].diagonal().fill_(-torch.inf)
            top = logits.amax(1).to(reference.dtype)
            if extra.shape[1]:
                top = torch.maximum(top, extra[block].amax(1))
            if count_reference:
                top = top.clamp(min=0)
            logits.sub_(top.to(dtype)[:, None]).exp_()
            sums = logits.sum(1).to(reference.dtype)
            others = (extra[block] - top[:, None]).exp()
            rest = torch.expm1(-top) if count_reference else -torch.ones_like(top)
            rest = rest + sums + others.sum(1)  # the whole sum, less 1
            total += (top + torch.log1p(rest)).sum()
            if needs_grad:
                scale = 1 / ((rest + 1) * n)
                grad_reference[block] = -sums * scale
                grad_extra[block] = others * scale[:, None]
                kernel.pull(block, logits.mul_(scale.to(dtype)[:, None]))
        if needs_grad:
            ctx.save_for_backward(kernel.grad_x, kernel.grad_y, grad_reference, grad_extra)
        return (total / n).to(dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        return *(upstream * saved for saved in ctx.saved_tensors), None, None, None, None


class _Product:
    """Logits that are one matrix product, of vectors with two columns more.

    In float64: |x|^2 + |y|^2 - 2 x.y cancels, by 10^3 to 10^5 in the spaces that models learn.
    """

    def __init__(self, x: Tensor, y: Tensor, reference: Tensor, tau: float) -> None:
        self.x, self.y = widen(x), widen(y)
        self.tau = tau
        self.left, self.right = self.factors(reference)
        self.right = self.right.T.contiguous()
        self.grad_x, self.grad_y = torch.zeros_like(self.x), torch.zeros_like(self.y)
        self.dtypes = x.dtype, y.dtype
        self.wide = None

    def fill(self, block: slice, out: Tensor) -> Tensor:
        """Write the logits of a block of rows, relative to the reference."""
        if self.wide is None or self.wide.shape != out.shape:
            self.wide = self.x.new_empty(out.shape)
        torch.mm(self.left[block], self.right, out=self.wide)
        return out.copy_(self.wide)

    def spread(self, weights: Tensor) -> Tensor:
        """Return the weights in float64."""
        return self.wide.copy_(weights)


class _Dot(_Product):
    def factors(self, reference: Tensor) -> tuple[Tensor, Tensor]:
        one = self.y.new_ones(len(self.y), 1)
        return torch.cat([self.x / self.tau, -reference[:, None]], 1), torch.cat([self.y, one], 1)

    def pull(self, block: slice, weights: Tensor) -> None:
        """Add the gradient that the block's softmax weights pull on both sides."""
        weights = self.spread(weights)
        self.grad_x[block] = weights @ self.y / self.tau
        self.grad_y.addmm_(weights.T, self.x[block], alpha=1 / self.tau)


class _Squared(_Product):
    def factors(self, reference: Tensor) -> tuple[Tensor, Tensor]:
        centre = self.y.mean(0)
        self.x, self.y = self.x - centre, self.y - centre
        x, y, tau = self.x, self.y, self.tau
        ours = -(x.square().sum(1, keepdim=True) / tau + reference[:, None])
        theirs = y.square().sum(1, keepdim=True)
        left = torch.cat([2 / tau * x, ours, torch.full_like(ours, -1 / tau)], 1)
        return left, torch.cat([y, torch.ones_like(theirs), theirs], 1)

    def pull(self, block: slice, weights: Tensor) -> None:
        """Add the gradient that the block's softmax weights pull on both sides."""
        weights = self.spread(weights)
        x, scale = self.x[block], 2 / self.tau
        self.grad_x[block] = scale * (weights @ self.y - weights.sum(1, keepdim=True) * x)
        self.grad_y.addmm_(weights.T, x, alpha=scale)
        self.grad_y -= scale * weights.sum(0)[:, None] * self.y


class _Lp:
    """Distances summed dimension by dimension over tiles that stay in cache."""

    def __init__(
        self, x: Tensor, y: Tensor, reference: Tensor, tau: float, p: float, power: bool
    ) -> None:
        self.x, self.y = x, y
        self.columns = y.T.contiguous()
        self.reference, self.tau, self.p, self.power = reference, tau, p, power
        self.grad_x, self.grad_y = torch.zeros_like(x), torch.zeros_like(y)
        self.distances = None

    def _tiles(self, rows: int) -> list[slice]:
        step = max(1, TILE["cpu" if self.x.device.type == "cpu" else "gpu"] // rows)
        m = len(self.y)
        return [slice(start, min(start + step, m)) for start in range(0, m, step)]

    def _difference(self, block: slice, tile: slice, k: int, out: Tensor) -> Tensor:
        return torch.sub(self.x[block, k, None], self.columns[k, tile], out=out)

    def fill(self, block: slice, out: Tensor) -> Tensor:
        """Write the logits of a block of rows, relative to the reference."""
        rows = len(out)
        for tile in self._tiles(rows):
            total = out[:, tile].zero_()
            for k in range(len(self.columns)):
                difference = self._difference(block, tile, k, torch.empty_like(total))
                total += difference.abs_().pow_(self.p)
        if not self.power:
            out.pow_(1 / self.p)
            self.distances = out.clone()
        return out.mul_(-1 / self.tau).sub_(self.reference[block, None].to(out.dtype))

    def pull(self, block: slice, weights: Tensor) -> None:
        """Add the gradient that the block's softmax weights pull on both sides."""
        if not self.power:
            slope = self.distances.pow_(1 - self.p)
            weights *= slope.masked_fill_(slope.isinf(), 0) / self.p
        weights *= -self.p / self.tau
        for tile in self._tiles(len(weights)):
            weight = weights[:, tile]
            for k in range(len(self.columns)):
                difference = self._difference(block, tile, k, torch.empty_like(weight))
                pull = difference.abs().pow_(self.p - 1).mul_(difference.sign_()).mul_(weight)
                self.grad_x[block, k] += pull.sum(1)
                self.grad_y[tile, k] -= pull.sum(0)


_KERNELS = {"dot": _Dot, "squared": _Squared, "lp": _Lp}
