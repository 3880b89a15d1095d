"""Encoders of images: pixels in, a point of the model's space out.

All take uint8 (n, H, W, 3), as data sets hold them, or float (n, 3, H, W) in [0, 1].
"""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ident3d.errors import choose

from . import heads as encoders

COARSE = 16  # pixels along each side that `compact` looks at
COMPONENTS = 4  # principal components that it keeps for each factor
NOISE = 0.4  # added to them in training, in units of their deviation
WIDTH = 128  # of its hidden layers


def as_float(images: Tensor) -> Tensor:
    """Return float images (n, 3, H, W) in [0, 1]."""
    if images.dtype != torch.uint8:
        return images
    # The strides stay those of (n, H, W, 3): channels-last, the faster ones to convolve.
    return images.permute(0, 3, 1, 2).float() / 255


class Pixels(nn.Module):
    """Brings the channels of images to mean 0 and deviation 1, as those of `sample` have it."""

    def __init__(self, sample: Tensor) -> None:
        super().__init__()
        floats = as_float(sample)
        self.register_buffer("mean", floats.mean((0, 2, 3), keepdim=True))
        self.register_buffer("std", floats.std((0, 2, 3), keepdim=True).clamp(min=1e-3))

    def forward(self, images: Tensor) -> Tensor:
        """Return float (n, 3, H, W)."""
        return (as_float(images) - self.mean) / self.std


class Components(nn.Module):
    """Whitened principal components of coarse pixels, as `sample` has them.

    Whitening makes what changes few pixels, such as the distance to the camera, as loud as what
    changes many; noise in training keeps a small net from learning its few pairs by heart.
    """

    def __init__(self, sample: Tensor, count: int, noise: float = NOISE) -> None:
        super().__init__()
        self.noise = noise
        flat = self._coarse(sample).double()
        centre = flat.mean(0)
        _, deviations, directions = torch.linalg.svd(flat - centre, full_matrices=False)
        scale = (deviations[:count] / len(flat) ** 0.5).clamp(min=1e-6)
        self.register_buffer("centre", centre.float())
        self.register_buffer("whiten", (directions[:count].T / scale).float())

    def forward(self, images: Tensor) -> Tensor:
        """Return (n, count)."""
        found = (self._coarse(images) - self.centre) @ self.whiten
        return found + self.noise * torch.randn_like(found) if self.training else found

    @staticmethod
    def _coarse(images: Tensor) -> Tensor:
        return functional.adaptive_avg_pool2d(as_float(images), COARSE).flatten(1)


def resnet18(dim: int, head: nn.Module, sample: Tensor) -> nn.Sequential:
    """Return the papers' encoder behind the normalisation of its data's channels."""
    body = encoders.resnet18(dim, head)
    return nn.Sequential(Pixels(sample), *body).to(memory_format=torch.channels_last)


def compact(dim: int, head: nn.Module, sample: Tensor) -> nn.Sequential:
    """Return a small net that learns positions in seconds: for the demo, on any computer.

    A ResNet18 of random weights sees where the teapot is in the picture, and takes many epochs to
    see how far away it is; by then it knows a few hundred pairs by heart.
    """
    count = COMPONENTS * dim
    body = encoders.mlp(dim, head, inputs=count, widths=(WIDTH, WIDTH, 10 * dim))
    return nn.Sequential(Components(sample, count), *body)


ENCODERS = {"resnet18": resnet18, "compact": compact}


def image_encoder(name: str, dim: int, head: nn.Module, sample: Tensor) -> nn.Sequential:
    """Return an encoder for images like those of `sample`, uint8 (n, H, W, 3)."""
    return choose(ENCODERS, name, "encoder")(dim, head, sample)


def some_pixels(images: np.ndarray, count: int) -> np.ndarray:
    """Return the observation itself, cut to a width: `count` values evenly spaced over it."""
    flat = images.reshape(len(images), -1)
    places = np.linspace(0, flat.shape[1] - 1, count + 2)[1:-1].round().astype(int)
    return flat[:, places] / np.float32(255)


def mean_pixels(images: np.ndarray, side: int = 6) -> np.ndarray:
    """Return the image averaged to side x side, flattened: all that a blurred look shows."""
    return (
        functional.adaptive_avg_pool2d(as_float(torch.as_tensor(images)), side).flatten(1).numpy()
    )
