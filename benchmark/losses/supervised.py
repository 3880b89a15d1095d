"""The upper baseline: regression to the true latents."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from .objective import Objective


def supervised(outputs: Tensor, latents: Tensor) -> Tensor:
    """Return the mean squared error to the true latents."""
    return functional.mse_loss(outputs, latents)


class Supervised(Objective):
    """The error of all views, anchors and positives alike, or of the anchors alone."""

    function = staticmethod(supervised)
    prescribed = "dot"  # none is used

    def forward(self, views: Sequence[Tensor], latents: Tensor | None = None) -> Tensor:
        """Return the loss."""
        if latents is None:
            raise ValueError("`latents` are needed: this loss is supervised.")
        outputs = views[0] if self.settings.anchors_only else torch.cat(list(views))
        return supervised(outputs, latents[: len(outputs)])
