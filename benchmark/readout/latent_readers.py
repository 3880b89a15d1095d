"""Readers: supervised encoders that read latents off images, and what they are trained on.

A reader that never saw an augmented image is off its ground there; so there are two:

- `plain` is trained on images as they are;
- `hardened` is trained, beside them, on views by those augmentations that leave a factor alone,
  and for those factors only: colour changes and blur for where things are, crops for hues.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional

from ident3d.augment import change_colours, crop, to_float
from ident3d.errors import choose
from ident3d.factors import Factor

from ..data.synthetic import stream
from ..training.loop import Batch, Batches
from .image_sources import ImageSet
from .readout_run import view_loader
from .readout_settings import ReadoutSettings

VIEWS = 37  # the random stream of training
Transform = Callable[[Tensor], Tensor]


# reader -> its views: what makes them of images, and whether hues, or the others, are asked for
READERS: dict[str, tuple[tuple[Transform | None, bool | None], ...]] = {
    "plain": ((None, None),),
    "hardened": ((None, None), (change_colours, False), (crop, True)),
}


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What is audited, and by whom."""

    reader: str = "hardened"  # a key of READERS
    views: int = 4  # of each image and augmentation


@dataclass(frozen=True, kw_only=True)
class AuditSettings(ReadoutSettings):
    """Settings of one audit: train a reader, then let it read."""

    audit: Audit = field(default_factory=Audit)


class Supervision:
    """The error of each view, of the factors that its augmentation leaves alone."""

    def __init__(self, factors: Sequence[Factor], reader: str) -> None:
        hues = torch.tensor([factor.group == "hue" for factor in factors])
        asked = [part for _, part in choose(READERS, reader, "reader")]
        self.columns = [(hues == part) if part is not None else hues | ~hues for part in asked]

    def __call__(self, views: Sequence[Tensor], latents: Tensor) -> Tensor:
        """Return the sum over views of the mean squared error."""
        rows = latents.split([len(view) for view in views])
        return torch.stack(
            [
                functional.mse_loss(view[:, kept], truth[:, kept])
                for view, truth, kept in zip(views, rows, self.columns, strict=True)
            ]
        ).sum()


def reader_batches(images: ImageSet, settings: AuditSettings, seed: int) -> Batches:
    """Return the endless batches of a reader: the views of its kind of each image."""
    loader = view_loader(images, settings, seed)
    makers = [maker for maker, _ in choose(READERS, settings.audit.reader, "reader")]

    def source(first: int) -> Iterator[Batch]:
        loader.seek(first)
        for step, batch in enumerate(loader.forever(), first):
            floats = to_float(batch.anchors.images)
            views = tuple(
                floats if make is None else drawn(make, floats, seed, VIEWS, step, number)
                for number, make in enumerate(makers)
            )
            yield Batch(views, batch.anchors.latents.repeat(len(views), 1))

    return source


def drawn(change: Transform, images: Tensor, seed: int, *address: int) -> Tensor:
    """Apply an augmentation whose draws depend on the address alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(stream(seed, *address).integers(2**62)))
        return change(images)
