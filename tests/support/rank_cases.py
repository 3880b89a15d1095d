"""Run by each of several processes: gradients of shared batches beside those of one process.

`python -m tests.support.rank_cases RANK WORLD STORE OUT` prints nothing; the first rank writes the
largest difference of every case into OUT, as JSON.
"""

import json
import sys
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from ident3d.benchmark.losses import make_objective
from ident3d.benchmark.settings.run_settings import Loss
from ident3d.benchmark.training.distributed import ALONE, here
from ident3d.benchmark.training.gradients import autocast, backward
from ident3d.benchmark.training.shared_norm import SharedBatchNorm2d
from torch import distributed, nn

BATCH, DIM = 24, 3


@dataclass(frozen=True)
class Case:
    """A loss, an encoder and a way to go through a batch."""

    loss: dict[str, Any] = field(default_factory=dict)
    processes: int = 1
    hard: int = 0
    normed: bool = False
    options: dict[str, Any] = field(default_factory=dict)  # of `backward`
    precision: str = "float32"


CASES = {
    **{
        f"infonce {similarity} {negatives}": Case(
            {"similarity": similarity, "negatives": negatives}
        )
        for similarity in ("dot", "l1", "l2", "l3", "metric", "importance")
        for negatives in ("anchors", "positives", "both")
    },
    "symmetric": Case({"symmetric": True, "negatives": "both", "tau": 0.5}),
    "self negative": Case({"self_negative": True, "similarity": "l3"}),
    "without positive": Case({"include_positive": False}),
    "root": Case({"root": True, "similarity": "l3"}),
    "hard negatives": Case({"symmetric": True}, hard=2),
    "alignment-uniformity": Case({"name": "alignment-uniformity", "similarity": "l1"}),
    "spectral": Case({"name": "spectral"}),
    "tricl": Case({"name": "tricl"}),
    "ensemble": Case({"name": "ensemble", "similarity": "metric"}, processes=2),
    "pooled": Case({"name": "pooled"}, processes=2),
    "supervised": Case({"name": "supervised"}),
    "supervised anchors": Case({"name": "supervised", "anchors_only": True}),
    "pieces": Case(options={"micro_batch": 5}),
    "normalised together": Case(normed=True),
    "normalised by view": Case(normed=True, hard=1, options={"norm_rows": BATCH}),
    "normalised by parts of a rank's rows": Case(normed=True, options={"norm_rows": 3}),
    "normalised by what two ranks hold": Case(normed=True, options={"norm_rows": 20}),
    "normalised by view, in pieces": Case(
        normed=True, hard=1, options={"norm_rows": BATCH, "micro_batch": BATCH}
    ),
    "mixed precision": Case(normed=True, precision="bfloat16"),
}


class Images(nn.Module):
    """Rows as images of 2 x 2 pixels, for batch-norm."""

    def forward(self, x):
        return x.view(len(x), -1, 2, 2)


def make_encoder(case):
    torch.manual_seed(0)
    layers = [nn.Linear(4, 16), nn.Tanh()]
    if case.normed:
        layers += [Images(), SharedBatchNorm2d(4), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(16, DIM))


def gradients(case, ranks):
    """Return loss, gradients and batch statistics of one batch, seen from a rank."""
    encoder = make_encoder(case)
    objective = make_objective(Loss(**case.loss), DIM, case.processes)
    torch.manual_seed(1)
    lengths = [BATCH] * (2 * case.processes) + [case.hard * BATCH] * (case.hard > 0)
    views = [torch.randn(length, 4) for length in lengths]
    latents = torch.randn(sum(lengths), DIM)
    context = autocast(torch.device("cpu"), case.precision)

    def forward(rows):
        with context():
            return encoder(rows).float()

    value = backward(
        encoder,
        forward,
        [view[ranks.share(len(view))] for view in views],
        partial(objective, latents=latents),
        ranks=ranks,
        **case.options,
    )
    learned = [*encoder.parameters(), *objective.parameters()]
    return [value, *(p.grad for p in learned if p.grad is not None), *encoder.buffers()]


def main(rank, world, store, out):
    distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=int(rank), world_size=int(world)
    )
    torch.set_num_threads(1)
    found = {}
    for name, case in CASES.items():
        shared, alone = gradients(case, here()), gradients(case, ALONE)
        pairs = zip(shared, alone, strict=True)
        found[name] = max(
            (a - b).abs().max().item() / max(1.0, b.abs().max().item()) for a, b in pairs
        )
    if here().first:
        Path(out).write_text(json.dumps(found))
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
