"""The gradient of a loss over a whole batch, in one piece or in pieces that fit into memory.

InfoNCE compares every row with every other, so a batch cannot simply be cut up. But its loss sees
embeddings only, and those are small: all rows are embedded piece by piece without a graph, the
loss gives the gradient of every embedding, and each piece is then embedded again, this time with a
graph, to carry its rows' gradients on to the weights (Gao et al. 2021, gradient caching). Ranks
that share a batch do the same, each with its own rows.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn

from .distributed import ALONE, Ranks, sharing, whole_views
from .shared_norm import normalised, shared_groups

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
    ranks: Ranks = ALONE,
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
        ranks: Who shares the batch: `views` are this rank's part of each. The loss, which all of
            them compute, is of the whole batch, and so is the gradient: there must be none before.
    """
    rows = torch.cat(list(views))
    lengths = [len(view) for view in views]
    piece = min(micro_batch or len(rows), len(rows))
    embed = _embedding(encoder, forward, lengths, piece, norm_rows, ranks)
    pieces, before = rows.split(piece), []
    if len(pieces) == 1:
        parts = [embed(0, rows)]
    else:
        parts, buffers = [], [buffer.clone() for buffer in encoder.buffers()]
        with torch.no_grad():
            for number, part in enumerate(pieces):
                before.append(random_states())
                parts.append(embed(number, part))
            for buffer, old in zip(encoder.buffers(), buffers, strict=True):
                buffer.copy_(old)  # the second pass over the same rows moves running statistics
    # (ranks, sum n_i, d): small, whatever the encoder
    embedded = ranks.gather(torch.cat(parts).detach()).requires_grad_()
    with sharing(ranks):
        value = loss(whole_views(embedded, lengths))
        value.backward()
    assert embedded.grad is not None
    for number, gradient in enumerate(embedded.grad[ranks.rank].split(piece)):
        if before:
            set_random_states(before[number])
            parts[number] = embed(number, pieces[number])
        parts[number].backward(gradient)
        parts[number] = gradient  # lets go of the graph
    ranks.sum_([p.grad for p in encoder.parameters() if p.grad is not None])
    return value.detach()


def _embedding(
    encoder: nn.Module,
    forward: Forward,
    lengths: Sequence[int],
    piece: int,
    norm_rows: int | None,
    ranks: Ranks,
) -> Callable[[int, Tensor], Tensor]:
    """Return what embeds the piece of some number, each group of its rows normalised apart."""
    if ranks.world == 1:
        group = group_rows(encoder, sum(lengths), piece, norm_rows)
        return lambda _, part: torch.cat([forward(together) for together in part.split(group)])
    groups = shared_groups(encoder, lengths, piece, norm_rows, ranks)

    def embed(number: int, part: Tensor) -> Tensor:
        with normalised(encoder, groups[number] if groups else None):
            return forward(part)

    return embed


def _normalises(module: nn.Module) -> bool:
    """Whether a module's output depends on the rows that it sees together."""
    return isinstance(module, nn.modules.batchnorm._BatchNorm) or hasattr(module, "whitens_rows")


def group_rows(encoder: nn.Module, rows: int, piece: int, norm_rows: int | None) -> int:
    """Return how many rows go through the encoder together; refuse pieces that cut such a group."""
    if not any(_normalises(module) for module in encoder.modules()):
        return piece
    group = min(norm_rows or rows, rows)
    if piece < rows and piece % group:
        raise ValueError(
            f"`micro_batch` must be a multiple of `norm_rows`, the {group} rows that batch-norm "
            f"or `whiten` normalise together, got {piece}: smaller groups would be another model, "
            f"which norm_rows={piece} asks for."
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
