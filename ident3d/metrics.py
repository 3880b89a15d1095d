"""How much of the truth a representation holds: linear R2, MCC, and MCC by blocks.

`z` are true factors, shape (n, d); `z_hat` the representation of the same rows, shape (n, k).
A column that never changes has no correlation and explains nothing: it scores 0, with a warning.
"""

import itertools
import warnings
from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.stats import rankdata

from .errors import choose
from .outside import as_reals

# A column whose values differ by less than this, relative to their size, is rounding noise.
_CONSTANT = 1e-12
_VARYING = "score `z[:, ident3d.factors.varying(z)]`, which `data.varying` names"


def linear_r2(z: np.ndarray, z_hat: np.ndarray, *, held_out: bool = True) -> float:
    """Return the mean over factors of the R2 of the best affine map from `z_hat` to `z`.

    With `held_out` the map is fitted on rows 0, 2, 4, ... and scored on rows 1, 3, 5, ...;
    without, it is fitted and scored on all rows.
    """
    return float(linear_r2_per_factor(z, z_hat, held_out=held_out).mean())


def linear_r2_per_factor(z: np.ndarray, z_hat: np.ndarray, *, held_out: bool = True) -> np.ndarray:
    """Return the R2 of each factor under the best affine map from `z_hat`, shape (d,).

    1 is perfect, 0 is no better than the factor's mean; held-out scores can be negative.
    """
    z, z_hat = _checked(z, z_hat)
    fit, score = (slice(0, None, 2), slice(1, None, 2)) if held_out else (slice(None), slice(None))
    needed = z_hat.shape[1] + 2
    if len(z[fit]) < needed or len(z[score]) < 2:
        raise ValueError(
            f"`z` must have at least {needed * (2 if held_out else 1)} rows to fit an affine map "
            f"from {z_hat.shape[1]} columns{' on half of them' if held_out else ''}, got {len(z)}."
        )
    predicted = _affine(z_hat[fit], z[fit])(z_hat[score])
    truth = z[score]
    constant = _warn_of_constant(truth, "z", "its R2 is undefined and scored 0")
    total = np.square(truth - truth.mean(axis=0)).sum(axis=0)
    residual = np.square(truth - predicted).sum(axis=0)
    return np.where(constant, 0.0, 1 - residual / np.where(constant, 1.0, total))


def mcc(z: np.ndarray, z_hat: np.ndarray, method: str = "pearson") -> float:
    """Return the mean absolute correlation under the best one-to-one match with columns.

    `z_hat` may have more columns than `z`; those left over are ignored.
    """
    _enough_columns(z, z_hat)
    correlation = np.abs(mcc_matrix(z, z_hat, method))
    return float(correlation[match_columns(correlation)].mean())


def mcc_matrix(z: np.ndarray, z_hat: np.ndarray, method: str = "pearson") -> np.ndarray:
    """Correlate each factor with each column of `z_hat`, signed, shape (d, k)."""
    z, z_hat = _checked(z, z_hat)
    transform = choose(_METHODS, method, "method")
    correlation = _unit(z, "z", transform).T @ _unit(z_hat, "z_hat", transform)
    return np.clip(correlation, -1, 1)


