"""One training loop, for synthetic and image data alike; everything it uses is passed in.

    history = train(encoder, objective, batches, Training(steps=2000, lr=1e-3), evaluate=score)

`batches(first)` yields the batches of steps `first`, `first + 1`, ...: the same ones every time it
is called, so that a run which was cut off goes on with the numbers of one that was not. Ranks that
train together (`distributed.py`) each call it with their own parts of the same batches.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from ident3d.errors import DataError
from ident3d.progress import Tracker

from ..encoders.heads import SIZES, Whitening
from ..settings.run_settings import Training
from ..settings.schedules import SCHEDULES
from . import checkpoints
from .distributed import Ranks, here, whole_views
from .gradients import autocast, backward


@dataclass(frozen=True)
class Batch:
    """What one step sees."""

    views: tuple[Tensor, ...]  # all of them are embedded: anchors, positives, hard negatives, ...
    latents: Tensor | None = None  # the true latents of all views' rows, for supervision

    def to(self, device: torch.device) -> "Batch":
        """Move the batch to a device."""
        latents = None if self.latents is None else self.latents.to(device, non_blocking=True)
        return Batch(tuple(view.to(device, non_blocking=True) for view in self.views), latents)


Batches = Callable[[int], Iterator[Batch]]
Objective = Callable[..., Tensor]  # (embedded views, latents) -> loss
Evaluate = Callable[[nn.Module], dict[str, float]]


@dataclass
class History:
    """How far training is, and what was seen on the way: the JSON part of a checkpoint."""

    step: int = 0
    before: float = 0.0  # seconds that a start of another kind took
    seconds: float = 0.0
    loss_sum: float = 0.0  # since the last evaluation
    loss_count: int = 0
    curves: dict[str, list[float]] = field(default_factory=dict)

    def record(self, scores: dict[str, float]) -> None:
        """Add a point to every curve."""
        point = {"step": self.step, "loss": self.loss_sum / max(self.loss_count, 1), **scores}
        for name, value in point.items():
            self.curves.setdefault(name, []).append(value)
        self.loss_sum, self.loss_count = 0.0, 0

    @property
    def latest(self) -> str:
        """The last point of the curves that people watch."""
        shown = [name for name in ("loss", "r2", "mcc") if name in self.curves]
        return ", ".join(f"{name} {self.curves[name][-1]:.4f}" for name in shown)


def train(
    encoder: nn.Module,
    objective: Objective,
    batches: Batches,
    settings: Training,
    *,
    evaluate: Evaluate = lambda encoder: {},
    checkpoint: Path | None = None,
    label: str = "training",
    before: float = 0.0,
) -> History:
    """Train `encoder`, and `objective` if it is a module, in place.

    With `checkpoint`, a file, training goes on from it if it is there, and keeps it up to date;
    also the seconds that were spent `before`, which a run that goes on does not spend again.
    """
    ranks, seed = here(), torch.initial_seed()
    if settings.batch % ranks.world:
        raise ValueError(
            f"`batch` must be a multiple of the {ranks.world} ranks that share it, "
            f"got {settings.batch}."
        )
    if ranks.world > 1 and any(isinstance(module, Whitening) for module in encoder.modules()):
        raise ValueError(
            "`whiten` must be false, and `beyond` 0, where several ranks share a batch."
        )
    device = pick_device(settings.device)
    encoder.to(device).train()
    modules: dict[str, nn.Module] = {"encoder": encoder}
    if isinstance(objective, nn.Module):
        modules["objective"] = objective.to(device)
    optimizer = make_optimizer(modules, settings)
    history = History(before=before)
    if checkpoint is not None and checkpoint.exists():
        history = History(**checkpoints.restore(checkpoint, modules, optimizer))
    _start_together(ranks, modules, history)
    runner: Callable[[Tensor], Tensor] = torch.compile(encoder) if settings.compile else encoder
    context = autocast(device, settings.precision)

    def forward(rows: Tensor) -> Tensor:
        with context():
            return runner(rows).float()

    source = batches(history.step)
    started = time.monotonic() - history.seconds
    saved = history.seconds
    losses = torch.tensor(history.loss_sum, dtype=torch.float64)
    with Tracker(settings.steps, label, "step", history.step) as tracker:
        while not _finished(history, settings):
            batch = next(source).to(device)
            set_learning_rates(optimizer, settings, history)
            optimizer.zero_grad(set_to_none=True)
            _draw_apart(ranks, seed, history.step)
            loss = backward(
                encoder,
                forward,
                batch.views,
                partial(objective, latents=_all_latents(ranks, batch)),
                micro_batch=settings.micro_batch,
                norm_rows=settings.norm_rows,
                ranks=ranks,
            )
            _copy_gradients(ranks, modules.get("objective"))
            if settings.clip is not None:
                nn.utils.clip_grad_norm_(_parameters(optimizer), settings.clip)
            optimizer.step()
            losses = losses.to(loss.device) + loss  # a sum on the device: no wait at every step
            history.step += 1
            history.loss_count += 1
            history.seconds = time.monotonic() - started
            if settings.seconds:  # which decide when it ends
                (history.seconds,) = ranks.agree([history.seconds])
            if is_evaluation(history, settings):
                history.loss_sum = checked(losses, history.step)
                history.record(evaluate(encoder) if ranks.first else {})
                losses = torch.zeros_like(losses)
                encoder.train()
                tracker.note = history.latest
            if (
                checkpoint
                and ranks.first
                and history.seconds - saved >= settings.checkpoint_seconds
            ):
                history.loss_sum = checked(losses, history.step)
                checkpoints.save(checkpoint, modules, optimizer, vars(history))
                saved = history.seconds
            tracker.advance()
    return history


def make_optimizer(modules: dict[str, nn.Module], settings: Training) -> torch.optim.Optimizer:
    """Return Adam, with a group of parameters for each learning rate that has any."""
    rates = {"encoder": settings.lr, "objective": settings.objective_lr, "size": settings.size_lr}
    groups: dict[str, list[nn.Parameter]] = {}
    for name, module in modules.items():
        sizes = set(SIZES.values()) if name == "encoder" and settings.size_lr else set()
        for path, parameter in module.named_parameters():
            if parameter.requires_grad:
                group = "size" if path.rpartition(".")[2] in sizes else name
                groups.setdefault(group, []).append(parameter)
    chosen = {name: rates[name] or settings.lr for name in groups}
    return torch.optim.Adam(
        [
            {"params": trained, "lr": chosen[name], "base_lr": chosen[name]}
            for name, trained in groups.items()
        ]
    )


def set_learning_rates(
    optimizer: torch.optim.Optimizer, settings: Training, history: History
) -> None:
    """Set the learning rates of the step to come: a function of what is done, with no state."""
    factor = SCHEDULES[settings.schedule](share_done(history, settings))
    for group in optimizer.param_groups:
        group["lr"] = group["base_lr"] * factor


def share_done(history: History, settings: Training) -> float:
    """Return how much of the training is done, by steps or by time, whichever is further."""
    by_time = history.seconds / settings.seconds if settings.seconds else 0.0
    return min(1.0, max(history.step / settings.steps, by_time))


def is_evaluation(history: History, settings: Training) -> bool:
    """Whether to score now: `evaluations` times, and whenever training ends."""
    before = (history.step - 1) * settings.evaluations // settings.steps
    return (
        _finished(history, settings)
        or history.step * settings.evaluations // settings.steps > before
    )


def pick_device(name: str) -> torch.device:
    """Return the device of that name; "auto" is the GPU if there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"`device` {name!r} is not there; use auto or cpu.") from error


