"""Encoders of images: pixels in, a point of the model's space out."""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ident3d.errors import choose

from .encoders import SLOPE, resnet18


class Pixels(nn.Module):
    """Brings images to mean 0 and deviation 1 in each channel.

    Takes uint8 (n, H, W, 3), as data sets hold them, or float (n, 3, H, W) in [0, 1].
    """

    def __init__(self, mean: Tensor, std: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean.float().view(1, 3, 1, 1))
        self.register_buffer("std", std.float().clamp(min=1e-3).view(1, 3, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        """Return float (n, 3, H, W)."""
        if images.dtype == torch.uint8:
            # The strides stay those of (n, H, W, 3): channels-last, the faster ones to convolve.
            images = images.permute(0, 3, 1, 2).float() / 255
        return (images - self.mean) / self.std


class Compact(nn.Module):
    """Five convolutions that keep places apart: for the demo, where ResNet18 is too slow.

    ResNet18 averages over all places at its end and finds positions by way of its padding, which
    takes epochs. Here the last map is flattened, so each place has weights of its own.
    """

    def __init__(self, outputs: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for before, after in ((3, 32), (32, 64), (64, 128), (128, 128)):
            layers += [
                nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False),
                nn.BatchNorm2d(after),
                nn.LeakyReLU(SLOPE),
            ]
        self.layers = nn.Sequential(*layers)
        self.last = nn.Linear(128 * 2 * 2, outputs)

    def forward(self, images: Tensor) -> Tensor:
        """Return features (n, outputs)."""
        small = functional.adaptive_avg_pool2d(images, 32)
        return self.last(self.layers(small).flatten(1))


def compact(dim: int, head: nn.Module) -> nn.Sequential:
    """Return the small encoder with the papers' head: 10 `dim` outputs, leaky ReLU, linear."""
    return nn.Sequential(Compact(10 * dim), nn.LeakyReLU(SLOPE), nn.Linear(10 * dim, dim), head)


ENCODERS = {"resnet18": resnet18, "compact": compact}


def image_encoder(name: str, dim: int, head: nn.Module, mean: Tensor, std: Tensor) -> nn.Sequential:
    """Return an encoder that begins with the normalisation of its data's channels."""
    body = choose(ENCODERS, name, "encoder")(dim, head)
    return nn.Sequential(Pixels(mean, std), *body).to(memory_format=torch.channels_last)


def some_pixels(images: np.ndarray, count: int) -> np.ndarray:
    """Return the observation itself, cut to a width: `count` values evenly spaced over it."""
    flat = images.reshape(len(images), -1)
    places = np.linspace(0, flat.shape[1] - 1, count + 2)[1:-1].round().astype(int)
    return flat[:, places] / np.float32(255)


def mean_pixels(images: np.ndarray, side: int = 6) -> np.ndarray:
    """Return the image averaged to side x side, flattened: all that a blurred look shows."""
    floats = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255
    return functional.adaptive_avg_pool2d(floats, side).flatten(1).numpy()
