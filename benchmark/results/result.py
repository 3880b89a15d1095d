"""The record of one run: what was run, on what, what came out. One JSON file, checked on read.

result = Result(method="InfoNCE, box, normal", experiment="table4/1", ..., scores={"r2": 0.96})
result.save("results", embeddings=z_hat)  # results/<id>.json and, to submit it, <id>.npy
results = load_all("results")
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from ident3d.errors import DataError

from .environment import commit, environment
from .schema import CHECKS, PROTOCOLS, REQUIRED, VERSION
from .strict_json import MAX_NAME, parse_json, read_json

__all__ = [
    "PROTOCOLS",
    "Result",
    "commit",
    "environment",
    "load",
    "load_all",
    "scored_rows",
]

KIND = "ident3d-result"  # what tells a record from any other JSON file
PAPER_ROWS = 4096


@dataclass(frozen=True, kw_only=True)
class Result:
    """One run. None means "not computed"; NaN and infinity are refused.

    Args:
        method: The name on the leaderboard.
        experiment: Id of the experiment, such as `table4/1`.
        tier: Size of the run, such as `paper`, `cpu` or `small`.
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
        for name, check in CHECKS.items():
            value = getattr(self, name)
            if value is not None or name in REQUIRED:
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
        settings_text = json.dumps(settings, sort_keys=True)
        return (self.experiment, self.tier, self.protocol, self.method, fingerprint, settings_text)

    def to_json(self) -> str:
        """Write the record as JSON text."""
        return json.dumps({"kind": KIND} | asdict(self), allow_nan=False, ensure_ascii=False)

    @classmethod
    def from_json(cls, record: str | Mapping[str, Any], source: str = "the record") -> "Result":
        """Read a record from JSON text or parsed JSON; raises `DataError` for anything odd."""
        try:
            found = dict(parse_json(record) if isinstance(record, str) else record)
            if found.pop("kind", None) != KIND:
                raise ValueError(f'is no result record: `"kind": "{KIND}"` is missing')
            known = {field.name for field in fields(cls)}
            if unknown := sorted(str(key)[:MAX_NAME] for key in found if key not in known):
                raise ValueError(f"has an unknown field {unknown[0]!r}")
            if missing := sorted(REQUIRED - set(found)):
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
            array = np.asarray(embeddings)
            if array.dtype not in (np.float32, np.float64):
                array = array.astype(np.float64)
            partial = folder / f".{self.id}.npy"
            with open(partial, "wb") as stream:
                np.save(stream, array, allow_pickle=False)
            os.replace(partial, folder / f"{self.id}.npy")
        partial = folder / f".{self.id}.partial"
        partial.write_text(self.to_json(), "utf-8")
        path = folder / f"{self.id}.json"
        os.replace(partial, path)
        return path


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
        if any(part.startswith(".") for part in path.relative_to(folder).parts):
            continue  # unfinished runs keep their state in a hidden folder
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


def _records(path: Path) -> list[Result]:
    if path.name == "entry.json":
        from .entries import read_entry

        return read_entry(path.parent)[1]
    record = read_json(path)
    return [Result.from_json(record if isinstance(record, dict) else {}, str(path))]


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:8]