def match_columns(correlation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Match factors one to one with columns, so that the sum of |correlation| is largest.

    From the matrix (d, k) of correlations, signed or not, it gives factors, ascending, and their
    columns, each of shape (min(d, k),).
    """
    return linear_sum_assignment(np.abs(correlation), maximize=True)


def block_mcc(z: np.ndarray, z_hat: np.ndarray, blocks: Sequence[Sequence[int]]) -> float:
    """Return the MCC of factors identified up to a rotation inside each block of columns of `z`.

    Each block is matched with as many columns of `z_hat`, so that the sum of the columns' multiple
    correlations with their block is largest; `z_hat` may come in any order, and the learned metric
    of AnInfoNCE is not needed to sort it. A block then scores the canonical correlations between
    its factors and its columns, which no invertible linear map inside the block can change. The
    result is the mean over all factors. With one factor in each block it equals Pearson `mcc`.
    Where `mcc`'s own match gives a block more, as with columns that are nearly copies of each
    other and together hold one factor, that counts.

    Canonical correlations are fitted, so even unrelated columns score about sqrt(block / n).
    """
    z, z_hat = _checked(z, z_hat)
    blocks = [list(block) for block in blocks]
    if sorted(itertools.chain(*blocks)) != list(range(z.shape[1])) or not all(blocks):
        raise ValueError(
            f"`blocks` must hold each of `z`'s {z.shape[1]} columns exactly once, got {blocks}."
        )
    _enough_columns(z, z_hat)
    factors, columns = _unit(z, "z"), _unit(z_hat, "z_hat")
    spans = [_orthonormal(factors[:, block]) for block in blocks]
    owner = np.repeat(np.arange(len(blocks)), [len(block) for block in blocks])
    explained = np.stack(
        [np.linalg.norm(span.T @ columns, axis=0) for span in spans]
    )  # (blocks, k)
    order = list(itertools.chain(*blocks))
    by_factor = np.abs(factors.T @ columns)[order]
    return max(
        _canonical(spans, columns, owner, match_columns(likeness))
        for likeness in (explained[owner], by_factor)
    )


def _canonical(
    spans: Sequence[np.ndarray],
    columns: np.ndarray,
    owner: np.ndarray,
    match: tuple[np.ndarray, np.ndarray],
) -> float:
    """Return the mean canonical correlation of blocks with the columns that they were given."""
    slots, matched = match
    total = 0.0
    for block, span in enumerate(spans):
        partner = _orthonormal(columns[:, matched[owner[slots] == block]])
        total += np.linalg.svd(span.T @ partner, compute_uv=False).clip(0, 1).sum()
    return float(total / len(owner))


Transform = Callable[[np.ndarray], np.ndarray]
_METHODS: dict[str, Transform] = {
    "pearson": lambda values: values,
    "spearman": lambda values: rankdata(values, axis=0),
}


def _checked(z: np.ndarray, z_hat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    arrays = []
    for name, values in (("z", z), ("z_hat", z_hat)):
        values = as_reals(values, name)
        if values.ndim != 2 or values.shape[1] == 0:
            raise ValueError(f"`{name}` must have shape (rows, columns), got {values.shape}.")
        if not np.isfinite(values).all():
            row = int(np.flatnonzero(~np.isfinite(values).all(axis=1))[0])
            raise ValueError(f"`{name}` must be finite; row {row} holds NaN or infinity.")
        arrays.append(_near_one(values))
    if len(arrays[0]) != len(arrays[1]) or len(arrays[0]) < 2:
        raise ValueError(
            f"`z` and `z_hat` must have the same number of rows, at least 2; "
            f"got {len(arrays[0])} and {len(arrays[1])}."
        )
    return arrays[0], arrays[1]


def _near_one(values: np.ndarray) -> np.ndarray:
    """Scale columns to about 1 by powers of two, which no score sees: squares then stay finite."""
    exponents = np.frexp(np.abs(values).max(axis=0, initial=0))[1]
    return np.ldexp(values, -exponents)


def _enough_columns(z: np.ndarray, z_hat: np.ndarray) -> None:
    z, z_hat = _checked(z, z_hat)
    factors, columns = z.shape[1], z_hat.shape[1]
    if columns < factors:
        still = _constant(z).sum()
        way = f"{still} of them never vary: {_VARYING}" if still else "linear_r2 has no such limit"
        raise ValueError(
            f"`z_hat` must have a column for each of the {factors} factors, got {columns}; {way}."
        )


def _constant(values: np.ndarray) -> np.ndarray:
    """Find the columns that never change, bool (columns,)."""
    return np.ptp(values, axis=0) <= _CONSTANT * np.abs(values).max(axis=0)


def _warn_of_constant(values: np.ndarray, name: str, consequence: str) -> np.ndarray:
    """Find columns that never change, and warn of them."""
    constant = _constant(values)
    if constant.any():
        found = ", ".join(map(str, np.flatnonzero(constant)))
        way = f"; {_VARYING}" if name == "z" else ""
        warnings.warn(
            f"`{name}` never changes in column {found}; {consequence}{way}.", stacklevel=4
        )
    return constant


def _unit(
    values: np.ndarray, name: str, transform: "Transform" = lambda values: values
) -> np.ndarray:
    """Bring columns to mean 0 and norm 1; constant ones become 0, also if ranks see rounding."""
    constant = _warn_of_constant(values, name, "its correlation is undefined and scored 0")
    values = transform(values)
    centred = values - values.mean(axis=0)
    centred[:, constant] = 0
    return centred / np.where(constant, 1, np.linalg.norm(centred, axis=0))


def _orthonormal(columns: np.ndarray) -> np.ndarray:
    """Return an orthonormal basis of the columns' span; dependent columns add nothing to it."""
    left, singular, _ = np.linalg.svd(columns, full_matrices=False)
    return left[:, singular > 1e-10]


def _affine(inputs: np.ndarray, targets: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Fit the least-squares affine map. Inputs are scaled first, so that no unit matters."""
    centre, middle = inputs.mean(axis=0), targets.mean(axis=0)
    constant = _warn_of_constant(inputs, "z_hat", "it explains nothing")
    width = np.where(constant, np.inf, inputs.std(axis=0))
    weights = np.linalg.lstsq((inputs - centre) / width, targets - middle, rcond=None)[0]
    return lambda values: (values - centre) / width @ weights + middle
