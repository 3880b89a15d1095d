"""Losses as loops over pairs in float64, and how near to them the library must be."""

import torch
from ident3d.benchmark.losses import Dot, Importance, Lp, Metric
from torch.nn import functional

DIM = 4
SIZES = [2, 3, 17, 512]
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}
START = torch.linspace(0.5, 2, DIM)

# What the library compares with, and the same as one line for two vectors (raw: the learned part).
SIMILARITIES = {
    "dot": (Dot, lambda x, y, raw: (x * y).sum(-1)),
    "l1": (lambda: Lp(1), lambda x, y, raw: -(x - y).abs().sum(-1)),
    "l2": (lambda: Lp(2), lambda x, y, raw: -(x - y).square().sum(-1)),
    "l3": (lambda: Lp(3), lambda x, y, raw: -(x - y).abs().pow(3).sum(-1)),
    "l2.5": (lambda: Lp(2.5), lambda x, y, raw: -(x - y).abs().pow(2.5).sum(-1)),
    "root1": (lambda: Lp(1, power=False), lambda x, y, raw: -root(x - y, 1)),
    "root2": (lambda: Lp(2, power=False), lambda x, y, raw: -root(x - y, 2)),
    "root3": (lambda: Lp(3, power=False), lambda x, y, raw: -root(x - y, 3)),
    "metric": (
        lambda: Metric(DIM, START),
        lambda x, y, raw: -((x - y).square() * functional.softplus(raw)).sum(-1),
    ),
    "importance": (
        lambda: Importance(DIM, START),
        lambda x, y, raw: (x * y * functional.softplus(raw)).sum(-1),
    ),
}


def root(difference, p):
    return torch.linalg.vector_norm(difference, ord=p, dim=-1)


def batch(n, spread=0.8, noise=0.4, seed=0):
    """Anchors, positives, hard negatives and independent negatives, exact in float32."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(*shape, DIM, generator=generator)

    anchors = spread * draw(n)
    return {
        "anchors": anchors,
        "positives": anchors + noise * draw(n),
        "hard": anchors[:, None] + noise * draw(n, 3),
        "free": spread * draw(5),
    }


def without(rows, i):
    return torch.cat([rows[:i], rows[i + 1 :]])


def row(pair, anchor, others, raw):
    """The similarities of one anchor: pair by pair, or for large batches the whole row at once."""
    if len(others) <= 40:
        return torch.stack([pair(anchor, other, raw) for other in others])
    return pair(anchor, others, raw)


def one_way(pair, raw, z, tau, negatives, hard, include_positive, self_negative):
    """InfoNCE by definition; z = (anchors, positives)."""
    anchors, positives = z
    pools = {"anchors": [anchors], "positives": [positives], "both": [anchors, positives]}
    total = 0
    for i in range(len(anchors)):
        positive = pair(anchors[i], positives[i], raw)
        logits = [positive[None]] if include_positive else []
        if isinstance(negatives, str):
            for pool in pools[negatives]:
                others = pool if self_negative else without(pool, i)
                logits.append(row(pair, anchors[i], others, raw))
        else:
            logits.append(row(pair, anchors[i], negatives, raw))
        if hard is not None:
            logits.append(row(pair, anchors[i], hard[i], raw))
        logits = torch.cat(logits) / tau - positive / tau
        others = logits[1:] if include_positive else logits
        if include_positive and others.max() < 0:  # logsumexp would lose the digits
            total = total + torch.log1p(others.exp().sum())
        else:
            total = total + logits.logsumexp(0)
    return total / len(anchors)


def gradients(loss, data, raw=None):
    leaves = {**data, "raw": raw} if raw is not None else data
    found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    return dict(zip(leaves, found, strict=True))


def assert_same(ours, theirs, tolerance):
    """Loss relative to itself, each gradient relative to its largest entry."""
    (loss, grads), (right, right_grads) = ours, theirs
    assert abs(loss.double() - right) <= tolerance * abs(right)
    for key, gradient in right_grads.items():
        if gradient is None:
            assert grads[key] is None
        else:
            apart = (grads[key].double() - gradient).abs().max()
            assert apart <= tolerance * gradient.abs().max(), key


def learned(name):
    similarity = SIMILARITIES[name][0]()
    return similarity.raw if isinstance(similarity, torch.nn.Module) else None
