"""Image transforms for `PairLoader`: whole uint8 batches in, float batches out, on any device.

    PairLoader(..., transform=simclr(224), device="cuda")

Images are (n, 3, H, W), uint8 or floats in [0, 1]. Every image of a batch has its own draws.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional

from .errors import choose

# Channel means and standard deviations that training on the published sets uses.
STATISTICS = {
    "3dident": ((0.3292, 0.3278, 0.3215), (0.0778, 0.0776, 0.0771)),
    "causal3dident": ((0.4327, 0.2689, 0.2839), (0.1201, 0.1457, 0.1082)),
}
JITTER = (0.8, 0.8, 0.8, 0.2)  # how far COLOUR_CHANGES go
GREY = (0.299, 0.587, 0.114)  # luminance of red, green and blue

Statistics = str | tuple[Sequence[float], Sequence[float]]


def to_float(images: Tensor) -> Tensor:
    """Scale uint8 images to floats in [0, 1]; floats pass as they are."""
    return images.float().div_(255) if images.dtype == torch.uint8 else images


def normalize(statistics: Statistics = "3dident") -> "Normalize":
    """Scale images to [0, 1], then bring each channel to mean 0 and deviation 1.

    Args:
        statistics: A published set's name, or (means, standard deviations).
    """
    if isinstance(statistics, str):
        statistics = choose(STATISTICS, statistics, "statistics")
    return Normalize(*statistics)


def simclr(size: int, statistics: Statistics = "3dident", strength: float = 1.0) -> nn.Sequential:
    """SimCLR's policy (Chen et al. 2020), normalised: crop, flip, colour jitter, grey, blur.

    Args:
        size: Height and width of what comes out.
        statistics: As for `normalize`.
        strength: Of the colour jitter; SimCLR's is 1.
    """
    return nn.Sequential(SimCLR(size, strength), normalize(statistics))


class Normalize(nn.Module):
    """Scales images to [0, 1], then subtracts `mean` and divides by `std`, channel by channel."""

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.mean, self.std = tuple(mean), tuple(std)

    def forward(self, images: Tensor) -> Tensor:
        """Normalise (n, 3, H, W)."""
        mean, std = (
            torch.tensor(values, device=images.device).view(-1, 1, 1)
            for values in (self.mean, self.std)
        )
        return (to_float(images) - mean) / std


class SimCLR(nn.Module):
    """SimCLR's augmentations, without normalisation: floats in [0, 1] come out.

    torchvision's transforms draw once for a batch, and image by image they are slow; here a batch
    is augmented as a whole, each image with its own draws. In evaluation mode images pass as they
    are.
    """

    def __init__(self, size: int | None = None, strength: float = 1.0) -> None:
        super().__init__()
        self.size, self.strength = size, strength

    def forward(self, images: Tensor) -> Tensor:
        """Augment (n, 3, H, W); (n, 3, size, size) comes out."""
        if not self.training:
            return images
        images = crop(to_float(images))
        if self.size is not None and images.shape[2:] != (self.size, self.size):
            images = functional.interpolate(images, self.size, mode="bilinear", antialias=True)
        return change_colours(images, self.strength)


class EachImage(nn.Module):
    """Applies a transform to each image of a batch: torchvision's draw once for all of it."""

    def __init__(self, transform: Callable[[Any], Any]) -> None:
        super().__init__()
        self.transform = transform
        self._pil = takes_pil(transform)

    def forward(self, images: Tensor) -> Tensor:
        """Transform (n, 3, H, W), image by image."""
        if self._pil:
            arrays = images.permute(0, 2, 3, 1).cpu().numpy()
            return torch.stack([self.transform(Image.fromarray(array)) for array in arrays]).to(
                images.device
            )
        return torch.stack([self.transform(image) for image in images])


# torchvision's transforms that treat every image of a batch alike because they must.
_SAME_FOR_ALL = {
    *("Compose", "Sequential", "Identity", "ConvertImageDtype", "ToDtype", "ToImage"),
    *("ToPureTensor", "Normalize", "Resize", "CenterCrop", "Pad", "Grayscale", "RGB"),
}
_PIL_ALONE = {"ToTensor", "PILToTensor"}


