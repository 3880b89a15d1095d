"""Encoders in two parts, as SimCLR has them: a backbone, whose features are used, and a projection.

The loss sees the projection alone, and so does the theory; in practice it is thrown away after
training (Chen et al. 2020). `Projected.features` gives the backbone's side of it.
"""

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn

from ident3d.augment import to_float

from ..settings.run_settings import Model
from ..training.shared_norm import SharedBatchNorm2d

WIDTHS = (32, 64, 128, 256)  # channels of `small-conv`, each layer half as wide as the one before


class Pixels(nn.Module):
    """Images whose channels have mean 0 and deviation 1, as those of `sample` have it."""

    mean: Tensor
    std: Tensor

    def __init__(self, sample: Tensor) -> None:
        super().__init__()
        floats = to_float(sample)
        self.register_buffer("mean", floats.mean((0, 2, 3), keepdim=True))
        self.register_buffer("std", floats.std((0, 2, 3), keepdim=True).clamp(min=1e-3))

    def forward(self, images: Tensor) -> Tensor:
        """Return float (n, 3, H, W)."""
        return (to_float(images) - self.mean) / self.std


class Projected(nn.Module):
    """head(projection(backbone(pixels))).

    The channels are normalised as those of `sample`; the backbone's features are (n, width), and
    the projection has two layers, the hidden one as wide as they are.
    """

    def __init__(
        self, sample: Tensor, backbone: nn.Module, width: int, dim: int, head: nn.Module
    ) -> None:
        super().__init__()
        self.pixels, self.backbone = Pixels(sample), backbone
        self.projection = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, dim))
        self.head = head

    def features(self, images: Tensor) -> Tensor:
        """Return what the backbone makes of images, (n, width)."""
        return self.backbone(self.pixels(images))

    def forward(self, images: Tensor) -> Tensor:
        """Return points of the model's space, (n, dim)."""
        return self.head(self.projection(self.features(images)))


def _small_conv(model: Model, head: nn.Module, sample: Tensor) -> nn.Module:
    """Return a backbone for two cores: four convolutions of stride 2, averaged over the image."""
    pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return _convolutions(model, head, sample, pool, 1)


def _flat_conv(model: Model, head: nn.Module, sample: Tensor) -> nn.Module:
    """Return the same without the average, which would hide where things are."""
    side = sample.shape[-1]
    for _ in model.widths or WIDTHS:
        side = (side + 1) // 2
    return _convolutions(model, head, sample, nn.Flatten(), side**2)


def _convolutions(
    model: Model, head: nn.Module, sample: Tensor, end: nn.Module, places: int
) -> nn.Module:
    widths = model.widths or WIDTHS
    layers: list[nn.Module] = []
    for before, after in pairwise((3, *widths)):
        convolution = nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False)
        layers += [convolution, SharedBatchNorm2d(after), nn.ReLU()]
    backbone = nn.Sequential(*layers, end)
    return _channels_last(Projected(sample, backbone, places * widths[-1], model.dim, head))


def _simclr_resnet18(model: Model, head: nn.Module, sample: Tensor) -> nn.Module:
    """Return ResNet18 as SimCLR has it for CIFAR10: a first layer for small images, no pooling."""
    from torchvision.models import resnet18

    body = resnet18(weights=None, norm_layer=SharedBatchNorm2d)
    body.conv1, body.maxpool = nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.Identity()
    return _without_classes(model, head, sample, body)


def _simclr_resnet50(model: Model, head: nn.Module, sample: Tensor) -> nn.Module:
    """Return ResNet50, as for ImageNet."""
    from torchvision.models import resnet50

    return _without_classes(
        model, head, sample, resnet50(weights=None, norm_layer=SharedBatchNorm2d)
    )


def _without_classes(model: Model, head: nn.Module, sample: Tensor, body: nn.Module) -> nn.Module:
    """Return an encoder of a classifier's body."""
    if model.widths is not None:
        raise ValueError(f"`widths` must be none for {model.encoder}, whose layers are published.")
    classes = body.fc
    assert isinstance(classes, nn.Linear)
    body.fc = nn.Identity()
    return _channels_last(Projected(sample, body, classes.in_features, model.dim, head))


def _channels_last(encoder: nn.Module) -> nn.Module:
    return encoder.to(memory_format=torch.channels_last)  # the faster layout to convolve


PROJECTED: dict[str, Callable[[Model, nn.Module, Tensor], nn.Module]] = {
    "small-conv": _small_conv,
    "flat-conv": _flat_conv,
    "simclr-resnet18": _simclr_resnet18,
    "simclr-resnet50": _simclr_resnet50,
}
