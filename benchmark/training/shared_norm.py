"""Batch-norm over rows that several ranks hold: the statistics of all of them.

torch's SyncBatchNorm needs GPUs, and knows one group of rows. Here rows may be in several groups
that are normalised apart (`Training.norm_rows`), wherever the rows of a group lie.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .distributed import Ranks


@dataclass(frozen=True)
class Groups:
    """Rows that are embedded at a time, in groups that are normalised together."""

    ranks: Ranks
    counts: np.ndarray  # rows of each group on each rank, in their order there, (world, groups)
    _placed: dict[torch.device, Tensor] = field(default_factory=dict)

    @cached_property
    def own(self) -> list[int]:
        """Rows of each group on this rank."""
        return self.counts[self.ranks.rank].tolist()

    def on(self, device: torch.device) -> Tensor:
        """Return the counts on a device, where they stay: copies make a GPU wait."""
        if device not in self._placed:
            self._placed[device] = torch.tensor(self.counts, device=device)
        return self._placed[device]

    def sums(self, values: Tensor) -> Tensor:
        """Return the sums over rows and pixels of each group on this rank, (groups, channels)."""
        over = [axis for axis in range(values.ndim) if axis != 1]
        return torch.stack([part.sum(over) for part in values.split(self.own)])

    def spread(self, values: Tensor, like: Tensor) -> Tensor:
        """Return what a group has, (groups, channels), for each of its rows here: (n, c, 1, 1)."""
        own = self.on(values.device)[self.ranks.rank]
        rows = values.repeat_interleave(own, 0, output_size=len(like))
        return rows.view(*rows.shape, *[1] * (like.ndim - 2))


class SharedBatchNorm2d(nn.BatchNorm2d):
    """torch's own, until it is told of groups: see `normalised`."""

    groups: Groups | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Normalise channels, (n, c, H, W)."""
        return super().forward(x) if self.groups is None else self._shared(x, self.groups)

    @torch.compiler.disable
    def _shared(self, x: Tensor, groups: Groups) -> Tensor:
        assert self.running_mean is not None and self.running_var is not None  # as made by us
        assert self.num_batches_tracked is not None
        found, mean, variance = _Normalise.apply(x, self.weight, self.bias, self.eps, groups)
        with torch.no_grad():
            for centre, spread in zip(mean, variance, strict=True):
                self.num_batches_tracked += 1
                factor = self.momentum or 1 / self.num_batches_tracked.item()
                self.running_mean.lerp_(centre, factor)
                self.running_var.lerp_(spread, factor)
        return found


class _Normalise(torch.autograd.Function):
    """y = w (x - m) / s + b, with m and s of each group of rows, on whatever ranks these are."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float, groups: Groups
    ) -> tuple[Tensor, Tensor, Tensor]:
        wide = x.float()
        counts = groups.on(x.device)[..., None].float() * x[0, 0].numel()  # (world, groups, 1)
        own, n = counts[groups.ranks.rank].clamp(min=1), counts.sum(0)
        # Each rank's mean and squares about it are merged as Chan et al. 1979 do: nothing cancels.
        mean = groups.sums(wide) / own
        squares = groups.sums((wide - groups.spread(mean, x)).square())
        means, parts = groups.ranks.gather(torch.stack([mean, squares])).unbind(1)
        mean = (counts * means).sum(0) / n
        squares = (parts + counts * (means - mean).square()).sum(0)
        scale = (squares / n + eps).rsqrt()
        normal = (wide - groups.spread(mean, x)) * groups.spread(scale, x)
        shape = (1, -1, *[1] * (x.ndim - 2))
        ctx.save_for_backward(x, weight, mean, scale, n)
        ctx.groups = groups
        variance = squares / (n - 1).clamp(min=1)
        ctx.mark_non_differentiable(mean, variance)
        return (normal * weight.view(shape) + bias.view(shape)).to(x.dtype), mean, variance

    @staticmethod
    def backward(ctx: Any, upstream: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, mean, scale, n = ctx.saved_tensors
        groups: Groups = ctx.groups
        pull, spread = upstream.float(), groups.spread
        normal = (x.float() - spread(mean, x)) * spread(scale, x)
        totals = torch.stack([groups.sums(pull), groups.sums(pull * normal)])  # (2, groups, c)
        by_bias, by_weight = totals.sum(1)  # of this rank's rows: those of weights are summed later
        groups.ranks.sum_([totals])
        by_mean, by_scale = totals / n
        pull = pull - spread(by_mean, x) - normal * spread(by_scale, x)
        return (pull * spread(scale * weight, x)).to(x.dtype), by_weight, by_bias, None, None


@contextmanager
def normalised(encoder: nn.Module, groups: Groups | None) -> Iterator[None]:
    """Let an encoder's batch-norm see groups of rows while it embeds them."""
    norms = [module for module in encoder.modules() if isinstance(module, SharedBatchNorm2d)]
    for norm in norms:
        norm.groups = groups
    try:
        yield
    finally:
        for norm in norms:
            norm.groups = None


def shared_groups(
    encoder: nn.Module, lengths: Sequence[int], piece: int, norm_rows: int | None, ranks: Ranks
) -> list[Groups] | None:
    """Return the groups of each piece of a rank's rows; None where nothing is normalised."""
    norms = [m for m in encoder.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return None
    if not all(isinstance(norm, SharedBatchNorm2d) for norm in norms):
        raise ValueError("`encoder` must use SharedBatchNorm2d to be trained by several ranks.")
    return _groups(tuple(lengths), piece, norm_rows, ranks)


@lru_cache
def _groups(
    lengths: tuple[int, ...], piece: int, norm_rows: int | None, ranks: Ranks
) -> list[Groups]:
    world = ranks.world
    total = world * sum(lengths)
    group = min(norm_rows or total, total)
    # Row i of a rank's part of a view is row rank * length + i of that view of the whole batch.
    start = np.repeat(np.cumsum([0, *lengths])[:-1], lengths)
    row = np.arange(sum(lengths)) + (world - 1) * start
    numbers = (row + np.arange(world)[:, None] * np.repeat(lengths, lengths)) // group
    found = []
    for first in range(0, len(row), piece):
        part = numbers[:, first : first + piece]
        names, places = np.unique(part, return_inverse=True)
        places = places.reshape(part.shape)
        found.append(np.stack([np.bincount(p, minlength=len(names)) for p in places]))
    if sum(some.shape[1] for some in found) > len(np.unique(numbers)):
        raise ValueError(
            f"`micro_batch` must cut no group of `norm_rows`, the {group} rows that batch-norm "
            f"normalises together, of which each of {world} ranks holds a part; got {piece}: "
            f"set micro_batch to a multiple of {-(-group // world)}, or to none."
        )
    return [Groups(ranks, some) for some in found]
