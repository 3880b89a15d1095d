"""The gradient of a loss over a whole batch, in one piece or in pieces that fit into memory.

InfoNCE compares every row with every other, so a batch cannot simply be cut up. But its loss sees
embeddings only, and those are small: all rows are embedded piece by piece without a graph, the
loss gives the gradient of every embedding, and each piece is then embedded again, this time with a
graph, to carry its rows' gradients on to the weights (Gao et al. 2021, gradient caching).
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn

PRECISIONS = {"float32": None, "bfloat16": torch.bfloat16}  # of the encoder; weights are float32
Forward = Callable[[Tensor], Tensor]
Loss = Callable[[Sequence[Tensor]], Tensor]


def backward(
    encoder: nn.Module,
    forward: Forward,
    views: Sequence[Tensor],
    loss: Loss,
    *,
    micro_batch: int | None = None,
    norm_rows: int | None = None,
) -> Tensor:
    """Add the gradient of `loss(embedded views)` to all weights; return the loss, detached.

    Args:
        encoder: What `forward` runs; its batch statistics and random draws are kept in step.
        forward: The encoder, perhaps compiled and under autocast.
        views: Tensors to embed, each (n_i, ...); all go through the encoder together.
        loss: Takes the embedded views.
        micro_batch: Rows to embed at a time, to save memory; None embeds all at once. Gradients
            and batch statistics are the same either way.
        norm_rows: Rows that batch-norm normalises together, in the order of the views; None: all.
    """
    rows = torch.cat(list(views))
    lengths = [len(view) for view in views]
    piece = min(micro_batch or len(rows), len(rows))
    group = group_rows(encoder, len(rows), piece, norm_rows)

    def embed(part: Tensor) -> Tensor:
        return torch.cat([forward(together) for together in part.split(group)])

    if piece == len(rows):
        value = loss(embed(rows).split(lengths))
        value.backward()
        return value.detach()
    parts, before, buffers = [], [], [buffer.clone() for buffer in encoder.buffers()]
    with torch.no_grad():
        for part in rows.split(piece):
            before.append(random_states())
            parts.append(embed(part))
        for buffer, old in zip(encoder.buffers(), buffers, strict=True):
            buffer.copy_(old)  # the second pass over the same rows moves running statistics
    embedded = torch.cat(parts).requires_grad_()  # (sum n_i, d): small, whatever the encoder
    value = loss(embedded.split(lengths))
    value.backward()
    assert embedded.grad is not None
    gradients = embedded.grad.split(piece)
    for part, states, gradient in zip(rows.split(piece), before, gradients, strict=True):
        set_random_states(states)
        embed(part).backward(gradient)
    return value.detach()


def group_rows(encoder: nn.Module, rows: int, piece: int, norm_rows: int | None) -> int:
    """Return how many rows go through the encoder together; refuse pieces that cut such a group."""
    if not any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in encoder.modules()):
        return piece
    group = min(norm_rows or rows, rows)
    if piece < rows and piece % group:
        raise ValueError(
            f"`micro_batch` must be a multiple of `norm_rows`, the {group} rows that batch-norm "
            f"normalises together, got {piece}: smaller groups would be another model, which "
            f"norm_rows={piece} asks for."
        )
    return group


def autocast(device: torch.device, precision: str) -> Callable[[], AbstractContextManager[object]]:
    """Return the context in which the encoder runs: "float32", or "bfloat16" mixed precision."""
    kind = PRECISIONS[precision]
    return nullcontext if kind is None else lambda: torch.autocast(device.type, kind)


def random_states() -> dict[str, Tensor]:
    """Return the states of torch's generators."""
    cuda = {"cuda": torch.cuda.get_rng_state()} if torch.cuda.is_available() else {}
    return {"cpu": torch.get_rng_state(), **cuda}


def set_random_states(states: Mapping[str, Tensor]) -> None:
    """Put the generators back."""
    torch.set_rng_state(states["cpu"])
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])
