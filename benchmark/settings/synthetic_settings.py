"""Settings of the synthetic experiments: process, model, loss and training, all plain values."""

from dataclasses import dataclass

from ident3d.conditionals import Anisotropic

from ..data.synthetic import Process, make_process
from ..training.loop import Training


@dataclass(frozen=True, kw_only=True)
class Synthetic(Training):
    """Settings of one synthetic experiment; the process is in the words of `ident3d.conditionals`.

    With `loss="identity"` nothing is trained: the observations themselves are scored.
    """

    dim: int = 10
    space: str
    marginal: str = "uniform"
    conditionals: tuple[str, ...]  # one for each process
    hard: str | None = None  # conditional of the hard negatives
    hard_count: int = 0  # of each anchor
    hard_from: int = 0  # the step at which they join: before it, training is regular
    opposite: bool = False  # score on the marginal mirrored at the origin

    model_space: str
    learnable: bool = True  # the size of the model's space
    size: float | None = 1.0  # at the start, as released; None: what the theory predicts
    encoder: str = "mlp"  # or "whitened"
    widths: tuple[int, ...] | None = None  # hidden; None: the papers'

    loss: str = "infonce"  # a key of models.OBJECTIVES
    similarity: str = "l2"  # a key of objectives.SIMILARITIES
    tau: float = 1.0
    negatives: str = "anchors"  # or "positives", "both"
    symmetric: bool = False
    metric_start: float = 1.0  # where a learned diagonal begins

    batch: int = 6144
    scored: int = 4096  # latents to score on

    @property
    def process(self) -> Process:
        """The process, read from its text."""
        return make_process(
            self.space,
            self.dim,
            self.marginal,
            self.conditionals,
            self.hard,
            self.hard_count,
            self.hard_from,
        )

    @property
    def true_metrics(self) -> list[tuple[float, ...]]:
        """The diagonals that anisotropic conditionals are made with, one for each process."""
        return [
            conditional.concentrations
            for conditional in self.process.conditionals
            if isinstance(conditional, Anisotropic)
        ]

    @property
    def blocks(self) -> list[list[int]]:
        """Dimensions that no process tells apart: the model finds them up to a rotation."""
        groups: dict[tuple[float, ...], list[int]] = {}
        for index, key in enumerate(zip(*self.true_metrics, strict=True)):
            groups.setdefault(key, []).append(index)
        return list(groups.values())
