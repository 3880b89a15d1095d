"""The ten factors of a 3DIdent scene: the one table that names, orders and scales latents."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .errors import choose
from .outside import as_reals


@dataclass(frozen=True)
class Factor:
    """One generative factor, and the scene range that its unit latent in [-1, 1] spans."""

    name: str
    group: str
    unit: str
    low: float
    high: float


_ANGLE = ("rad", -math.pi / 2, math.pi / 2)
_LENGTH = ("m", -3.0, 3.0)

FACTORS = (
    Factor("x", "position", *_LENGTH),
    Factor("y", "position", *_LENGTH),
    Factor("z", "position", *_LENGTH),
    Factor("alpha", "rotation", *_ANGLE),
    Factor("beta", "rotation", *_ANGLE),
    Factor("gamma", "rotation", *_ANGLE),
    Factor("spotlight_angle", "light", *_ANGLE),
    Factor("object_hue", "hue", *_ANGLE),
    Factor("spotlight_hue", "hue", *_ANGLE),
    Factor("background_hue", "hue", *_ANGLE),
)


def to_scene(latents: np.ndarray, factors: Sequence[Factor] = FACTORS) -> np.ndarray:
    """Map unit latents in [-1, 1], shape (n, d), to scene units."""
    low, high = _ranges(latents, "latents", factors)
    return low + (np.asarray(latents) + 1) / 2 * (high - low)


def to_unit(values: np.ndarray, factors: Sequence[Factor] = FACTORS) -> np.ndarray:
    """Map values in scene units, shape (n, d), to unit latents in [-1, 1]."""
    low, high = _ranges(values, "values", factors)
    return (np.asarray(values) - low) / (high - low) * 2 - 1


def columns(selection: str | Sequence[str], factors: Sequence[Factor] = FACTORS) -> list[int]:
    """Turn names of factors or groups (`"position"`, `"x,object_hue"`) into column numbers.

    Columns come back in the table's order, each once, however they were named.
    """
    names = selection.split(",") if isinstance(selection, str) else selection
    table: dict[str, set[int]] = {"all": set(range(len(factors)))}
    for column, factor in enumerate(factors):
        table.setdefault(factor.group, set()).add(column)
    # A factor's own name wins over a group of the same name.
    table |= {factor.name: {column} for column, factor in enumerate(factors)}
    return sorted(set().union(*(choose(table, name.strip(), "factor") for name in names)))


def as_latents(values: np.ndarray, factors: Sequence[Factor] = FACTORS) -> np.ndarray:
    """Check unit latents where they enter the package; past this line they are trusted."""
    latents = np.ascontiguousarray(as_reals(values, "latents", np.float32))
    if latents.ndim != 2 or latents.shape[1] != len(factors):
        raise ValueError(f"`latents` must have shape (n, {len(factors)}), got {latents.shape}.")
    if not np.isfinite(latents).all():
        row, column = np.argwhere(~np.isfinite(latents))[0]
        raise ValueError(
            f"`latents` must be finite; row {row} holds NaN or infinity as {factors[column].name}."
        )
    if np.abs(latents).max(initial=0) > 1:
        row, column = np.argwhere(np.abs(latents) > 1)[0]
        raise ValueError(
            f"`latents` must lie in [-1, 1]; row {row} has {factors[column].name} = "
            f"{latents[row, column]:.6g}. Scene units go through `ident3d.factors.to_unit` first."
        )
    return latents


def varying(latents: np.ndarray) -> np.ndarray:
    """Tell which factors vary over the rows, bool (d,)."""
    return (latents != latents[:1]).any(axis=0)


def _ranges(
    values: np.ndarray, name: str, factors: Sequence[Factor]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of each column's range, after a look at how many columns there are."""
    if np.shape(values)[-1:] != (len(factors),):  # a single column would be spread over all
        raise ValueError(f"`{name}` must have shape (n, {len(factors)}), got {np.shape(values)}.")
    return np.array([f.low for f in factors]), np.array([f.high for f in factors])
