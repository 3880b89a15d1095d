"""SimCLR's augmentations for whole batches on the training device, each image its own draw.

As Chen et al. 2020: random resized crop, flip, colour jitter, grey, blur. torchvision's transforms
draw once for a batch; here every image of a batch is cropped, coloured and blurred differently.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

JITTER = (0.8, 0.8, 0.8, 0.2)  # brightness, contrast, saturation, hue
GREY = (0.299, 0.587, 0.114)  # luminance of red, green and blue


class SimCLR(nn.Module):
    """Augments in training mode; in evaluation mode images pass as they are."""

    def forward(self, images: Tensor) -> Tensor:
        """Turn uint8 images (n, H, W, 3) into augmented float ones (n, 3, H, W) in [0, 1]."""
        if not self.training:
            return images
        if images.dtype == torch.uint8:
            images = images.permute(0, 3, 1, 2).float() / 255
        images = crop(images)
        images = chosen(0.8, jitter(images), images)
        images = chosen(0.2, grey(images).expand_as(images), images)
        return chosen(0.5, blur(images), images)


def chosen(probability: float, changed: Tensor, images: Tensor) -> Tensor:
    """Take each image from `changed` with some probability."""
    take = torch.rand(len(images), 1, 1, 1, device=images.device) < probability
    return torch.where(take, changed, images)


def crop(images: Tensor) -> Tensor:
    """Crop 8 to 100 % of the area at an aspect ratio of 3:4 to 4:3, flip half, resize back."""
    n = len(images)
    area = _uniform(images, n, 0.08, 1)
    ratio = _uniform(images, n, math.log(3 / 4), math.log(4 / 3)).exp()
    width, height = ((area * ratio).sqrt().clamp(max=1), (area / ratio).sqrt().clamp(max=1))
    x, y = (_uniform(images, n, -1, 1) * (1 - side) for side in (width, height))  # the centre
    flip = torch.where(torch.rand(n, device=images.device) < 0.5, -1.0, 1.0)
    zero = torch.zeros_like(x)
    window = torch.stack([width * flip, zero, x, zero, height, y], 1).view(n, 2, 3)
    grid = functional.affine_grid(window, list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, padding_mode="border", align_corners=False)


def jitter(images: Tensor) -> Tensor:
    """Change brightness, contrast, saturation and hue, in this order."""
    n = len(images)
    light, contrast, colour = (
        _uniform(images, n, 1 - strength, 1 + strength).view(n, 1, 1, 1) for strength in JITTER[:3]
    )
    images = (images * light).clamp(0, 1)
    mean = grey(images).mean((2, 3), keepdim=True)
    images = (mean + (images - mean) * contrast).clamp(0, 1)
    level = grey(images)
    images = (level + (images - level) * colour).clamp(0, 1)
    return turn_hue(images, _uniform(images, n, -JITTER[3], JITTER[3]))


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


def grey(images: Tensor) -> Tensor:
    """Return the luminance, (n, 1, H, W)."""
    weights = torch.tensor(GREY, device=images.device).view(1, 3, 1, 1)
    return (images * weights).sum(1, keepdim=True)


def blur(images: Tensor) -> Tensor:
    """Blur by a Gaussian 0.1 to 2 px wide, its window a tenth of the image."""
    n, channels, height, width = images.shape
    reach = max(1, height // 20)
    sigma = _uniform(images, n, 0.1, 2.0)
    steps = torch.arange(-reach, reach + 1, device=images.device)
    kernel = torch.exp(-0.5 * (steps / sigma[:, None]) ** 2)
    kernel = (kernel / kernel.sum(1, keepdim=True)).repeat_interleave(channels, 0)
    flat = images.reshape(1, n * channels, height, width)
    padded = functional.pad(flat, (reach,) * 4, mode="reflect")
    for shape in ((-1, 1, 1, 2 * reach + 1), (-1, 1, 2 * reach + 1, 1)):
        padded = functional.conv2d(padded, kernel.view(shape), groups=n * channels)
    return padded.view(n, channels, height, width)


def _uniform(images: Tensor, n: int, low: float, high: float) -> Tensor:
    return torch.empty(n, device=images.device).uniform_(low, high)
