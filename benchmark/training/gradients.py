"""The gradient of a loss over a whole batch, in one piece or in pieces that fit into memory.

InfoNCE compares every row with every other, so a batch cannot simply be cut up. But its loss sees
embeddings only, and those are small: all rows are embedded piece by piece without a graph, the
loss gives the gradient of every embedding, and each piece is then embedded again, this time with a
graph, to carry its rows' gradients on to the weights (Gao et al. 2021, gradient caching).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor, nn

PRECISIONS = {"float32": None, "bfloat16": torch.bfloat16}  # of the encoder; weights are float32
Forward = Callable[[Tensor], Tensor]
Loss = Callable[[Sequence[Tensor]], Tensor]


def backward(
    encoder: nn.Module, forward: Forward, views: Sequence[Tensor], loss: Loss, piece: int | None
) -> Tensor:
    """Add the gradient of `loss(embedded views)` to all weights; return the loss, detached.

    Args:
        encoder: What `forward` runs; its batch statistics and random draws are kept in step.
        forward: The encoder, perhaps compiled and under autocast.
        views: Tensors to embed, each (n_i, ...); all go through the encoder together.
        loss: Takes the embedded views.
        piece: Rows to embed at a time; None embeds all at once.
    """
    rows = torch.cat(list(views))
    lengths = [len(view) for view in views]
    if piece is None or piece >= len(rows):
        value = loss(forward(rows).split(lengths))
        value.backward()
        return value.detach()
    pieces = rows.split(piece)
    generators = []
    with torch.no_grad(), _frozen_statistics(encoder):
        parts = []
        for part in pieces:
            generators.append(_generator_state(rows.device))
            parts.append(forward(part))
    embedded = torch.cat(parts).requires_grad_()
    value = loss(embedded.split(lengths))
    value.backward()
    for part, generator, gradient in zip(
        pieces, generators, embedded.grad.split(piece), strict=True
    ):
        _set_generator_state(rows.device, generator)
        forward(part).backward(gradient)
    return value.detach()


def autocast(device: torch.device, precision: str) -> Callable[[], object]:
    """Return the context in which the encoder runs: "float32", or "bfloat16" mixed precision."""
    kind = PRECISIONS[precision]
    return nullcontext if kind is None else lambda: torch.autocast(device.type, kind)


@contextmanager
def _frozen_statistics(encoder: nn.Module) -> Iterator[None]:
    """Keep running statistics as they are: the second pass over the same rows moves them."""
    norms = [m for m in encoder.modules() if getattr(m, "track_running_stats", False)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 0.0
    try:
        yield
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum


def _generator_state(device: torch.device) -> Tensor:
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def _set_generator_state(device: torch.device, state: Tensor) -> None:
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)
