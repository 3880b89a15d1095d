"""What SimCLR's augmentations do to known latents: the conditional that they imply, by factor.

A supervised encoder reads the latents of augmented views (`latent_readers.py` says how it was
trained). What it reads of images as they are is its own error, and stands beside everything. What
the hardened reader reads of a full SimCLR view is changed by augmentations that touch the factor,
as far as its training went; what both readers agree on rests on neither's training alone.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import kurtosis
from torch import Tensor

from ident3d.augment import COLOUR_CHANGES, SimCLR, blur, crop, grey, jitter, to_float
from ident3d.errors import DataError
from ident3d.loaders import as_tensor
from ident3d.rows import evenly

from ..data.images import sample_of
from ..encoders import make_encoder
from ..encoders.trained import Trained
from ..settings.composed import plain
from ..training.distributed import here
from ..training.loop import train
from .image_sources import ImageSet, read_source
from .latent_readers import AuditSettings, Supervision, Transform, drawn, reader_batches

AUDIT = 41  # the random stream of its views
KEPT = 400  # rows of the figure's sample


# Each as it acts where it is applied; the last is the whole policy, with its own probabilities.
AUGMENTATIONS: dict[str, Transform] = {
    "crop": lambda images: crop(images, flipped=0.0),
    "flip": lambda images: images.flip(3),
    **{
        name: lambda images, part=name: jitter(images, parts=(part,))  # type: ignore[misc]
        for name in COLOUR_CHANGES
    },
    "grayscale": lambda images: grey(images).expand_as(images),
    "blur": blur,
    "simclr": SimCLR(),
}


def run(
    settings: AuditSettings, seed: int, checkpoint: Path | None, label: str
) -> list[dict[str, Any]]:
    """Train a reader and let it read; return the fields of the record."""
    torch.manual_seed(seed)
    images, test = read_source(settings.data)
    if not images.factors:
        raise DataError(f"{images.name} has no factors that an audit could read.")
    if settings.model.dim != len(images.factors):
        raise ValueError(f"`dim` must be {len(images.factors)}, one for each factor that varies.")
    sample = sample_of(images.images)
    encoder = make_encoder(settings.model, sample, 1.0)
    history = train(
        encoder,
        Supervision(images.factors, settings.audit.reader),
        reader_batches(images, settings, seed),
        settings.training,
        checkpoint=checkpoint,
        label=label,
    )
    if not here().first:
        return []
    rows = evenly(len(test), settings.data.scored)
    scores, points = audit(encoder, test, rows, settings.audit.views, seed)
    return [
        {
            "scores": scores,
            "points": points,
            "factors": [factor.name for factor in test.factors],
            "data": test.described(),
            "curves": history.curves,
            "seconds": history.seconds,
            "encoder": Trained(encoder, plain(settings), tuple(sample.shape)),
        }
    ]


def audit(
    encoder: torch.nn.Module, test: ImageSet, rows: np.ndarray, views: int, seed: int
) -> tuple[dict[str, Any], dict[str, list[list[float]]]]:
    """Return what the reader reads of views, by augmentation and factor, and a sample of it."""
    images, truth = to_float(as_tensor(test.images[rows])), test.latents[rows]
    names = [factor.name for factor in test.factors]

    def read(batch: Tensor) -> np.ndarray:
        with torch.no_grad():
            device = next(encoder.parameters()).device
            parts = [encoder(part.to(device)).cpu() for part in batch.split(500)]
        return torch.cat(parts).double().numpy()

    encoder.eval()
    own = read(images)
    found = {
        "own_error": (own - truth).std(0),
        "own_bias": (own - truth).mean(0),
        "own_r2": kept_r2(truth, own),
    }
    points: dict[str, list[list[float]]] = {}
    for number, (name, change) in enumerate(AUGMENTATIONS.items()):
        seen = [
            read(drawn(change, images, seed, AUDIT, number, view))
            for view in range(1 if name in ("flip", "grayscale") else views)  # which draw nothing
        ]
        found |= {f"{name}_{k}": v for k, v in implied(truth, own, np.stack(seen)).items()}
        if name == "simclr":
            shown = evenly(len(rows), KEPT)
            points["true"] = truth[shown].astype(float).round(4).tolist()
            points["predicted"] = seen[0][shown].round(4).tolist()
    return {k: dict(zip(names, v.tolist(), strict=True)) for k, v in found.items()}, points


def implied(truth: np.ndarray, own: np.ndarray, seen: np.ndarray) -> dict[str, np.ndarray]:
    """Describe p(z+ | z) as read, by factor, from z, (n, d).

    `own` is what is read of images as they are, (n, d), `seen` of views, (views, n, d). Returns
    `bias` and `spread` of what is read about z; `net`, the spread with the reader's own error
    subtracted in squares; `kurtosis`, excess, of the move from `own` (0: normal); `r2`, the share
    of a factor's variance that a line through what is read still explains.
    """
    error, move = seen - truth, (seen - own).reshape(-1, truth.shape[1])
    spread, own_error = error.std((0, 1)), (own - truth).std(0)
    return {
        "bias": error.mean((0, 1)),
        "spread": spread,
        "net": np.sqrt((spread**2 - own_error**2).clip(0)),
        # A move that never differs has no shape.
        "kurtosis": np.where(move.std(0) > 1e-6, kurtosis(move, axis=0), 0.0),
        "r2": kept_r2(np.tile(truth, (len(seen), 1)), seen.reshape(-1, truth.shape[1])),
    }


def kept_r2(truth: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Return the squared correlation of each factor with what is read of it, (d,)."""
    return np.array([np.corrcoef(z, s)[0, 1] ** 2 for z, s in zip(truth.T, seen.T, strict=True)])
