"""Peak memory of a rank at a global batch of 6,144 pairs, on 1, 2 and 4 ranks.

`python -m tests.speed.ranks`: a training step of the papers' multilayer perceptron for 10 latents,
forward and backward through encoder and loss, on so many processes that share one batch (gloo, a
thread each). Memory is the peak of a rank above that of the bare process, the largest of all ranks;
the loss and the norm of the gradient say that all numbers of ranks compute the same.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from ident3d.benchmark.encoders import make_head, mlp
from ident3d.benchmark.losses import make_objective
from ident3d.benchmark.settings.run_settings import Loss
from ident3d.benchmark.training.distributed import here
from ident3d.benchmark.training.gradients import backward
from torch import distributed

BATCH, DIM = 6144, 10
WORLDS = (1, 2, 4)


def measure(rank: int, world: int, store: str, similarity: str) -> dict:
    """Return a rank's peak memory above that of the bare process, the loss and the gradient."""
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=world
    )
    torch.manual_seed(0)
    encoder = mlp(DIM, make_head("box", DIM, size=3.0))
    objective = make_objective(Loss(similarity=similarity), DIM)
    ranks = here()

    def step(pairs: int) -> torch.Tensor:
        anchors = torch.rand(pairs, DIM)
        views = [anchors, anchors + 0.05 * torch.randn(pairs, DIM)]
        encoder.zero_grad(set_to_none=True)
        own = [view[ranks.share(pairs)] for view in views]
        return backward(encoder, encoder, own, objective, ranks=ranks)

    step(64)  # libraries and connections are up
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    torch.manual_seed(1)
    loss = step(BATCH)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    gradient = torch.cat([p.grad.flatten() for p in encoder.parameters()]).norm()
    distributed.barrier()
    distributed.destroy_process_group()
    return {"mb": (peak - before) / 1024, "loss": loss.item(), "gradient": gradient.item()}


def in_processes(world: int, similarity: str) -> list[dict]:
    """Measure on so many fresh processes."""
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder) / "store")
        command = [sys.executable, "-m", "tests.speed.ranks"]
        processes = [
            subprocess.Popen(
                [*command, str(rank), str(world), store, similarity],
                stdout=subprocess.PIPE,
                text=True,
                env=os.environ | {"OMP_NUM_THREADS": "1"},
            )
            for rank in range(world)
        ]
        said = [process.communicate()[0] for process in processes]
    assert all(process.returncode == 0 for process in processes)
    return [json.loads(text) for text in said]


def main() -> None:
    """Print the table."""
    print(f"A training step at a global batch of {BATCH:,} pairs, {DIM}-d, papers' MLP")
    heads = f"{'peak of a rank':>17}{'of 1 rank':>11}{'loss':>11}{'gradient':>12}"
    print(f"{'similarity':12}{'ranks':>6}{heads}")
    for similarity in ("l2", "l1"):
        single = 0.0
        for world in WORLDS:
            found = in_processes(world, similarity)
            peak = max(rank["mb"] for rank in found)
            single = single or peak
            print(
                f"{similarity:12}{world:6}{peak:14.0f} MB{peak / single:11.2f}"
                f"{found[0]['loss']:11.6f}{found[0]['gradient']:12.4g}"
            )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        rank, world, store, similarity = sys.argv[1:]
        print(json.dumps(measure(int(rank), int(world), store, similarity)))
    else:
        main()
