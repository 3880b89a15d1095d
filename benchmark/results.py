"""The record of one run: what was run, on what, what came out. One JSON file, checked on read.

result = Result(method="InfoNCE, box, normal", experiment="table4/1", ..., scores={"r2": 0.96})
result.save("results", embeddings=z_hat)  # results/<id>.json and, to submit it, <id>.npy
results = load_all("results")
"""

import hashlib
import importlib.metadata
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from ident3d.errors import DataError

from .checks import MAX_NAME, matrix, number, numbers, plain, read_json, text

VERSION = 1
KIND = "ident3d-result"  # what tells a record from any other JSON file
PROTOCOLS = {
    "clean": "Whole split, encoder in eval mode, R2 fit on one half and scored on the other.",
    "paper": "As released: the first 4,096 rows, batch-norm in training mode, R2 fit where scored.",
}
PAPER_ROWS = 4096
MAX_DIM = 256  # latent dimensions
MAX_POINTS = 2_000  # rows of `points`: a sample for the plots, not the data


@dataclass(frozen=True, kw_only=True)
class Result:
    """One run. None means "not computed"; NaN and infinity are refused.

    Args:
        method: The name on the leaderboard.
        experiment: Id of the experiment, such as `table4/1`.
        tier: Size of the run, such as `smoke`, `small` or `full`.
        protocol: A key of `PROTOCOLS`.
        seed: Seed of the run.
        scores: `r2`, `mcc`, `r2_per_factor` ({name: value}), and any further number.
        data: `name` and `fingerprint` of the data set (also `split`, `rows`); None if synthetic.
        settings: What the run was asked to do.
        curves: Equally long lists: `step`, and any of `loss`, `r2`, `mcc`, ...
        metric: The learned diagonal metric.
        metric_true: The true diagonal metric, drawn beside the learned one.
        correlation: Absolute correlations, true factors in rows, learned dimensions in columns.
        factors: Names of the true factors: rows of `correlation`, columns of `points`.
        points: {"true": rows, "predicted": rows}: a small sample for the plots.
        environment: Where it ran, as `environment()` says.
        commit: The code's commit, as `commit()` says.
        seconds: Training time.
        command: The exact command.
        version: Version of this schema.
    """

    method: str
    experiment: str
    tier: str
    protocol: str
    seed: int
    scores: dict[str, Any]
    data: dict[str, Any] | None = None
    settings: dict[str, Any] | None = None
    curves: dict[str, list] | None = None
    metric: list | None = None
    metric_true: list | None = None
    correlation: list[list] | None = None
    factors: list[str] | None = None
    points: dict[str, list[list]] | None = None
    environment: dict[str, Any] | None = None
    commit: str | None = None
    seconds: float | None = None
    command: str | None = None
    version: int = VERSION

    def __post_init__(self) -> None:
        for name, check in _CHECKS.items():
            value = getattr(self, name)
            if value is not None or name in _REQUIRED:
                object.__setattr__(self, name, check(value, name))

    @property
    def id(self) -> str:
        """A file name made by us: readable, and different for any two different runs."""
        readable = "_".join(
            re.sub(r"[^a-z0-9]+", "-", part.lower()).strip("-")[:40] or "x"
            for part in (self.experiment, self.method, self.tier, self.protocol)
        )
        return f"{readable}_s{self.seed}_{_digest([self.group, self.seed])}"

    @property
    def group(self) -> tuple[str, ...]:
        """What runs that differ in their seed only have in common: one row of a table."""
        settings = {k: v for k, v in (self.settings or {}).items() if k != "seed"}
        fingerprint = (self.data or {}).get("fingerprint", "")
        return (self.experiment, self.tier, self.protocol, self.method, fingerprint) + (
            json.dumps(settings, sort_keys=True),
        )

    def to_json(self) -> str:
        """Write the record as JSON text."""
        return json.dumps({"kind": KIND} | asdict(self), allow_nan=False, ensure_ascii=False)

    @classmethod
    def from_json(cls, record: str | Mapping[str, Any], source: str = "the record") -> "Result":
        """Read a record from JSON text or parsed JSON; raises `DataError` for anything odd."""
        try:
            found = dict(json.loads(record) if isinstance(record, str) else record)
            if found.pop("kind", None) != KIND:
                raise ValueError(f'is no result record: `"kind": "{KIND}"` is missing')
            known = {field.name for field in fields(cls)}
            if unknown := sorted(str(key)[:MAX_NAME] for key in found if key not in known):
                raise ValueError(f"has an unknown field {unknown[0]!r}")
            if missing := sorted(_REQUIRED - set(found)):
                raise ValueError(f"lacks `{missing[0]}`")
            return cls(**found)
        except (ValueError, TypeError) as error:
            raise DataError(f"{source}: {error}") from error

    def save(self, folder: str | Path, embeddings: np.ndarray | None = None) -> Path:
        """Write `<id>.json`, and the embeddings of the scored rows as `<id>.npy` beside it.

        The embeddings, in the order of `scored_rows`, are what `benchmark pack` submits.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        if embeddings is not None:
            partial = folder / f".{self.id}.npy"
            with open(partial, "wb") as stream:
                np.save(stream, np.asarray(embeddings), allow_pickle=False)
            os.replace(partial, folder / f"{self.id}.npy")
        partial = folder / f".{self.id}.partial"
        partial.write_text(self.to_json(), "utf-8")
        path = folder / f"{self.id}.json"
        os.replace(partial, path)
        return path

    def without_arrays(self) -> "Result":
        """Drop the bulky parts; for listings."""
        return replace(self, curves=None, points=None, correlation=None)


def load(path: str | Path) -> Result:
    """Read one record from its file."""
    return Result.from_json(read_json(Path(path)), str(path))


def load_all(folder: str | Path, refused: list[str] | None = None) -> list[Result]:
    """Read every record below `folder`: single records and packed entries.

    A bad file raises `DataError`; with a list `refused` it is left out and its sentence added.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(f"`results` must be a folder of records, got {str(folder)!r}.")
    found: dict[str, tuple[Path, Result]] = {}
    # rglob does not walk into linked folders; read_json refuses linked files.
    for path in sorted(folder.rglob("*.json")):
        try:
            for result in _records(path):
                if result.id in found:
                    raise DataError(f"{path} repeats the run of {found[result.id][0]}.")
                found[result.id] = (path, result)
        except DataError as error:
            if refused is None:
                raise
            refused.append(str(error))
    return sorted((result for _, result in found.values()), key=lambda r: (*r.group, r.seed))


