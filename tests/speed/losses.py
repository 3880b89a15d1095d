"""InfoNCE forward and backward against a plain version that forms all differences.

`python -m tests.speed.losses`: one table, ratios within one run; each cell is its own process, so
that peak memory is its own. The batch has the paper's size: 6,144 pairs in 10 dimensions, in a unit
box. (In the box that models learn, 20 wide, most terms underflow, and the plain version, which
computes with denormal numbers there, takes up to twice as long.)
"""

import json
import resource
import subprocess
import sys
import time

import torch
from ident3d.benchmark.losses import Dot, Lp, infonce
from torch import Tensor

BATCH, DIM = 6144, 10
GOALS = {"1": 8, "2": 4, "3": 8}


POWERS = {"1": torch.abs, "2": torch.square, "3": lambda difference: difference.abs().pow(3)}


def plain(anchors: Tensor, positives: Tensor, p: str) -> Tensor:
    """InfoNCE as one writes it first: a (batch, batch, dim) tensor of differences."""
    if p == "dot":
        logits, positive = anchors @ anchors.T, (anchors * positives).sum(-1)
    else:
        logits = -POWERS[p](anchors[:, None] - anchors[None]).sum(-1)
        positive = -POWERS[p](anchors - positives).sum(-1)
    logits = logits.masked_fill(torch.eye(len(logits), dtype=torch.bool), -torch.inf)
    everything = torch.cat([positive[:, None], logits], 1)
    return (everything.logsumexp(1) - positive).mean()


def ours(anchors: Tensor, positives: Tensor, p: str) -> Tensor:
    """The benchmark's own."""
    similarity = Dot() if p == "dot" else Lp(float(p))
    return infonce(anchors, positives, similarity=similarity)


def measure(name: str, p: str, repeats: int) -> dict:
    """Return the best time, the peak memory above that of the bare process, loss and gradient."""
    torch.manual_seed(0)
    anchors = torch.rand(BATCH, DIM)
    positives = (anchors + 0.05 * torch.randn(BATCH, DIM)).requires_grad_()
    anchors.requires_grad_()
    function = {"plain": plain, "ours": ours}[name]
    ours(anchors[:64], positives[:64], p).backward()  # libraries and thread pools are up
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = []
    for _ in range(repeats):
        anchors.grad = positives.grad = None
        start = time.perf_counter()
        loss = function(anchors, positives, p)
        loss.backward()
        seconds.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "seconds": min(seconds),
        "mb": (peak - before) / 1024,
        "total_mb": peak / 1024,
        "loss": loss.item(),
        "gradient": anchors.grad.norm().item(),
    }


def in_process(name: str, p: str, repeats: int) -> dict:
    """Measure in a fresh process."""
    command = [sys.executable, "-m", "tests.speed.losses", name, p, str(repeats)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    """Print the table."""
    print(
        f"InfoNCE, forward and backward, batch {BATCH}, {DIM}-d, {torch.get_num_threads()} threads"
    )
    print(f"{'':4}{'plain':>19}{'ours':>19}{'faster':>9}{'goal':>6}{'memory':>9}{'loss':>10}")
    for p in ("dot", "2", "1", "3"):
        slow, fast = in_process("plain", p, 2), in_process("ours", p, 5)
        cells = [f"{r['seconds']:8.2f} s {r['mb']:6.0f} MB" for r in (slow, fast)]
        ratio, share = slow["seconds"] / fast["seconds"], fast["total_mb"] / slow["total_mb"]
        goal = f"{GOALS[p]}x" if p in GOALS else "-"
        apart = abs(slow["loss"] / fast["loss"] - 1)
        print(f"{p:4}{cells[0]}{cells[1]}{ratio:8.1f}x{goal:>6}{share:9.3f}{apart:10.0e}")
    print(
        "memory: peak of the whole process, ours over plain (goal 0.25); loss: relative difference"
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measure(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
    else:
        main()
