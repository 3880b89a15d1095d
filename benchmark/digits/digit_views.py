"""Where augmentations put a digit in a VAE's latent space (Rusak et al. 2024, figures 6 and 7).

The theory has a normal conditional around an anchor. Here the views are crops and flips of a real
digit, as in the paper, and the latents those of a VAE that was trained on such views.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ident3d.augment import crop

from .digit_images import SIDE, flat
from .digit_vae import Vae

VIEWS = 400  # of each digit
ALPHA = 0.01  # of the test of normality: this share of normal samples is called not normal


@dataclass(frozen=True)
class Shape:
    """What share of the digits' latents, one dimension at a time, has some shape."""

    not_normal: float  # rejected by D'Agostino and Pearson's test at `ALPHA`
    # Better told by two normal densities than by one (BIC), whose means lie more than two of their
    # deviations apart, so that their sum has two peaks.
    two_peaks: float


def augment(images: Tensor) -> Tensor:
    """Crop and flip digits, each by its own draws: (n, 784) in [0, 1], the same out."""
    return crop(images.view(-1, 1, SIDE, SIDE)).flatten(1)


def view_latents(
    vae: Vae, digit: np.ndarray, seed: int, count: int = VIEWS
) -> tuple[Tensor, Tensor]:
    """Return views of one digit, uint8 (28, 28), and their latents: (count, 784), (count, dim)."""
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(seed)
        views = augment(flat(digit[None]).expand(count, -1))
        return views, vae.means(views)


def shape(samples: Sequence[np.ndarray]) -> Shape:
    """Describe samples of latents, (views, dim) each, dimension by dimension."""
    from scipy.stats import normaltest

    columns = np.concatenate([sample.T for sample in samples])  # (samples * dim, views)
    return Shape(
        float((normaltest(columns, axis=1).pvalue < ALPHA).mean()),
        float(np.mean([two_peaks(column) for column in columns])),
    )


def two_peaks(sample: np.ndarray) -> bool:
    """Whether a sample of numbers has two peaks, as `Shape` says it."""
    from sklearn.mixture import GaussianMixture

    rows = np.asarray(sample, np.float64)[:, None]
    one, two = (GaussianMixture(k, random_state=0).fit(rows) for k in (1, 2))
    if two.bic(rows) >= one.bic(rows):
        return False
    apart = abs(np.diff(two.means_[:, 0])[0])
    return bool(apart > 2 * np.sqrt(two.covariances_.max()))