def draw_for_each(transform: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Apply a transform image by image if it holds one of torchvision's that draw random numbers.

    Given a batch, those draw once for all of it: every image would be cropped at one place.
    """
    if isinstance(transform, EachImage):
        return transform
    random = any(
        _is_torchvisions(part) and type(part).__name__ not in _SAME_FOR_ALL
        for part in _parts(transform)
    )
    return EachImage(transform) if random else transform


def takes_pil(transform: Callable[[Any], Any]) -> bool:
    """Whether a transform holds one of torchvision's first generation that take no tensor."""
    return any(
        type(part).__module__ == "torchvision.transforms.transforms"
        and type(part).__name__ in _PIL_ALONE
        for part in _parts(transform)
    )


def _parts(transform: Any) -> Iterator[Any]:
    """Walk through a transform and those it is made of."""
    if isinstance(transform, EachImage):  # which has seen to its parts
        return
    yield transform
    inner = getattr(transform, "transforms", None)  # of a Compose, or of a RandomApply
    if not isinstance(inner, Iterable):
        inner = transform.children() if isinstance(transform, nn.Module) else ()
    for part in inner:
        yield from _parts(part)


def _is_torchvisions(part: Any) -> bool:
    return type(part).__module__.startswith("torchvision.transforms")


def mix(probability: float, changed: Tensor, images: Tensor) -> Tensor:
    """Take each image from `changed` with some probability."""
    take = torch.rand(len(images), 1, 1, 1, device=images.device) < probability
    return torch.where(take, changed, images)


def crop(images: Tensor, flipped: float = 0.5) -> Tensor:
    """Crop 8 to 100 % of the area at an aspect ratio of 3:4 to 4:3, flip a share, resize back."""
    n = len(images)
    area = _uniform(images, 0.08, 1)
    ratio = _uniform(images, math.log(3 / 4), math.log(4 / 3)).exp()
    width, height = ((area * ratio).sqrt().clamp(max=1), (area / ratio).sqrt().clamp(max=1))
    x, y = (_uniform(images, -1, 1) * (1 - side) for side in (width, height))  # the centre
    flip = torch.where(torch.rand(n, device=images.device) < flipped, -1.0, 1.0)
    zero = torch.zeros_like(x)
    # (n, 2, 3): for each image the affine map from output to input, both in [-1, 1]^2.
    window = torch.stack([width * flip, zero, x, zero, height, y], 1).view(n, 2, 3)
    grid = functional.affine_grid(window, list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, padding_mode="border", align_corners=False)


def brighten(images: Tensor, factors: Tensor) -> Tensor:
    """Multiply each image by its factor."""
    return (images * factors.view(-1, 1, 1, 1)).clamp(0, 1)


def stretch_contrast(images: Tensor, factors: Tensor) -> Tensor:
    """Move each image's pixels away from its mean luminance, or towards it."""
    mean = grey(images).mean((2, 3), keepdim=True)
    return (mean + (images - mean) * factors.view(-1, 1, 1, 1)).clamp(0, 1)


def saturate(images: Tensor, factors: Tensor) -> Tensor:
    """Move each pixel away from its own luminance, or towards it."""
    level = grey(images)
    return (level + (images - level) * factors.view(-1, 1, 1, 1)).clamp(0, 1)


def turn_hue(images: Tensor, turns: Tensor) -> Tensor:
    """Turn colours about the grey axis, by `turns` of a full circle for each image."""
    angle = 2 * math.pi * turns
    cos, sin = angle.cos(), angle.sin()
    # The rotation about (1, 1, 1): Rodrigues' formula.
    axis = torch.full((3, 3), 1 / 3, device=images.device)
    cross = torch.tensor([[0.0, -1, 1], [1, 0, -1], [-1, 1, 0]], device=images.device) / 3**0.5
    turn = axis + cos[:, None, None] * (torch.eye(3, device=images.device) - axis)
    turn = turn + sin[:, None, None] * cross  # (n, 3, 3)
    return torch.einsum("nij,njhw->nihw", turn, images).clamp(0, 1)


# In the order in which SimCLR applies them; each takes images and an amount for each image.
COLOUR_CHANGES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "brightness": brighten,
    "contrast": stretch_contrast,
    "saturation": saturate,
    "hue": turn_hue,
}


def jitter(
    images: Tensor, strength: float = 1.0, parts: Sequence[str] = tuple(COLOUR_CHANGES)
) -> Tensor:
    """Change brightness, contrast, saturation and hue, or some of them, in this order."""
    reaches = [strength * reach for reach in JITTER]
    amounts = [_uniform(images, max(0, 1 - reach), 1 + reach) for reach in reaches[:3]]
    amounts.append(_uniform(images, -reaches[3], reaches[3]))
    for (name, change), amount in zip(COLOUR_CHANGES.items(), amounts, strict=True):
        if name in parts:
            images = change(images, amount)
    return images


def change_colours(images: Tensor, strength: float = 1.0) -> Tensor:
    """Do what SimCLR does to colours and sharpness, and nothing to places."""
    images = mix(0.8, jitter(images, strength), images)
    images = mix(0.2, grey(images).expand_as(images), images)
    return mix(0.5, blur(images), images)


def grey(images: Tensor) -> Tensor:
    """Return the luminance, (n, 1, H, W)."""
    weights = torch.tensor(GREY, device=images.device).view(1, 3, 1, 1)
    return (images * weights).sum(1, keepdim=True)


def blur(images: Tensor) -> Tensor:
    """Blur by a Gaussian 0.1 to 2 px wide, its window a tenth of the image."""
    n, channels, height, width = images.shape
    reach = max(1, height // 20)
    sigma = _uniform(images, 0.1, 2.0)
    steps = torch.arange(-reach, reach + 1, device=images.device)
    kernel = torch.exp(-0.5 * (steps / sigma[:, None]) ** 2)  # (n, window)
    kernel = (kernel / kernel.sum(1, keepdim=True)).repeat_interleave(channels, 0)
    # As one image of n * channels channels, each is convolved with the kernel of its own image.
    flat = images.reshape(1, n * channels, height, width)
    padded = functional.pad(flat, (reach,) * 4, mode="reflect")
    for shape in ((-1, 1, 1, 2 * reach + 1), (-1, 1, 2 * reach + 1, 1)):
        padded = functional.conv2d(padded, kernel.view(shape), groups=n * channels)
    return padded.view(n, channels, height, width)


def _uniform(images: Tensor, low: float, high: float) -> Tensor:
    """Draw one number for each image."""
    return torch.empty(len(images), device=images.device).uniform_(low, high)
