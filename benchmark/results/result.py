"""The record of one run: what was run, on what, what came out. One JSON file, checked on read.

result = Result(method="InfoNCE, box, normal", experiment="table4/1", ..., scores={"r2": 0.96})
result.save("results", embeddings=z_hat)  # results/<id>.json and, to submit it, <id>.npy
results = load_all("results")
"""

import json
import re
from collections.abc import Collection, Mapping, Sized
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import numpy as np
from msgspec import Meta, Struct

from ident3d.errors import DataError
from ident3d.files import sha256, write_bytes
from ident3d.outside import parse_json

from ..scoring.protocols import PROTOCOLS
from ..scoring.scores import SCORES
from .embeddings import save_embeddings
from .schema import MAX_LIST, MAX_NAME, Name, plain, read_json, shaped, stated

KIND = "ident3d-result"  # what tells a record from any other JSON file
VERSIONS = (1, 2)  # 2 has the protocols `held-out` and `as-released`, and controls
MAX_DIM = 256  # latent dimensions
MAX_POINTS = 2_000  # rows of `points`: a sample for the plots, not the data

MAX_NUMBER = 1e100  # of scores and what is drawn: squares and sums of them stay finite

_Limits = Meta(ge=-MAX_NUMBER, le=MAX_NUMBER)
Number = int | Annotated[float, _Limits] | None  # None: not computed
Line = Annotated[list[Number], Meta(max_length=MAX_DIM)]
Curve = Annotated[list[Number], Meta(max_length=MAX_LIST)]
Curves = Annotated[dict[Name, Curve], Meta(max_length=50)]
Matrix = Annotated[list[Line], Meta(max_length=MAX_DIM)]
Rows = Annotated[list[Line], Meta(max_length=MAX_POINTS)]
Points = Annotated[dict[Literal["true", "predicted"], Rows], Meta(min_length=2)]
Scores = dict[str, Number | dict[str, Number]]


class DataStated(TypedDict):
    """What a record must say of its data set."""

    name: Name
    fingerprint: Name


class _Fields(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag=KIND
):
    """The fields of a record and their types."""

    method: Name  # the name on the leaderboard
    experiment: Name  # its id, such as `table4/1`
    tier: Name  # size of the run, such as `paper`, `cpu` or `small`
    protocol: Name  # a key of `scoring.PROTOCOLS`: of those that the record's version has
    seed: Annotated[int, Meta(ge=0)]
    scores: dict[str, Any]  # `r2`, `mcc`, `r2_per_factor` {name: value}, and any further number
    data: dict[str, Any] | None = None  # `data_fields` of the split scored; None if synthetic
    settings: dict[str, Any] | None = None  # what the run was asked to do
    curves: Curves | None = None  # equally long lists: `step`, and any of `loss`, `r2`, `mcc`, ...
    metric: Line | None = None  # the learned diagonal metric
    metric_true: Line | None = None  # the true one, drawn beside it
    correlation: Matrix | None = None  # absolute; true factors in rows, learned dimensions across
    factors: Annotated[list[Name], Meta(max_length=MAX_DIM)] | None = None  # names of the true ones
    points: Points | None = None  # a small sample for the plots
    environment: dict[str, Any] | None = None  # where it ran, as `environment()` says
    commit: Annotated[str, Meta(max_length=MAX_NAME)] | None = None  # of the code
    seconds: Annotated[float, Meta(ge=0, le=1e12)] | None = None  # training time
    command: str | None = None
    control: bool = False  # shown beside its row, never ranked
    version: Literal[1, 2] = 2


class Result(_Fields, frozen=True, kw_only=True, forbid_unknown_fields=True, tag=KIND):
    """One run: its fields are those of the JSON file, which docs/leaderboard.md lists.

    None means "not computed"; NaN and infinity are refused.
    """

    def __post_init__(self) -> None:
        # msgspec checks types when it reads, not when a struct is made: checked here, both are.
        names = self.__struct_fields__
        checked = shaped({name: plain(getattr(self, name), name) for name in names}, _Fields)
        for name in names:
            msgspec.structs.force_setattr(self, name, getattr(checked, name))
        known = ", ".join(k for k, v in PROTOCOLS.items() if v.version == self.version)
        if self.protocol not in known.split(", "):
            raise ValueError(f"`protocol` must be one of {known}; got {self.protocol!r:.40}.")
        shaped(self.scores, Scores, "scores")
        for name, value in self.scores.items():
            _check_kind(name, value)
        if self.data is not None:
            shaped(self.data, DataStated, "data")
        _even("curves", (self.curves or {}).values())
        if any(step is not None and step < 0 for step in (self.curves or {}).get("step", [])):
            raise ValueError("`curves.step` must be at least 0: training begins there.")
        _even("correlation", self.correlation or [])
        points = self.points or {"true": [], "predicted": []}
        _even("points", points.values())
        _even("points", [*points["true"], *points["predicted"]])

    @property
    def id(self) -> str:
        """A file name made by us: readable, and different for any two different runs."""
        readable = "_".join(
            re.sub(r"[^a-z0-9]+", "-", part.lower()).strip("-")[:40] or "x"
            for part in (self.experiment, self.method, self.tier, self.protocol)
        )
        digest = sha256(json.dumps([self._told(), self.seed]).encode())[:8]
        return f"{readable}_s{self.seed}_{digest}"

    @property
    def group(self) -> tuple[str, ...]:
        """What runs that differ in their seed only have in common: one row of a table.

        Where their data lies tells no runs apart if its fingerprints stand beside it.
        """
        return self._told("data") if (self.settings or {}).get("fingerprints") else self._told()

    def _told(self, *less: str) -> tuple[str, ...]:
        left_out = ("seed", "control", *less)
        settings = {k: v for k, v in (self.settings or {}).items() if k not in left_out}
        fingerprint = (self.data or {}).get("fingerprint", "")
        settings_text = json.dumps(settings, sort_keys=True)
        return (self.experiment, self.tier, self.protocol, self.method, fingerprint, settings_text)

    def to_json(self) -> str:
        """Write the record as JSON text."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, record: str | Mapping[str, Any], source: str = "the record") -> "Result":
        """Read a record from JSON text or parsed JSON; raises `DataError` for anything odd."""
        try:
            found = parse_json(record) if isinstance(record, str) else record
            return stated(found, cls, VERSIONS)
        except ValueError as error:
            raise DataError(f"{source}: {error}") from error

    def save(self, folder: str | Path, embeddings: np.ndarray | None = None) -> Path:
        """Write `<id>.json`, and the embeddings of the scored rows as `<id>.npy` beside it.

        The embeddings, in the order of `scored_rows`, are what `benchmark pack` submits.
        """
        path = Path(folder) / f"{self.id}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        if embeddings is not None:
            save_embeddings(path.with_suffix(".npy"), embeddings)
        write_bytes(path, self.to_json().encode())
        return path


def load(path: str | Path) -> Result:
    """Read one record from its file."""
    return Result.from_json(read_json(Path(path)), str(path))


def _check_kind(name: str, value: Any) -> None:
    """Refuse a known score of the other kind: pages draw a number, or a table of the factors."""
    per_factor = "_per_factor" in name
    if value is None or isinstance(value, dict) == per_factor:
        return
    if per_factor or name in SCORES:
        wanted = "a table, factor by factor" if per_factor else "a number"
        raise ValueError(f"`scores.{name}` must be {wanted}; write None if not computed.")


def _even(what: str, lists: Collection[Sized]) -> None:
    if len({len(one) for one in lists}) > 1:
        raise ValueError(f"`{what}` must have lists of one length.")