def scored_rows(protocol: str, rows: int) -> int:
    """How many rows of a split, from its first, a protocol scores."""
    return min(rows, PAPER_ROWS) if protocol == "paper" else rows


def environment() -> dict[str, Any]:
    """Describe this machine: versions, processor, GPU. No names of users or hosts."""
    versions = {}
    for package in ("ident3d", "numpy", "torch", "torchvision", "faiss-cpu", "scikit-learn"):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    torch = sys.modules.get("torch")  # never imported for this
    gpu = torch.cuda.get_device_name() if torch and torch.cuda.is_available() else None
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "gpu": gpu,
        "packages": versions,
    }


def commit() -> str | None:
    """Name the commit of the code that runs, `-dirty` if changed; None outside a clone."""
    here = Path(__file__).resolve().parent
    command = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        done = subprocess.run([*command, "--exclude=*"], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def _records(path: Path) -> list[Result]:
    parsed = read_json(path)
    if path.name != "entry.json":
        parsed = {"records": [parsed]}
    records = parsed.get("records") if isinstance(parsed, dict) else None
    if not isinstance(records, list) or not 0 < len(records) <= 100:
        raise DataError(f"{path} must hold `records`, a list of 1 to 100 records.")
    return [
        Result.from_json(record if isinstance(record, dict) else {}, str(path))
        for record in records
    ]


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:8]


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
    if value != VERSION or isinstance(value, bool):
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


_REQUIRED = {"method", "experiment", "tier", "protocol", "seed", "scores", "version"}
_CHECKS = {
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
