"""An encoder with further outputs while it is trained, which read it at several depths."""

from typing import Any

import torch
from torch import Tensor, nn

from .heads import Whitening

STAGES = ("layer2", "layer3")  # of a ResNet: read beside what its last map sees


class Widened(nn.Module):
    """Embeds by an encoder, (n, dim), and by groups of further outputs: (n, dim + groups more).

    One group reads what the encoder's last linear map reads; others read the means over the picture
    of its earlier stages, if it has any: what is hard to see shows there first. Each is whitened.
    The encoder stays what it is, and is used without them.
    """

    def __init__(self, encoder: nn.Module, more: int) -> None:
        super().__init__()
        self.encoder = encoder
        linear = [module for module in encoder.modules() if isinstance(module, nn.Linear)]
        if not linear:
            raise ValueError("`beyond` must be 0: this encoder has no linear map to read.")
        names = {name.rpartition(".")[2]: module for name, module in encoder.named_modules()}
        self._stages = [names[name] for name in STAGES if name in names]
        self._last = [linear[-1]]  # in a list: its weights are the encoder's alone
        widths = [*map(_channels, self._stages), linear[-1].in_features]
        self.readers = nn.ModuleList(_reader(width, more) for width in widths)

    def forward(self, observed: Tensor) -> Tensor:
        """Return what the encoder does, and the further outputs behind it."""
        seen: list[Tensor] = []

        def keep(_: nn.Module, inputs: Any, output: Tensor) -> None:
            seen.append(output.float().mean((2, 3)))

        hooks = [stage.register_forward_hook(keep) for stage in self._stages]
        hooks += [self._last[0].register_forward_pre_hook(lambda _, x: seen.append(x[0].float()))]
        try:
            z = self.encoder(observed)
        finally:
            for hook in hooks:
                hook.remove()
        with torch.autocast(z.device.type, enabled=False):
            more = [reader(features) for reader, features in zip(self.readers, seen, strict=True)]
        return torch.cat([z.float(), *more], 1)


def _reader(width: int, more: int) -> nn.Module:
    linear = nn.Linear(width, more, bias=False)
    # Whitened, outputs do not depend on the size of weights, and small weights turn faster.
    nn.init.normal_(linear.weight, std=0.1 * width**-0.5)
    return nn.Sequential(nn.BatchNorm1d(width, affine=False), linear, Whitening(more, 1.0))


def _channels(stage: nn.Module) -> int:
    """Return how many channels a stage ends with."""
    return [m.out_channels for m in stage.modules() if isinstance(m, nn.Conv2d)][-1]
