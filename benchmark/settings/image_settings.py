"""Settings of the image experiments: data, pairs, model, loss and training, all plain values."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ident3d.conditionals import Anisotropic, Conditional, Normal, Product
from ident3d.dataset import load
from ident3d.errors import DataError
from ident3d.factors import FACTORS

from ..training.loop import Training


@dataclass(frozen=True, kw_only=True)
class ImageSettings(Training):
    """Settings of one image experiment; conditionals are in the words of `ident3d.conditionals`.

    Three losses train nothing: "identity" scores as many pixel values as there are factors,
    "pixels" a coarse average of the image, "random" an encoder as it was born.
    """

    data: str = "3dident"  # folder of the data set
    splits: tuple[str, ...] = ("train",)  # to train on, one for each conditional
    test: str = "test"  # to score on
    fingerprints: tuple[str, ...] = ()  # of all these splits; `pinned` fills them in
    dim: int = 10  # factors that vary in the data, and dimensions of the model

    pairs: str = "exact"  # a key of images.PAIRINGS
    conditionals: tuple[str, ...] = ("normal:0.1",)  # one for each process
    hard: str | None = None  # conditional of the hard negatives, which are looked up
    hard_count: int = 0  # of each anchor

    model_space: str = "box"
    learnable: bool = True  # the size of the model's space
    size: float | None = 1.0  # at the start, as released; None: what the theory predicts
    encoder: str = "resnet18"  # or "compact"

    loss: str = "infonce"  # "ensemble", "supervised", "identity", "pixels", "random"
    similarity: str = "l2"  # or "dot", "metric"
    tau: float = 1.0
    negatives: str = "anchors"  # or "positives", "both"
    symmetric: bool = False
    metric_start: float = 1.0  # where a learned diagonal begins

    batch: int = 512  # pairs
    train_rows: int = 25_000  # training rows that are scored too, as in table 5
    watched: int = 1_000  # test rows scored during training

    def pinned(self) -> "ImageSettings":
        """Return the settings with the data's fingerprints; data that is not there has none."""
        try:
            splits = [load(Path(self.data) / name) for name in (*self.splits, self.test)]
        except (DataError, OSError):
            return self
        return replace(self, fingerprints=tuple(split.fingerprint for split in splits))


def diagonal(conditional: Conditional, factors: Sequence[str]) -> list[float] | None:
    """Return L of a conditional exp(-d'Ld), one number for each factor; None if it is no such."""
    if isinstance(conditional, Normal):
        return [0.5 / conditional.scale**2] * len(factors)
    if isinstance(conditional, Anisotropic) and len(conditional.concentrations) == len(factors):
        return list(conditional.concentrations)
    if isinstance(conditional, Product):
        groups = {factor.name: factor.group for factor in FACTORS}
        parts = conditional.parts
        chosen = [parts.get(n) or parts.get(groups[n]) or conditional.others for n in factors]
        if all(isinstance(part, Normal) for part in chosen):
            return [0.5 / part.scale**2 for part in chosen]
    return None
