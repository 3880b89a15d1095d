"""Sizes at which a loss is least, of untrained encoders and of true latents.

Every head is linear in its size, so the loss of a size is that of embeddings times a number.
"""

import copy
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor, nn

from ..encoders.heads import head_of
from ..losses import Objective
from ..losses.supervised import Supervised
from ..settings.run_settings import Training
from .loop import Batch, pick_device

EXPONENTS = range(-3, 8)  # of 2: the sizes that are tried first
FITTED = 4  # batches to try them on
Views = Sequence[Tensor]  # the embedded views of a batch


def fit_size(
    encoder: nn.Module, objective: Objective, batches: Iterable[Batch], settings: Training
) -> float:
    """Return the size at which the loss of an untrained encoder is least on the first batches.

    It sees the views alone: no latents, no conditional, no mixing. The encoder stays as it is.
    """
    if isinstance(objective, Supervised):
        raise ValueError("`size` must not be fit where the loss sees latents; set size=theory.")
    device = pick_device(settings.device)
    encoder = copy.deepcopy(encoder).to(device).train()  # as its first steps will be
    objective = copy.deepcopy(objective).to(device)
    head_of(encoder).resize(1.0)
    found = []
    with torch.random.fork_rng(), torch.no_grad():
        for batch in islice(batches, FITTED):
            rows = torch.cat(batch.views)
            groups = rows.split(settings.norm_rows or len(rows))
            embedded = torch.cat([encoder(group.to(device)).float() for group in groups])
            found.append(embedded.split([len(view) for view in batch.views]))
    return best_scale(objective, found)


def best_scale(loss: Callable[[Views], Tensor], batches: Sequence[Views]) -> float:
    """Return the number that embedded views must be multiplied by for the least mean loss."""

    def mean(exponent: float) -> float:
        with torch.no_grad():
            losses = [loss([view * 2.0**exponent for view in views]).item() for views in batches]
        return float(np.mean(losses))

    first = EXPONENTS[int(np.argmin([mean(exponent) for exponent in EXPONENTS]))]
    # Within the interval around the best power of two; a loss that falls on stops at its end.
    low, high = max(first - 1, EXPONENTS[0]), min(first + 1, EXPONENTS[-1])
    refined = minimize_scalar(mean, bounds=(low, high), method="bounded", options={"xatol": 0.01})
    return float(2.0 ** (refined.x if refined.fun < mean(first) else first))
