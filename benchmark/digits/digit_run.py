"""One run on digits: latents decoded by a VAE, and how well real digits are told apart by it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..training.synthetic_run import embed, run_mixed
from .digit_images import Digits, flat
from .digit_settings import DigitSettings
from .digit_vae import Decoder, get_vae

NEIGHBOURS = 5  # the paper does not say how many; not tuned


def run(
    settings: DigitSettings, seed: int, checkpoint: Path | None, label: str
) -> list[dict[str, Any]]:
    """Do one run; return the fields of its records, one for each protocol.

    The VAE lies beside the folders of unfinished runs, where all rows of a seed find it.
    """
    vae = get_vae(settings, seed, None if checkpoint is None else checkpoint.parent.parent)
    found = run_mixed(settings, Decoder(vae), seed, checkpoint, label)
    if not found:  # a rank that helps
        return found
    digits = settings.real_digits()
    encoder = found[-1]["encoder"].encoder
    real = [embed(encoder, flat(images)) for images in (digits.images, digits.test_images)]
    accuracy = neighbour_accuracy(digits, real)
    return [with_digits(fields, digits, accuracy) for fields in found]


def with_digits(fields: dict[str, Any], digits: Digits, accuracy: float) -> dict[str, Any]:
    """Add what is measured on real digits to the fields of a record."""
    data = {"name": digits.name, "rows": len(digits.images), "fingerprint": digits.fingerprint}
    return {**fields, "scores": {**fields["scores"], "accuracy_knn": accuracy}, "data": data}


def neighbour_accuracy(digits: Digits, embedded: Sequence[np.ndarray]) -> float:
    """Return the share of real test digits whose nearest neighbours have their class.

    Those are the digits that the VAE learned from; `embedded` are they, and the test digits.
    """
    from sklearn.neighbors import KNeighborsClassifier

    model = KNeighborsClassifier(NEIGHBOURS).fit(embedded[0], digits.classes)
    return float(model.score(embedded[1], digits.test_classes))
