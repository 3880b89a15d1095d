"""What is reached on decoded digits without training an encoder: the controls of a row."""

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from ..data.synthetic import Process, as_tensor, scored_anchors
from ..scoring import AS_RELEASED, HELD_OUT
from ..scoring.controls import IDENTITY
from ..training.control_run import Fields, Ways, control_fields, ways
from ..training.pixel_run import RIDGE, read_pixels
from ..training.synthetic_run import records
from .digit_images import flat
from .digit_run import neighbour_accuracy, with_digits
from .digit_settings import DigitSettings
from .digit_vae import Decoder, get_vae

OWN_ENCODER = "the VAE's own encoder"


def controls(settings: DigitSettings, seed: int, work: Path) -> Iterator[Fields]:
    """Yield the fields of the records of every control of a row, both protocols of each."""
    vae, digits = get_vae(settings, seed, work), settings.real_digits()
    mixing, process = Decoder(vae), Process.read(settings)
    torch.manual_seed(seed)
    z = scored_anchors(settings, process, seed)
    observed, real = mixing(as_tensor(z)), [flat(digits.images), flat(digits.test_images)]
    # More columns than MCC could match in earnest: the latents are read off all pixels.
    accuracy = neighbour_accuracy(digits, [images.numpy() for images in real])
    told = f"all {observed.shape[1]} pixels, from which a linear map is told the latents"
    for protocol in (AS_RELEASED, HELD_OUT):
        began = time.monotonic()
        fields = read_pixels(z, observed.numpy(), process.names, protocol, synthetic=True)
        facts = {"words": told, **RIDGE}
        shared = control_fields(IDENTITY, facts, time.monotonic() - began)
        yield with_digits(fields, digits, accuracy) | shared
    rows = torch.cat([observed, *real])  # what each of the others embeds
    trained: Ways = {
        OWN_ENCODER: (
            "trained with the decoder on real digits; no pairs",
            lambda: vae.means(rows).detach().double().numpy(),
        )
    }
    for name, (words, embedded) in (trained | ways(settings, mixing, rows, seed)).items():
        began = time.monotonic()
        z_hat, *others = np.split(embedded(), [len(z), len(z) + len(digits.images)])
        accuracy = neighbour_accuracy(digits, others)
        shared = control_fields(name, {"words": words}, time.monotonic() - began)
        for fields in records(process, z, z_hat, {}):
            yield with_digits(fields, digits, accuracy) | shared
