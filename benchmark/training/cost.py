"""What a run would cost: told before it is started, from measured steps."""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ident3d.dataset import load
from ident3d.errors import DataError
from ident3d.loaders import as_tensor
from ident3d.progress import duration, size
from ident3d.scale.peak_memory import peak_memory

from ..amx import avoid_broken_amx
from ..encoders import make_encoder
from ..encoders.baselines import BASELINES
from ..losses import make_objective
from ..settings.experiment import Experiment
from ..settings.run_settings import ImageSettings, Loss, Model, SyntheticSettings, Training
from ..settings.tiers import TIERS
from .gradients import autocast, backward, group_rows
from .loop import Batch, make_optimizer, pick_device

MASKS = (64, 250_000)  # pixels along the sides of a published mask; how many is a guess
MEASURED = 32  # images of the measured piece
SHORT = (10, 40)  # steps of trial runs; both have all their evaluations
FLOAT = 4  # bytes
# Peak memory of a training step in floats per input pixel, at 224 px; others count as most.
ACTIVATIONS = {"resnet18": 150, "compact": 10, "strided": 40, "strided-posterior": 80}


@dataclass(frozen=True)
class Cost:
    """What one run takes; `words` says more of it."""

    seconds: float
    memory_bytes: float
    read_bytes: float  # of the data, by all its steps
    words: tuple[str, ...] = ()


def plan(settings: ImageSettings, tier: str) -> str:
    """Tell steps, batches, memory, disk and time of a run; one piece of a step is measured."""
    return "\n".join(f"  {line}" for line in image_cost(settings, tier).words)


def image_cost(settings: ImageSettings, tier: str) -> Cost:
    """Measure one piece of a step of a run on images, and scale up."""
    training, data = settings.training, settings.data
    side, rows, where = _data(settings, tier)
    views = 2 * len(data.conditionals) + data.hard_count
    lines = [f"data: {where}", f"pairs: {data.pairs}, {', '.join(data.conditionals)}"]
    if settings.loss.name in BASELINES:
        return Cost(0.0, 0.0, 0.0, (*lines, "no training"))
    return training_cost(
        settings.model, settings.loss, training, lines, side, rows, views, len(data.conditionals)
    )


def training_cost(
    model: Model,
    loss: Loss,
    training: Training,
    lines: Sequence[str],
    side: int,
    rows: int,
    views: int = 2,
    processes: int = 1,
) -> Cost:
    """Measure one piece of a step, and scale up; `lines` say what is known of the data.

    It has `rows` images of `side` pixels; a pair and its hard negatives are so many `views`.
    """
    images = training.batch * views
    piece = min(training.micro_batch or images, images)
    device = pick_device(training.device)
    seconds, parameters = _measure(model, loss, training, side, views, piece, processes)
    # Pieces are embedded twice: once for the loss, once for their gradients.
    passes = 4 / 3 if piece < images else 1.0
    total = (training.steps + (training.wide_steps or 0)) * images * seconds * passes
    activations = piece * side**2 * ACTIVATIONS.get(model.encoder, 150) * FLOAT
    memory = activations + 4 * parameters * FLOAT + 3 * images * side**2 * 3
    disk = rows * side**2 * 3
    epochs = training.steps * training.batch / rows
    smaller = "norm_rows and micro_batch" if training.norm_rows else "micro_batch"
    words = [
        *lines,
        f"steps: {training.steps:,}, each {training.batch} pairs ({images:,} images), "
        f"in pieces of {piece:,}; {epochs:,.1f} passes over the data",
        f"encoder: {model.encoder}, {parameters / 1e6:.1f} million weights, "
        f"{training.precision} on {device}",
        f"memory: about {size(memory)} to train (set {smaller} to need less)",
        f"disk: {size(disk)} of images, {size(3 * parameters * FLOAT)} for a checkpoint",
        f"time: {duration(total)} on {device}, at {1 / (seconds * passes):,.0f} images/s as "
        f"measured; a checkpoint every {training.checkpoint_seconds:.0f} s, to resume from",
    ]
    return Cost(total, memory, training.steps * images * side**2 * 3, tuple(words))


