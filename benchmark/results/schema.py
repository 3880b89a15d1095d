"""The fields of a result record, and the check that each must pass."""

from collections.abc import Mapping, Sequence
from typing import Any

from .strict_json import MAX_NAME, matrix, number, numbers, plain, text

VERSION = 1
PROTOCOLS = {
    "clean": "Whole split, encoder in eval mode, R2 fit on one half and scored on the other.",
    "paper": "As released: the first 4,096 rows, batch-norm in training mode, R2 fit where scored.",
}
MAX_DIM = 256  # latent dimensions
MAX_POINTS = 2_000  # rows of `points`: a sample for the plots, not the data


def _name(value: Any, what: str) -> str:
    if not text(value, what, MAX_NAME).strip():
        raise ValueError(f"`{what}` must not be empty.")
    return value


def _protocol(value: Any, what: str) -> str:
    if value not in tuple(PROTOCOLS):
        raise ValueError(f"`{what}` must be one of {', '.join(PROTOCOLS)}; got {value!r:.40}.")
    return value


def _seed(value: Any, what: str) -> int:
    if not isinstance(number(value, what), int) or value < 0:
        raise ValueError(f"`{what}` must be a whole number from 0, got {value}.")
    return value


def _seconds(value: Any, what: str) -> float:
    if number(value, what) < 0:
        raise ValueError(f"`{what}` must not be negative, got {value}.")
    return value


def _version(value: Any, what: str) -> int:
    if type(value) is not int or value != VERSION:
        raise ValueError(f"`{what}` must be {VERSION}, got {value!r:.40}; update ident3d.")
    return value


def _mapping(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"`{what}` must be a table of names, got {type(value).__name__}.")
    return plain(value, what)


def _scores(value: Any, what: str) -> dict[str, Any]:
    scores = _mapping(value, what)
    for name, score in scores.items():
        for part in score.values() if isinstance(score, dict) else [score]:
            if part is not None:
                number(part, f"{what}.{name}")
    return scores


def _data(value: Any, what: str) -> dict[str, Any]:
    data = _mapping(value, what)
    for key in ("name", "fingerprint"):
        _name(data.get(key), f"{what}.{key}")
    return data


def _columns(table: Mapping[str, Sequence], what: str) -> None:
    if len({len(column) for column in table.values()}) > 1:
        raise ValueError(f"`{what}` must have lists of one length.")


def _curves(value: Any, what: str) -> dict[str, list]:
    if not isinstance(value, Mapping) or len(value) > 50:
        raise ValueError(f"`{what}` must be a table of at most 50 lists.")
    curves = {_name(k, what): numbers(v, f"{what}.{k}"[:MAX_NAME]) for k, v in value.items()}
    _columns(curves, what)
    return curves


def _points(value: Any, what: str) -> dict[str, list]:
    if not isinstance(value, Mapping) or set(value) != {"true", "predicted"}:
        raise ValueError(f"`{what}` must hold `true` and `predicted`.")
    points = {k: matrix(v, f"{what}.{k}", MAX_POINTS, MAX_DIM) for k, v in value.items()}
    _columns(points, what)
    if points["true"] and len(points["true"][0]) != len(points["predicted"][0]):
        raise ValueError(f"`{what}` must predict each true column.")
    return points


def _names(value: Any, what: str) -> list[str]:
    if not isinstance(value, list | tuple) or len(value) > MAX_DIM:
        raise ValueError(f"`{what}` must be a list of at most {MAX_DIM} names.")
    return [_name(item, what) for item in value]


REQUIRED = {"method", "experiment", "tier", "protocol", "seed", "scores", "version"}
CHECKS = {
    "version": _version,
    "method": _name,
    "experiment": _name,
    "tier": _name,
    "protocol": _protocol,
    "seed": _seed,
    "scores": _scores,
    "data": _data,
    "settings": _mapping,
    "curves": _curves,
    "metric": lambda value, what: numbers(value, what, MAX_DIM),
    "metric_true": lambda value, what: numbers(value, what, MAX_DIM),
    "correlation": lambda value, what: matrix(value, what, MAX_DIM, MAX_DIM),
    "factors": _names,
    "points": _points,
    "environment": _mapping,
    "commit": lambda value, what: text(value, what, MAX_NAME),
    "seconds": _seconds,
    "command": text,
}
