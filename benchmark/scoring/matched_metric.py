"""A learned diagonal metric against the true one: which latent got which L."""

from collections.abc import Sequence

import numpy as np

from ident3d.metrics import match_columns


def blocks_of(diagonals: Sequence[Sequence[float]]) -> list[list[int]]:
    """Return the blocks of factors that no process tells apart: found up to a rotation inside."""
    groups: dict[tuple[float, ...], list[int]] = {}
    for index, key in enumerate(zip(*diagonals, strict=True)):
        groups.setdefault(key, []).append(index)
    return list(groups.values())


def match_metric(
    correlation: np.ndarray, diagonals: Sequence[Sequence[float]]
) -> list[list[float | None]]:
    """Return the true L of each learned dimension, for every process, in the model's order.

    A dimension has the L of the factor that it is matched with. Factors of equal L are found up to
    a rotation, so a dimension is matched with a block of them, by its multiple correlation. One
    that is matched with none has None.

    Args:
        correlation: Of factors and learned dimensions, (d, k).
        diagonals: The true L of each factor, one list (d,) for each process.
    """
    keys = list(zip(*diagonals, strict=True))
    # Factors are uncorrelated, so squared correlations add up to the multiple one: (d, k).
    squares = np.square(correlation)
    explained = np.sqrt([sum(squares[j] for j, b in enumerate(keys) if b == a) for a in keys])
    factors, dimensions = match_columns(explained)
    found: list[list[float | None]] = [[None] * correlation.shape[1] for _ in diagonals]
    for factor, dimension in zip(factors, dimensions, strict=True):
        for process, value in enumerate(keys[factor]):
            found[process][dimension] = value
    return found


def metric_errors(learned: Sequence[float], true: Sequence[float | None]) -> dict[str, float]:
    """Return the largest relative error of L: each against its own, and both sorted.

    Sorted, an error does not see which latent got which L.
    """
    pairs = [(a, b) for a, b in zip(learned, true, strict=True) if b is not None]
    found, wanted = np.array(pairs).T
    return {
        "metric_error": float(np.abs(found / wanted - 1).max()),
        "metric_error_sorted": float(np.abs(np.sort(found) / np.sort(wanted) - 1).max()),
    }
