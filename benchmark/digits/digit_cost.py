"""What a run on digits would cost, told before it is started: from a few measured steps."""

import itertools
from functools import lru_cache

import torch

from ident3d.errors import DataError
from ident3d.progress import duration

from ..data.synthetic import Process, batches
from ..losses import make_objective
from ..training.cost import step_seconds
from ..training.loop import Batch, pick_device
from ..training.synthetic_run import build
from .digit_images import PIXELS
from .digit_settings import DigitSettings
from .digit_vae import Decoder, NegativeElbo, Vae, vae_training


def plan(settings: DigitSettings, _tier: str) -> str:
    """Tell digits, steps and time of a run; a few steps of VAE and encoder are measured."""
    try:
        digits = settings.real_digits()
        where = (
            f"{digits.name}: {len(digits.images):,} to learn from, {len(digits.test_images):,} kept"
        )
    except DataError as error:
        where = f"not there yet ({error}); taken as {settings.data.digits:,}"
    training = settings.training
    first, then = vae_training(settings, settings.data.digits), both_seconds(_costly(settings))
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
    alike = "anisotropic:" + ",".join(["5"] * settings.model.dim)
    return settings.with_(conditionals=(alike,), steps=1, fingerprints=(), data=None, size=1.0)


@lru_cache(maxsize=8)
def both_seconds(settings: DigitSettings) -> tuple[float, float]:
    """Measure a step of the VAE's training and one of the encoder's; the decoder is untrained."""
    torch.manual_seed(0)
    dim, process = settings.model.dim, Process.read(settings)
    own = vae_training(settings, settings.data.digits)
    images = torch.rand(own.batch, PIXELS)
    vae, mixing = (Vae(dim, settings.vae.widths) for _ in range(2))
    decoder = Decoder(mixing)
    encoder = build(settings, process, decoder, 0)
    pairs = batches(process, decoder, settings.training.batch, 0)(0)
    objective = make_objective(settings.loss, dim)
    return (
        step_seconds(vae, NegativeElbo(dim, 1.0), itertools.repeat(Batch((images,), images)), own),
        step_seconds(encoder, objective, pairs, settings.training),
    )
