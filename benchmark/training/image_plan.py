"""What a run of an image experiment would cost: told before it is started, from measured steps."""

import time
from pathlib import Path

import numpy as np
import torch

from ident3d.errors import DataError

from ..encoders import make_head
from ..encoders.image_encoders import image_encoder
from ..settings.image_settings import ImageSettings
from .gradients import backward
from .image_run import UNTRAINED
from .loop import make_optimizer, pick_device
from .models import make_objective

ROWS = 250_000  # of the published data set, where there is no data yet
SIDE = 224
MEASURED = 32  # images of the measured piece
FLOAT = 4  # bytes
# Peak memory of a training step, per input pixel, measured at 224 px.
ACTIVATIONS = {"resnet18": 150, "compact": 10}  # floats


def plan(settings: ImageSettings) -> str:
    """Tell steps, batches, memory, disk and time of a run; one piece of a step is measured."""
    side, rows, where = _data(settings)
    images = _images_per_step(settings)
    piece = min(settings.micro_batch or images, images)
    lines = [
        f"data: {where}",
        f"pairs: {settings.pairs}, {', '.join(settings.conditionals)}",
    ]
    if settings.loss in UNTRAINED:
        return "\n".join(f"  {line}" for line in [*lines, "no training"])
    seconds, parameters = _measure(settings, side, min(piece, MEASURED))
    # Pieces are embedded twice: once for the loss, once for their gradients.
    passes = 4 / 3 if piece < images else 1.0
    total = settings.steps * images * seconds * passes
    activations = piece * side**2 * ACTIVATIONS[settings.encoder] * FLOAT
    memory = activations + 4 * parameters * FLOAT + 3 * images * side**2 * 3
    disk = rows * side**2 * 3
    epochs = settings.steps * settings.batch / rows
    device = pick_device(settings.device)
    lines += [
        f"steps: {settings.steps:,}, each {settings.batch} pairs ({images:,} images), "
        f"in pieces of {piece:,}; {epochs:,.1f} passes over the data",
        f"encoder: {settings.encoder}, {parameters / 1e6:.1f} million weights, "
        f"{settings.precision} on {device}",
        f"memory: about {_size(memory)} to train (set micro_batch to need less)",
        f"disk: {_size(disk)} of images, {_size(3 * parameters * FLOAT)} for a checkpoint",
        f"time: {_time(total)} on {device}, at {1 / (seconds * passes):,.0f} images/s as measured "
        f"now; a checkpoint every {settings.checkpoint_seconds:.0f} s, the same command resumes",
    ]
    return "\n".join(f"  {line}" for line in lines)


def _data(settings: ImageSettings) -> tuple[int, int, str]:
    """Return side and rows of the data, and words for it; the published size if there is none."""
    from ident3d.dataset import load

    try:
        found = load(Path(settings.data) / settings.splits[0])
    except (DataError, OSError):
        missing = f"{settings.data} is not there yet; taken as {ROWS:,} images of {SIDE} px"
        return SIDE, ROWS, missing
    side, rows = found.resolution[0], len(found)
    return side, rows, f"{found.path}, {rows:,} rows of {side} px"


def _images_per_step(settings: ImageSettings) -> int:
    views = 2 * len(settings.conditionals) + settings.hard_count
    return settings.batch * views


def _measure(settings: ImageSettings, side: int, count: int) -> tuple[float, int]:
    """Return seconds per image, forward and backward, and the number of weights."""
    torch.manual_seed(0)
    device = pick_device(settings.device)
    head = make_head(settings.model_space, settings.dim)
    pixels = np.random.default_rng(0).integers(0, 256, (count, side, side, 3), np.uint8)
    images = torch.from_numpy(pixels).to(device)
    encoder = image_encoder(settings.encoder, settings.dim, head, images).to(device)
    views = 2 * len(settings.conditionals) + settings.hard_count
    objective = make_objective(settings).to(device)
    optimizer = make_optimizer({"encoder": encoder, "objective": objective}, settings)
    lengths = [count // views] * views
    used = images[: sum(lengths)]
    latents = torch.zeros(len(used), settings.dim, device=device)
    seconds = []
    for _ in range(3):  # the first warms up
        began = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        backward(encoder, encoder, used.split(lengths), lambda e: objective(e, latents), None)
        optimizer.step()
        if device.type == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    weights = sum(p.numel() for p in encoder.parameters())
    return min(seconds[1:]) / len(used), weights


def _size(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def _time(seconds: float) -> str:
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} seconds"
