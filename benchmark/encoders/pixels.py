"""What every convolutional encoder begins with: channels of mean 0 and deviation 1."""

from torch import Tensor, nn

from ident3d.augment import to_float


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
