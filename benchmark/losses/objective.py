"""What training minimises: a loss as a module, made from settings, over the views of a batch."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from torch import Tensor, nn

from ..settings.run_settings import Loss
from .similarities import Diagonal, make_similarity


class Objective(nn.Module):
    """A loss over the embedded views of a batch, with its learned parts, if there are any.

    Views are the anchors and positives of each process in turn, each (n, d), then k n hard
    negatives, those of an anchor side by side.
    """

    function: ClassVar[Callable[..., Tensor]]  # the loss without its settings
    prescribed: ClassVar[str | None] = None  # the similarity, where the loss leaves no choice
    reconstructs: ClassVar[bool] = False  # whether it gets all views' images as `latents`

    def __init__(self, settings: Loss, dim: int, processes: int = 1) -> None:
        super().__init__()
        self.settings, self.processes = settings, processes
        name = self.prescribed or settings.similarity
        root = settings.root and not self.prescribed
        self.similarity = make_similarity(name, dim, settings.metric_start, root=root)

    def forward(self, views: Sequence[Tensor], latents: Tensor | None = None) -> Tensor:
        """Return the loss, a scalar."""
        raise NotImplementedError

    @property
    def metrics(self) -> list[list[float]]:
        """The learned diagonals, d values each."""
        return [module.value.tolist() for module in self.modules() if isinstance(module, Diagonal)]

    @property
    def options(self) -> dict[str, Any]:
        """The options of `infonce` that the settings hold."""
        names = ("tau", "negatives", "symmetric", "include_positive", "self_negative")
        return {name: getattr(self.settings, name) for name in names}

    def pairs(self, views: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
        """Return anchors and positives of each process; refuse hard negatives."""
        if len(views) != 2 * self.processes:
            raise ValueError("`hard_count` must be 0: this loss takes no hard negatives.")
        return list(zip(views[::2], views[1::2], strict=True))

    def pair(self, views: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Return anchors and positives of the only process."""
        if self.processes != 1:
            raise ValueError("`conditionals` must be one: this loss takes pairs of one process.")
        return self.pairs(views)[0]
