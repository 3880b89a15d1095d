"""What a run on digits would cost, told before it is started: from a few measured steps."""

import itertools
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

import torch
from torch import nn

from ident3d.errors import DataError
from ident3d.progress import duration

from ..data.synthetic import Process, batches
from ..losses import make_objective
from ..settings.run_settings import Training
from ..training.loop import Batch, Batches, pick_device, train
from ..training.synthetic_run import build
from .digit_images import PIXELS
from .digit_run import check
from .digit_settings import DigitSettings
from .digit_vae import Decoder, NegativeElbo, Vae, vae_training

MEASURED = 3  # steps, after one that warms up


def plan(settings: DigitSettings) -> str:
    """Tell digits, steps and time of a run; a few steps of VAE and encoder are measured."""
    try:
        digits = check(settings)
        where = (
            f"{digits.name}: {len(digits.images):,} to learn from, {len(digits.test_images):,} kept"
        )
    except DataError as error:
        where = f"not there yet ({error}); taken as {settings.data.digits:,}"
    training = settings.training
    first, then = vae_training(settings, settings.data.digits), step_seconds(_costly(settings))
    total = [steps * each for steps, each in zip((first.steps, training.steps), then, strict=True)]
    lines = (
        f"digits: {where}",
        f"VAE: {settings.vae.epochs} epochs of {settings.data.digits:,} digits, {first.steps:,} "
        f"steps: {duration(total[0])}, once for all rows of a seed",
        f"encoder: {training.steps:,} steps of {training.batch:,} pairs, decoded as drawn: "
        f"{duration(total[1])} on {pick_device(training.device)}, {then[1] * 1000:.0f} ms a step "
        f"as measured; a checkpoint every {training.checkpoint_seconds:.0f} s, to resume from",
    )
    return "\n".join(f"  {line}" for line in lines)


def _costly(settings: DigitSettings) -> DigitSettings:
    """Return the settings with all alike that costs alike, so that it is measured once."""
    flat = "anisotropic:" + ",".join(["5"] * settings.model.dim)
    return settings.with_(
        conditionals=(flat,), steps=MEASURED, fingerprints=(), data=None, size=1.0
    )


@lru_cache(maxsize=8)
def step_seconds(settings: DigitSettings) -> tuple[float, float]:
    """Measure a step of the VAE's training and one of the encoder's; the decoder is untrained."""
    torch.manual_seed(0)
    dim, process = settings.model.dim, Process.read(settings)
    vae, own = Vae(dim, settings.vae.widths), vae_training(settings, settings.data.digits)
    images = torch.rand(own.batch, PIXELS)
    mixing = Decoder(Vae(dim, settings.vae.widths))
    encoder = build(settings, process, mixing, 0)
    pairs = batches(process, mixing, settings.training.batch, 0)

    def same(_: int) -> Iterator[Batch]:
        return itertools.repeat(Batch((images,), images))

    return (
        _seconds(vae, NegativeElbo(dim, 1.0), same, own),
        _seconds(encoder, make_objective(settings.loss, dim), pairs, settings.training),
    )


def _seconds(network: nn.Module, objective: nn.Module, source: Batches, own: Training) -> float:
    """Train a few steps, and a few more; return what one of the latter took."""
    taken = []
    for steps in (1, 1 + MEASURED):
        began = time.perf_counter()
        few = replace(own, steps=steps, evaluations=1)
        train(network, objective, source, few, evaluate=lambda _: {}, label="trial")
        taken.append(time.perf_counter() - began)
    return max(0.0, taken[1] - taken[0]) / MEASURED