def checked(losses: Tensor, step: int) -> float:
    """Return the summed losses as a number, or stop: NaN never gets better."""
    value = losses.item()
    if not math.isfinite(value):
        raise DataError(f"The loss is not finite before step {step}; lower `lr` or set `clip`.")
    return value


def _start_together(ranks: Ranks, modules: dict[str, nn.Module], history: History) -> None:
    """Begin with the first rank's weights: those of another kind of processor differ in a bit."""
    for module in modules.values():
        ranks.copy_first([*module.parameters(), *module.buffers()])
    if ranks.gather(torch.tensor([history.step])).unique().numel() > 1:
        raise DataError("The ranks see different checkpoints; put `--out` on a disk they share.")


def _draw_apart(ranks: Ranks, seed: int, step: int) -> None:
    """Let each rank draw its own noise for its rows, the same ones when a run goes on."""
    if ranks.world > 1:
        address = np.random.SeedSequence([seed, step, ranks.rank])
        torch.manual_seed(int(address.generate_state(1, np.uint64)[0]))


def _all_latents(ranks: Ranks, batch: Batch) -> Tensor | None:
    """Return the latents of the whole batch."""
    if batch.latents is None or ranks.world == 1:
        return batch.latents
    lengths = [len(view) for view in batch.views]
    return torch.cat(whole_views(ranks.gather(batch.latents), lengths))


def _copy_gradients(ranks: Ranks, objective: nn.Module | None) -> None:
    """Give all ranks the gradient of the loss's own parameters, which each of them has."""
    if objective is not None:
        ranks.copy_first([p.grad for p in objective.parameters() if p.grad is not None])


def _finished(history: History, settings: Training) -> bool:
    return share_done(history, settings) >= 1.0


def _parameters(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]
