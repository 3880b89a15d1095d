"""All-pairs logits of a block of rows, and the pull of their softmax weights on both sides.

With logits l_ij = s(x_i, y_j) / tau - r_i and weights w_ij = dL / dl_ij, the gradients are

    dL / dx_i = sum_j w_ij ds(x_i, y_j)/dx / tau,    dL / dy_j = sum_i w_ij ds(x_i, y_j)/dy / tau.

A kernel is used once: `start`, then for each block of rows `logits` and `pull`, then `gradients`.
Where pairs are worked out once, `similarities` and `pull_tile` take the place of the middle two.
Written by hand, since autograd would keep all n m differences, or all n m logits several times.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .similarities import Lp, widen


class Kernel:
    """What the kernels share: the temperature and the size of a block, in elements."""

    # On a CPU a block and its scratch should stay in cache; a GPU wants few and large launches.
    cpu_block = 2**19
    gpu_block = 2**24

    def __init__(self, similarity: Any, tau: float) -> None:
        self.tau = tau

    def block(self, device: torch.device) -> int:
        """Return how many logits to hold at a time."""
        return self.cpu_block if device.type == "cpu" else self.gpu_block


class _Product(Kernel):
    """Logits that are one matrix product, left (n, k) times right (m, k)'.

    In float64: |x|^2 + |y|^2 - 2 x.y cancels by 10^3 and more in the spaces that models learn,
    and k is so small that the product costs no more than reading the result.
    """

    def factors(self, reference: Tensor) -> tuple[Tensor, Tensor]:
        """Return left and right; what one row or one column adds to its logits is a column."""
        raise NotImplementedError

    def start(self, x: Tensor, y: Tensor, reference: Tensor, buffer: Tensor) -> None:
        """Take the batch, x (n, d), y (m, d), r (n,), and a buffer (rows, m) for the logits."""
        self.dtypes = x.dtype, y.dtype
        self.x, self.y, self.buffer = widen(x), widen(y), buffer
        self.wide = torch.empty_like(buffer, dtype=self.x.dtype)
        self.grad_x, self.grad_y = torch.zeros_like(self.x), torch.zeros_like(self.y)
        self.left, self.right = self.factors(reference)

    def logits(self, block: slice) -> Tensor:
        """Return the block's logits relative to the reference, in the buffer."""
        rows = block.stop - block.start
        torch.mm(self.left[block], self.right.T, out=self.wide[:rows])
        return self.buffer[:rows].copy_(self.wide[:rows])

    def gradients(self) -> tuple[Tensor, Tensor]:
        """Return the gradients of both sides."""
        return self.grad_x.to(self.dtypes[0]), self.grad_y.to(self.dtypes[1])


class _Dot(_Product):
    """x . y / tau - r."""

    def factors(self, reference: Tensor) -> tuple[Tensor, Tensor]:
        """Return (x / tau, -r) and (y, 1): (n, d + 1) and (m, d + 1)."""
        ones = self.y.new_ones(len(self.y), 1)
        return torch.cat([self.x / self.tau, -reference[:, None]], 1), torch.cat([self.y, ones], 1)

    def pull(self, block: slice, weights: Tensor) -> None:
        """Add the gradient that the block's weights pull on both sides."""
        weights = self.wide[: len(weights)].copy_(weights)  # (rows, m); ds/dx = y, ds/dy = x
        torch.mm(weights, self.y / self.tau, out=self.grad_x[block])
        self.grad_y.addmm_(weights.T, self.x[block], alpha=1 / self.tau)


class _Squared(_Product):
    """-|x - y|^2 / tau - r."""

    def factors(self, reference: Tensor) -> tuple[Tensor, Tensor]:
        """Return (2 x, -|x|^2 - tau r, -1) / tau and (y, 1, |y|^2): (n, d + 2) and (m, d + 2)."""
        centre = self.y.mean(0)  # distances do not see it, and about it less cancels
        self.x, self.y = self.x - centre, self.y - centre
        length = -self.x.square().sum(1) / self.tau - reference
        scale = torch.full_like(length, -1 / self.tau)
        left = torch.cat([2 / self.tau * self.x, length[:, None], scale[:, None]], 1)
        ones = self.y.new_ones(len(self.y), 1)
        self.y1 = torch.cat([self.y, ones], 1)
        return left, torch.cat([self.y1, self.y.square().sum(1, keepdim=True)], 1)

    def pull(self, block: slice, weights: Tensor) -> None:
        """Add the gradient that the block's weights pull on both sides."""
        weights = self.wide[: len(weights)].copy_(weights)
        x, scale = self.x[block], 2 / self.tau
        x1 = torch.cat([x, x.new_ones(len(x), 1)], 1)
        # -d|x - y|^2/dx = 2 (y - x): sum_j w_ij (y_j - x_i) = (W y)_i - (W 1)_i x_i, y likewise.
        forward, back = weights @ self.y1, weights.T @ x1  # last column: the weights' sums
        self.grad_x[block] = scale * (forward[:, :-1] - forward[:, -1:] * x)
        self.grad_y += scale * (back[:, :-1] - back[:, -1:] * self.y)