def run_cost(experiment: Experiment, settings: Any, tier: str) -> Cost:
    """Tell what one run of an experiment would cost, by a short trial."""
    if isinstance(settings, ImageSettings):
        return image_cost(settings, tier)
    if isinstance(settings, SyntheticSettings):
        return short_run_cost(experiment.run, settings)
    raise ValueError(f"{experiment.id} cannot be tried out; give --seconds-per-run.")


def short_run_cost(run: Callable[..., Any], settings: SyntheticSettings) -> Cost:
    """Do a run of few steps and one of more, in earnest, and scale up what the latter take."""
    training, seconds = settings.training, []
    run(settings.with_(steps=SHORT[0]), 0, None, "trial")  # warms up
    for steps in SHORT:
        began = time.perf_counter()
        run(settings.with_(steps=steps), 0, None, "trial")
        seconds.append(time.perf_counter() - began)
    longer = seconds[1] - seconds[0]
    # Where a busy machine held up the shorter one, all of the longer one's time is its steps'.
    step = longer / (SHORT[1] - SHORT[0]) if longer > 0 else seconds[1] / SHORT[1]
    return Cost(seconds[0] + (training.steps - SHORT[0]) * step, peak_memory(), 0.0)


def _data(settings: ImageSettings, tier: str) -> tuple[int, int, str]:
    """Return side and rows of the data, and words for it; what its tier asks for if not there."""
    folder, meant = settings.data.folder, TIERS[tier].images
    try:
        found = load(Path(folder) / settings.data.splits[0])
    except (DataError, OSError):
        side, rows = MASKS
        if meant and settings.data.pairs != "time":
            side, rows = meant.resolution, settings.data.rows or meant.rows[0]
        return side, rows, f"{folder} is not there yet; taken as {rows:,} rows of {side} px"
    side, rows = found.resolution[0], settings.data.rows or len(found)
    return side, rows, f"{found.path}, {rows:,} rows of {side} px"


def _measure(
    model: Model, loss: Loss, training: Training, side: int, views: int, piece: int, processes: int
) -> tuple[float, int]:
    """Return seconds per image, forward and backward, and the number of weights."""
    if training.precision == "bfloat16":
        avoid_broken_amx()
    torch.manual_seed(0)
    count = min(piece, MEASURED)
    pixels = np.random.default_rng(0).integers(0, 256, (count, side, side, 3), np.uint8)
    images = as_tensor(pixels)
    encoder = make_encoder(model, images, 1.0)
    group_rows(encoder, views * training.batch, piece, training.norm_rows)  # refuses what would be
    objective = make_objective(loss, model.dim, processes)
    lengths = [count // views] * views
    used = images[: sum(lengths)]
    latents = used if objective.reconstructs else torch.zeros(len(used), model.dim)
    batch = Batch(used.split(lengths), latents)
    seconds = step_seconds(encoder, objective, itertools.repeat(batch), training)
    return seconds / len(used), sum(p.numel() for p in encoder.parameters())


def step_seconds(
    encoder: nn.Module, objective: nn.Module, batches: Iterator[Batch], training: Training
) -> float:
    """Measure a step, its batch drawn and embedded in one piece: the quicker one of two."""
    device, seconds = pick_device(training.device), []
    modules = {"encoder": encoder.to(device), "objective": objective.to(device)}
    optimizer = make_optimizer(modules, training)
    context = autocast(device, training.precision)

    def forward(rows: Tensor) -> Tensor:
        with context():
            return encoder(rows).float()

    for _ in range(3):  # the first warms up
        began = time.perf_counter()
        batch = next(batches).to(device)
        optimizer.zero_grad(set_to_none=True)
        backward(encoder, forward, batch.views, partial(objective, latents=batch.latents))
        optimizer.step()
        if device.type == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    return min(seconds[1:])
