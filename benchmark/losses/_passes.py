"""Two ways through all pairs of a batch: block by block of rows, or each pair once.

Both return the mean log-sum-exp and its derivatives by `reference` and `extra` (see `_pairwise`),
and leave the derivatives by the embeddings with the kernel. With t_i the largest logit of row i,

    log sum_j exp(l_ij) = t_i + log sum_j exp(l_ij - t_i),

and the derivative of their mean by l_ij is the softmax weight exp(l_ij - t_i) / sum / n.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

# Terms this far below a row's largest count as zero. Most are, in the spaces that models learn,
# and as denormal numbers they would make every later operation many times slower.
NOTHING = 1e-30


def by_rows(
    kernel: Any,
    reference: Tensor,
    extra: Tensor,
    count_reference: bool,
    own: bool,
    wanted: bool,
    rows: slice,
) -> tuple[Tensor, Tensor, Tensor]:
    """Turn a block's logits into weights, and these into gradients, while they are in cache.

    Only some rows are done: what they add to the mean, and their derivatives, zero elsewhere.
    """
    n = len(reference)
    total = reference.new_zeros(())
    by_reference, by_extra = torch.zeros_like(reference), torch.zeros_like(extra)
    for block in _blocks(rows, len(kernel.buffer)):
        logits = kernel.logits(block)
        if own:
            for offset in range(0, logits.shape[1], n):
                _leave_out(logits[:, offset + block.start : offset + block.stop])
        top = _top(logits.amax(1), extra[block], count_reference)  # (rows,)
        weights = _exponentials(logits, top[:, None], out=logits)
        sums = weights.sum(1)
        values, scale, by_extra[block] = _normalise(top, sums, extra[block], count_reference, n)
        total += values.sum()
        if wanted:
            by_reference[block] = -sums * scale  # r_i is in every logit of row i, negated
            kernel.pull(block, weights.mul_(scale.to(weights.dtype)[:, None]))
    return total / n, by_reference, by_extra


def by_halves(
    kernel: Any, reference: Tensor, extra: Tensor, count_reference: bool, own: bool, wanted: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Work out every pair once, where the candidates are the anchors: s(x, y) = s(y, x).

    The rows of a block meet only the columns from their own on. What lies beyond the block's
    square serves both ways: along rows, and along columns as the rows still to come.
    """
    n, buffer = len(reference), kernel.buffer.view(-1)
    tiles = []  # similarities over tau, (rows, n - first row): the upper triangle, in stairs
    highest = torch.full_like(reference, -torch.inf, dtype=buffer.dtype)
    for block in _triangle(n, len(buffer)):
        tile = buffer.new_empty((block.stop - block.start, n - block.start))
        kernel.similarities(block, slice(block.start, n), tile)
        if own:
            _leave_out(tile[:, : len(tile)])
        _raise(highest[block], tile.amax(1))  # as anchors of their rows,
        if block.stop < n:
            _raise(highest[block.stop :], tile[:, len(tile) :].amax(0))  # and of their columns
        tiles.append((block, tile))
    top = _top(highest - reference, extra, count_reference)
    level = (top + reference).to(buffer.dtype)

    sums = torch.zeros_like(reference)
    for block, tile in tiles:
        out = buffer[: tile.numel()].view(tile.shape)
        beyond = slice(len(tile), None)
        sums[block] += _exponentials(tile, level[block, None], out).sum(1)
        sums[block.stop :] += _exponentials(tile, level[None, block.start :], out)[:, beyond].sum(0)
    values, scale, by_extra = _normalise(top, sums, extra, count_reference, n)
    if wanted:
        level = (top + reference - scale.log()).to(buffer.dtype)  # exp(s - level) is scaled
        spare = torch.empty_like(buffer)
        for block, tile in tiles:
            out, back = (memory[: tile.numel()].view(tile.shape) for memory in (buffer, spare))
            weights = _exponentials(tile, level[block, None], out)
            _exponentials(tile, level[None, block.start :], back)
            weights[:, len(tile) :] += back[:, len(tile) :]
            kernel.pull_tile(block, slice(block.start, n), weights, tile)
    return values.mean(), -sums * scale, by_extra


def _blocks(rows: slice, size: int) -> Iterator[slice]:
    for first in range(rows.start, rows.stop, size):
        yield slice(first, min(first + size, rows.stop))


def _triangle(n: int, area: int) -> Iterator[slice]:
    """Yield blocks of rows, which grow as the columns left to them get fewer."""
    first = 0
    while first < n:
        rows = max(1, min(area // (n - first), -(-n // 4)))  # four blocks spare 3/8 of the work
        yield slice(first, min(first + rows, n))
        first += rows


def _leave_out(square: Tensor) -> None:
    square.diagonal().fill_(-torch.inf)


def _raise(highest: Tensor, values: Tensor) -> None:
    torch.maximum(highest, values, out=highest)


def _top(highest: Tensor, extra: Tensor, count_reference: bool) -> Tensor:
    """Return each row's largest logit, relative to the reference, which is 0 if it counts."""
    top = highest.to(extra.dtype)
    if extra.shape[1]:
        top = torch.maximum(top, extra.amax(1))
    return top.clamp(min=0) if count_reference else top


def _exponentials(logits: Tensor, top: Tensor, out: Tensor) -> Tensor:
    torch.sub(logits, top.to(logits.dtype), out=out)
    return torch.threshold_(out.clamp_(min=-80).exp_(), NOTHING, 0)


def _normalise(
    top: Tensor, sums: Tensor, extra: Tensor, count_reference: bool, n: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return log-sum-exps, what makes exponentials the mean's derivatives, those by `extra`."""
    others = (extra - top[:, None]).exp()
    # One less than the whole sum: with the reference on top that is tiny, and log1p keeps it.
    excess = sums.to(top.dtype) + others.sum(1)
    excess += torch.expm1(-top) if count_reference else -1
    scale = 1 / (n * (1 + excess))
    return top + excess.log1p(), scale, others * scale[:, None]
