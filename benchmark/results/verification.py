"""Verifying an entry: every number that its embeddings can prove is computed again."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ident3d.dataset import Dataset
from ident3d.errors import DataError
from ident3d.files import file_digest

from .. import scoring
from .entries import check_encoder, embeddings_name, encoder_name, read_entry, submitted
from .records import scored_latents
from .result import Result

TOLERANCE = 1e-4  # of a score: a hundredth of a percent; float32 and threads move it less
PROBE_TOLERANCE = 1e-3  # forests and grid searches move a little between versions
ROUNDED = 1e-3  # of what is drawn, which is kept rounded


def verify(entry: str | Path, data: Dataset) -> list[dict[str, Any]]:
    """Compute every score of an entry again; returns them per seed, raises where they disagree."""
    folder = Path(entry)
    found = read_entry(folder)
    for result in found.records:
        _check_data(result, data)
    checked = []
    for result in found.records:
        path, seed = folder / embeddings_name(result.seed), str(result.seed)
        _check_digest(path, found.embeddings.get(seed))
        if seed in found.encoders:
            network = folder / encoder_name(result.seed)
            _check_digest(network, found.encoders[seed])
            check_encoder(network, result)
        embeddings = submitted(path)
        wanted = len(scoring.scored_rows(result.protocol, len(data)))
        if len(embeddings) != wanted:
            raise DataError(
                f"{path} holds {len(embeddings)} rows; protocol {result.protocol} scores "
                f"{wanted} rows of {data.path}."
            )
        scores = _check_scores(result, *scored_latents(data, result.protocol), embeddings)
        checked.append({"seed": result.seed, "scores": scores})
    return checked


def _check_digest(path: Path, stated: str | None) -> None:
    if file_digest(path) != stated:
        raise DataError(f"{path} was changed after packing: its digest is not the entry's.")


def _check_data(result: Result, data: Dataset) -> None:
    stated = result.data or {}
    if stated["fingerprint"] != data.fingerprint:
        raise DataError(
            f"The entry is for another data set: it states fingerprint "
            f"{stated['fingerprint'][:12]}, {data.path} has {data.fingerprint[:12]}."
        )
    if stated.get("split", data.split) != data.split:
        raise DataError(f"The entry is for split {stated['split']!r}, not for {data.split!r}.")
    if stated.get("rows", len(data)) != len(data):
        raise DataError(f"The entry states {stated['rows']} rows; the data set has {len(data)}.")
    names = scored_latents(data, result.protocol)[1]
    if result.factors is not None and result.factors != names:
        raise DataError(
            f"The entry must score the varying factors in their order: {', '.join(names)}."
        )


def _check_scores(
    result: Result, latents: np.ndarray, names: Sequence[str], embeddings: np.ndarray
) -> dict[str, Any]:
    """Compare all that the record states and embeddings can prove."""
    true = scoring.score(latents, embeddings, result.protocol, names)
    for name, stated in result.scores.items():
        if name not in scoring.PROVABLE:
            raise DataError(
                f"Score `{name}` cannot be computed from embeddings; pack leaves it out."
            )
        if name in true:
            _agree(stated, true[name], f"seed {result.seed}, {name}", TOLERANCE)
    for name in ("r2", "mcc"):
        if result.scores.get(name) is None and true[name] is not None:
            raise DataError(f"The entry must state `{name}` of seed {result.seed}.")
    if result.correlation is not None:
        matrix = scoring.correlation(latents, embeddings)
        _agree(result.correlation, matrix, f"seed {result.seed}, correlation", ROUNDED)
    if result.points is not None:
        shown = scoring.points(latents, embeddings, result.protocol)
        _agree(result.points, shown, f"seed {result.seed}, points", ROUNDED)
    # The probes are slow, so last and only where stated.
    probes = [name for name in scoring.PROBES if name in result.scores]
    true |= scoring.score(latents, embeddings, result.protocol, names, probes)
    for name in probes:
        _agree(result.scores[name], true[name], f"seed {result.seed}, {name}", PROBE_TOLERANCE)
    return true


def _agree(stated: Any, true: Any, what: str, tolerance: float) -> None:
    """Compare two values of one shape: numbers, tables, or lists of them."""
    if isinstance(true, dict):
        if not isinstance(stated, dict) or set(stated) != set(true):
            raise DataError(f"The entry's {what} must name {', '.join(true)}.")
        for name in true:
            _agree(stated[name], true[name], f"{what}.{name}", tolerance)
    elif isinstance(true, list):
        one, two = _array(stated), np.array(true)
        if one is None or one.shape != two.shape or not (np.abs(one - two) <= tolerance).all():
            raise DataError(f"The entry's {what} does not agree with its embeddings.")
    elif stated is None or true is None:
        if stated is not None:  # what a record leaves out needs no proof
            raise DataError(f"The entry states {what}, which its embeddings do not have.")
    # Written so that a NaN never agrees.
    elif isinstance(stated, dict) or not abs(stated - true) <= tolerance:
        raise DataError(f"The entry states {what} = {stated}; its embeddings give {true:.6g}.")


def _array(value: Any) -> np.ndarray | None:
    try:
        return np.array(value, dtype=np.float64)
    except (ValueError, TypeError):
        return None
