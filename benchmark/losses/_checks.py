"""What every loss asks of its arguments."""

from torch import Tensor


def check(anchors: Tensor, positives: Tensor, tau: float = 1.0) -> None:
    """Refuse pairs that are none, and temperatures that are not positive."""
    if anchors.ndim != 2 or anchors.shape != positives.shape:
        raise ValueError(
            "`anchors` and `positives` must both have shape (n, d), "
            f"got {tuple(anchors.shape)} and {tuple(positives.shape)}."
        )
    if not tau > 0:
        raise ValueError(f"`tau` must be positive, got {tau}.")


def check_rows(anchors: Tensor) -> None:
    """Refuse a batch of one row."""
    if len(anchors) < 2:
        raise ValueError("`anchors` must hold at least 2 rows, got 1: one row has no negatives.")


def check_negatives(
    anchors: Tensor, negatives: Tensor | str, hard_negatives: Tensor | None
) -> None:
    """Refuse negatives of another shape."""
    n, dim = anchors.shape
    if isinstance(negatives, Tensor) and (negatives.ndim != 2 or negatives.shape[1] != dim):
        raise ValueError(
            f"`negatives` must have shape (m, {dim}), got {tuple(negatives.shape)}; "
            "negatives of each anchor are `hard_negatives`."
        )
    if hard_negatives is not None and (
        hard_negatives.ndim != 3 or hard_negatives.shape[::2] != (n, dim)
    ):
        raise ValueError(
            f"`hard_negatives` must have shape ({n}, k, {dim}), got {tuple(hard_negatives.shape)}."
        )
