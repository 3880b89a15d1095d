"""What training minimises: a loss as a module, made from settings, over the views of a batch."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from torch import Tensor, nn

from ..settings.run_settings import Loss
from .similarities import Diagonal, Similarity, make_similarity


class Objective(nn.Module):
    """A loss over the embedded views of a batch, with its learned parts, if there are any.

    Views are the anchors and positives of each process in turn, each (n, d), then k n hard
    negatives, those of an anchor side by side.

    Args:
        settings: Name, similarity, temperature and options.
        dim: Dimensions of the model.
        processes: How many processes make pairs.
    """

    function: ClassVar[Callable[..., Tensor]]  # the loss without its settings

    def __init__(self, settings: Loss, dim: int, processes: int = 1) -> None:
        super().__init__()
        self.settings = settings

    def forward(self, views: Sequence[Tensor], latents: Tensor | None = None) -> Tensor:
        """Return the loss, a scalar."""
        raise NotImplementedError

    @property
    def metrics(self) -> list[Tensor]:
        """The learned diagonals, each (d,)."""
        return [module.value for module in self.modules() if isinstance(module, Diagonal)]


def similarity_of(settings: Loss, dim: int) -> Similarity:
    """Return the similarity that settings name."""
    return make_similarity(settings.similarity, dim, settings.metric_start)


def infonce_options(settings: Loss) -> dict[str, Any]:
    """Return the options of `infonce` that settings hold."""
    names = ("tau", "negatives", "symmetric", "include_positive", "self_negative")
    return {name: getattr(settings, name) for name in names}


def pairs_of(views: Sequence[Tensor], processes: int = 1) -> list[tuple[Tensor, Tensor]]:
    """Return anchors and positives of each process; refuse hard negatives."""
    if len(views) != 2 * processes:
        raise ValueError("`hard_count` must be 0: this loss takes no hard negatives.")
    return list(zip(views[::2], views[1::2], strict=True))