class _Lp(Kernel):
    """-|x - y|_p^p / tau - r, or with the root: dimension by dimension, by true differences."""

    cpu_block = 2**17

    def __init__(self, similarity: Lp, tau: float) -> None:
        super().__init__(similarity, tau)
        self.p, self.power = similarity.p, similarity.power

    def start(self, x: Tensor, y: Tensor, reference: Tensor, buffer: Tensor) -> None:
        """Take the batch."""
        self.x, self.y = x.T.contiguous(), y.T.contiguous()  # (d, n), (d, m)
        self.reference, self.buffer = reference.to(buffer.dtype), buffer
        self.scratch = [torch.empty_like(buffer).view(-1) for _ in range(2 if self.power else 3)]
        self.grad_x, self.grad_y = torch.zeros_like(self.x), torch.zeros_like(self.y)

    def logits(self, block: slice) -> Tensor:
        """Return the block's logits relative to the reference, in the buffer."""
        out = self.buffer[: block.stop - block.start]
        self.similarities(block, slice(0, self.y.shape[1]), out)
        if not self.power:
            self._scratch(2, out).copy_(out)
        return out.sub_(self.reference[block, None])

    def pull(self, block: slice, weights: Tensor) -> None:
        """Add the gradient that the block's weights pull on both sides."""
        similarities = None if self.power else self._scratch(2, weights)
        self.pull_tile(block, slice(0, self.y.shape[1]), weights, similarities)

    def similarities(self, rows: slice, columns: slice, out: Tensor) -> None:
        """Write the similarities, over tau, of some x to some y."""
        difference, scratch = self._scratch(0, out), self._scratch(1, out)
        out.zero_()
        for x, y in zip(self.x[:, rows, None], self.y[:, columns], strict=True):
            torch.sub(x, y, out=difference)
            self._add_power(out, difference, scratch)
        if not self.power:
            out.pow_(1 / self.p)
        out.mul_(-1 / self.tau)

    def pull_tile(
        self, rows: slice, columns: slice, weights: Tensor, similarities: Tensor | None
    ) -> None:
        """Add what weights pull on some x and some y; without `power` it takes similarities."""
        difference, scratch = self._scratch(0, weights), self._scratch(1, weights)
        if self.power:  # -d|x - y|^p/dx = -p |x - y|^(p - 1) sign(x - y), for each dimension
            weights = weights * (-self.p / self.tau)
        else:  # d|x|_p = |x|_p^(1 - p) |x|^(p - 1) dx, and 0 where points coincide
            assert similarities is not None
            root = similarities.mul(-self.tau)
            weights = weights * root.pow(1 - self.p).masked_fill_(root.eq(0), 0) / -self.tau
        grad_x, grad_y = self.grad_x[:, rows], self.grad_y[:, columns]
        by_x, by_y = torch.empty_like(grad_x), torch.empty_like(grad_y)
        for x, y, gx, gy in zip(self.x[:, rows, None], self.y[:, columns], by_x, by_y, strict=True):
            torch.sub(x, y, out=difference)
            pull = self._slope(difference, scratch).mul_(weights)
            torch.sum(pull, 1, out=gx)
            torch.sum(pull, 0, out=gy)
        grad_x += by_x
        grad_y -= by_y

    def gradients(self) -> tuple[Tensor, Tensor]:
        """Return the gradients of both sides."""
        return self.grad_x.T, self.grad_y.T

    def _scratch(self, index: int, like: Tensor) -> Tensor:
        return self.scratch[index][: like.numel()].view(like.shape)

    def _add_power(self, total: Tensor, difference: Tensor, scratch: Tensor) -> None:
        """Add |difference|^p to total, with the other two as scratch."""
        if self.p == 1:
            total += difference.abs_()
        elif self.p == 2:
            total.addcmul_(difference, difference)
        elif self.p == 3:
            torch.mul(difference, difference, out=scratch)
            total.addcmul_(scratch, difference.abs_())
        else:
            total += difference.abs_().pow_(self.p)

    def _slope(self, difference: Tensor, scratch: Tensor) -> Tensor:
        """Return |difference|^(p - 1) with the difference's sign, in either tensor."""
        if self.p == 1:
            return difference.sign_()
        if self.p == 2:
            return difference
        torch.abs(difference, out=scratch)
        if self.p == 3:
            return difference.mul_(scratch)
        return scratch.pow_(self.p - 1).copysign_(difference)


KERNELS: dict[str, Callable[[Any, float], Any]] = {"dot": _Dot, "squared": _Squared, "lp": _Lp}
