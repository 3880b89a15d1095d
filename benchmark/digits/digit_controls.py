"""What is reached on decoded digits without training an encoder: the controls of a row."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..data.synthetic import CONTROLS as STREAM
from ..data.synthetic import SCORING, Process, as_tensor, stream
from ..scoring import AS_RELEASED, HELD_OUT, fit_and_score
from ..scoring.controls import CONTROLS, IDENTITY, UNTRAINED, pixel_r2
from ..training.control_run import PAIRS, control_fields
from ..training.synthetic_run import build, embed, records
from .digit_images import Digits, flat
from .digit_run import check, neighbour_accuracy, with_digits
from .digit_settings import DigitSettings
from .digit_vae import Decoder, Vae, get_vae

OWN_ENCODER = "the VAE's own encoder"
Fields = dict[str, Any]  # of a record


def controls(settings: DigitSettings, seed: int, work: Path) -> Iterator[Fields]:
    """Yield the fields of the records of every control of a row, both protocols of each."""
    vae, digits = get_vae(settings, seed, work), check(settings)
    mixing, process = Decoder(vae), Process.read(settings)
    torch.manual_seed(seed)
    rng = stream(seed, STREAM)
    z = process.anchors(settings.data.scored, stream(seed, SCORING))
    latents = (z, *process.views(PAIRS, rng, 0)[:2])
    observed, anchors, positives = (mixing(as_tensor(x)) for x in latents)
    encoder = build(settings, process, mixing, seed)
    # Decoded digits, then real ones: what each control embeds.
    rows = torch.cat([observed, flat(digits.images), flat(digits.test_images)])
    ways: dict[str, tuple[str, Callable[[], np.ndarray]]] = {
        UNTRAINED: ("the row's encoder before its first step", lambda: embed(encoder, rows)),
        OWN_ENCODER: (
            "trained with the decoder on real digits; no pairs",
            lambda: _means(vae, rows),
        ),
    }
    pairs = (anchors.double().numpy(), positives.double().numpy())
    for control in CONTROLS:
        learned = _learned(control.embed, *pairs, rows.double().numpy(), process.dim, rng)
        ways[control.name] = f"{control.words}; {PAIRS:,} pairs", learned
    yield from _pixels(process, z, observed.numpy(), digits)
    for name, (words, way) in ways.items():
        began = time.monotonic()
        z_hat, *real = np.split(way(), [len(z), len(z) + len(digits.images)])
        accuracy = neighbour_accuracy(digits, real)
        shared = control_fields(name, {"words": words}, time.monotonic() - began)
        for fields in records(process, z, z_hat, {}):
            yield with_digits(fields, digits, accuracy) | shared


def _pixels(
    process: Process, z: np.ndarray, pixels: np.ndarray, digits: Digits
) -> Iterator[Fields]:
    """Read the latents off all pixels; more columns than MCC could match in earnest."""
    real = [flat(images).numpy() for images in (digits.images, digits.test_images)]
    accuracy = neighbour_accuracy(digits, real)
    for protocol in (AS_RELEASED, HELD_OUT):
        began = time.monotonic()
        fit, scored = fit_and_score(protocol, len(z), synthetic=True)
        per_factor = pixel_r2(z, pixels, fit, scored)
        scores: dict[str, Any] = {
            "r2": float(per_factor.mean()),
            "mcc": None,
            "r2_per_factor": dict(zip(process.names, per_factor.tolist(), strict=True)),
        }
        facts = {
            "words": f"all {pixels.shape[1]} pixels, from which a linear map is told the latents",
            "fit": "ridge, chosen by rows left out",
            "mcc": "no MCC: the best of so many values would be picked",
        }
        fields = {"protocol": protocol, "scores": scores, "factors": process.names}
        shared = control_fields(IDENTITY, facts, time.monotonic() - began)
        yield with_digits(fields, digits, accuracy) | shared


def _means(vae: Vae, rows: Tensor) -> np.ndarray:
    with torch.no_grad():
        return vae.means(rows).double().numpy()


def _learned(embedded: Callable[..., np.ndarray], *arguments: Any) -> Callable[[], np.ndarray]:
    return lambda: embedded(*arguments)
