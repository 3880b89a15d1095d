"""Image transforms for `PairLoader`: whole uint8 batches in, float batches out, on any device.

PairLoader(..., transform=simclr(224), device="cuda")
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from .errors import choose

# Channel means and standard deviations that training on the published sets uses.
STATISTICS = {
    "3dident": ((0.3292, 0.3278, 0.3215), (0.0778, 0.0776, 0.0771)),
    "causal3dident": ((0.4327, 0.2689, 0.2839), (0.1201, 0.1457, 0.1082)),
}


def normalize(statistics: str | tuple[Sequence[float], Sequence[float]] = "3dident") -> nn.Module:
    """Scale uint8 images to [0, 1], then normalise each channel.

    Args:
        statistics: A published set's name, or (means, standard deviations).
    """
    v2 = _torchvision()
    mean, std = (
        choose(STATISTICS, statistics, "statistics") if isinstance(statistics, str) else statistics
    )
    return v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Normalize(mean, std)])


def simclr(
    size: int,
    statistics: str | tuple[Sequence[float], Sequence[float]] = "3dident",
    strength: float = 1.0,
) -> nn.Module:
    """SimCLR's policy: crop, flip, colour jitter, grey, blur, each image with its own draws.

    Args:
        size: Height and width of what comes out.
        statistics: As for `normalize`.
        strength: Of the colour jitter; SimCLR's is 1.
    """
    v2 = _torchvision()
    jitter = v2.ColorJitter(0.8 * strength, 0.8 * strength, 0.8 * strength, 0.2 * strength)
    blur = v2.GaussianBlur(kernel_size=size // 20 * 2 + 1, sigma=(0.1, 2.0))
    return v2.Compose(
        [
            EachImage(
                v2.Compose(
                    [
                        v2.RandomResizedCrop(size, antialias=True),
                        v2.RandomHorizontalFlip(),
                        v2.RandomApply([jitter], p=0.8),
                        v2.RandomGrayscale(p=0.2),
                        v2.RandomApply([blur], p=0.5),
                    ]
                )
            ),
            normalize(statistics),
        ]
    )


class EachImage(nn.Module):
    """Applies a transform to each image of a batch: torchvision's draw once for all of it."""

    def __init__(self, transform: nn.Module) -> None:
        super().__init__()
        self.transform = transform

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Transform (n, 3, H, W), image by image."""
        return torch.stack([self.transform(image) for image in images])


def _torchvision() -> Any:
    try:
        from torchvision.transforms import v2
    except ImportError as error:
        raise ImportError(
            "Augmentation needs torchvision: `pip install 'ident3d[benchmark]'`."
        ) from error
    return v2
