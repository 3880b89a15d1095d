"""The look-up index of a data set: built once, saved beside the data, loaded in milliseconds.

    index = open_index(data)                      # loads it, or builds and saves it
    distances, rows = index.search(points, k=1)   # points in latent units

Distances may weigh factors differently; a weight of 0 leaves a factor out. Where the data has
classes, each class has its own part and a search stays inside one class.
"""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..errors import DataError, choose
from ..factors import Factor, varying
from ..files import sha256, write_bytes
from ..outside import is_version_1, read_sealed, write_sealed
from .faiss_ivf import Found, NearestRows, Settings, from_bytes
from .parts import Draw, build_part, merge_certificates, read_bytes
from .tuning import Certificate, Queries, draws_near

FORMAT = "ident3d-index"
VERSIONS = (1, 2)  # 1 had no seal
RECALL = 0.999
DEVICES = {"cpu": False, "cuda": True}

Weights = Sequence[float] | np.ndarray  # one for each factor
Draws = Callable[[np.ndarray, np.random.Generator], np.ndarray]
Members = np.ndarray | slice  # rows of a class, sorted; a slice of all where there are no classes


class Data(Protocol):
    """What an index needs of a data set."""

    # Properties: to be read, not assigned.
    @property
    def latents(self) -> np.ndarray:
        """Unit latents, (n, d)."""

    @property
    def factors(self) -> Sequence[Factor]:
        """The factor of each column."""

    @property
    def fingerprint(self) -> str:
        """Digest that tells data sets apart."""

    @property
    def classes(self) -> np.ndarray | None:
        """Class of each row, (n,), if there are any."""

    @property
    def path(self) -> Path | None:
        """Folder beside which an index is kept; None to keep it in memory."""


class Index:
    """Nearest rows of a data set, by the weighted distance between latents."""

    def __init__(
        self,
        weights: np.ndarray,
        parts: dict[int, NearestRows],
        classes: np.ndarray | None,
        certificate: Certificate,
        stem: str,
    ) -> None:
        self.weights, self.certificate, self._stem = weights, certificate, stem
        self._parts, self._classes, self._members = parts, classes, _members(classes)

    @classmethod
    def build(
        cls,
        latents: np.ndarray,
        weights: Weights | None = None,
        classes: np.ndarray | None = None,
        *,
        recall: float = RECALL,
        draws: Draws | None = None,
    ) -> "Index":
        """Build an index and tune it until `recall` is reached.

        Args:
            latents: Unit latents, shape (n, d).
            weights: Weight of each factor in a distance; 0 leaves it out. By default 1, and 0 for
                factors that all rows have alike.
            classes: Class of every row, shape (n,); searches stay inside one class.
            recall: Share of look-ups that must find the nearest row.
            draws: Makes the queries to tune for, from anchor rows; noise of many widths by default.
        """
        if not 0.5 <= recall <= 1:
            raise ValueError(f"`recall` must lie in [0.5, 1], got {recall}.")
        if len(latents) < 2:
            raise ValueError(f"`latents` must hold at least 2 rows to look up, got {len(latents)}.")
        checked = _checked_weights(weights, latents)
        points = _scale(latents, checked)
        parts, certificates = {}, []
        for label, members in _members(classes).items():
            inside = points[members]
            if len(inside) < 2:
                raise ValueError(f"`classes` must have 2 rows each to look up; {label} has one.")
            parts[label], certificate = build_part(
                inside, recall, _drawing(draws, members, checked)
            )
            certificates.append(certificate)
        merged = merge_certificates(certificates, [len(part.points) for part in parts.values()])
        return cls(checked, parts, classes, merged, _stem(checked, latents))

    def search(self, points: np.ndarray, k: int = 1, exclude: np.ndarray | None = None) -> Found:
        """Find the `k` rows nearest to each point.

        Args:
            points: Latents, shape (n, d).
            k: How many rows for each point.
            exclude: Row of each point's anchor, shape (n,): never the answer. Where the data has
                classes it is required, and the answers have the anchor's class.

        Returns:
            Weighted distances and row numbers, each of shape (n, k), nearest first.
        """
        points = _scale(points, self.weights)
        if self._classes is None:
            none = np.full(len(points), -1)
            return self._parts[0].search(points, k, none if exclude is None else exclude)
        if exclude is None:
            raise ValueError("`exclude` must name the anchors' rows: their classes are searched.")
        distances = np.empty((len(points), k), np.float32)
        rows = np.empty((len(points), k), np.int64)
        labels = self._classes[exclude]
        for label in np.unique(labels).tolist():
            chosen, members = labels == label, np.asarray(self._members[label])
            # `members` is sorted, so this turns row numbers into positions among them.
            within = np.asarray(np.searchsorted(members, exclude[chosen]))
            distances[chosen], found = self._parts[label].search(points[chosen], k, within)
            rows[chosen] = members[found]
        return distances, rows

    def to(self, device: str) -> "Index":
        """Search on `"cpu"` or `"cuda"`; returns the index itself."""
        on_gpu = choose(DEVICES, device, "device")
        for part in self._parts.values():
            if on_gpu:
                part.to_gpu()
            else:
                part.to_cpu()
        return self

    @property
    def exact(self) -> bool:
        """Whether every search compares with all rows."""
        return all(part.exact for part in self._parts.values())

    def summary(self) -> dict[str, Any]:
        """Describe the index and its certificate as plain values."""
        parts = self._parts
        return {
            "kind": "exact" if self.exact else "ivf-hnsw",
            "rows": sum(len(part.points) for part in parts.values()),
            "parts": [{"class": label, **part.describe()} for label, part in parts.items()],
            "certificate": asdict(self.certificate),
        }

    def save(self, folder: Path, fingerprint: str) -> Path:
        """Write `index.faiss`, then `index.json`, each atomically, and return the latter's path."""
        path = Path(folder) / f"{self._stem}.json"
        content, parts = b"", []
        for label, part in self._parts.items():
            piece = part.to_bytes()
            content += piece
            parts.append({"class": label, "bytes": len(piece), "settings": part.settings})
        write_bytes(path.with_suffix(".faiss"), content)
        record = {
            "format": FORMAT,
            "version": VERSIONS[-1],
            "fingerprint": fingerprint,
            "weights": self.weights.tolist(),
            "bytes": len(content),
            "sha256": sha256(content),
            "parts": parts,
            "certificate": asdict(self.certificate),
        }
        write_sealed(path, record, "seal")
        return path

    @classmethod
    def load(cls, data: Data, weights: Weights | None = None) -> "Index":
        """Read the index saved beside `data`; raises DataError unless it is whole and of it.

        The file's size and digest are checked before FAISS sees a byte of it.
        """
        if data.path is None:
            raise DataError("The data is in memory alone; `Index.build` makes an index of it.")
        checked = _checked_weights(weights, data.latents)
        path = Path(data.path) / f"{_stem(checked, data.latents)}.json"
        try:
            return cls._read(path, data, checked)
        except FileNotFoundError:
            raise DataError(f"{path} is missing; `ident3d index {data.path}` builds it.") from None
        except DataError as error:
            reason = str(error)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            reason = f"{path} is damaged ({type(error).__name__})"
        raise DataError(f"{reason}; `ident3d index` rebuilds it.")

    @classmethod
    def _read(cls, path: Path, data: Data, weights: np.ndarray) -> "Index":
        record = read_sealed(path, "seal", is_version_1)
        if record["format"] != FORMAT or record["version"] not in VERSIONS:
            raise DataError(f"{path} has another format or version")
        if record["fingerprint"] != data.fingerprint or record["weights"] != weights.tolist():
            raise DataError(f"{path} is the index of other data")
        content = read_bytes(path.with_suffix(".faiss"), record["bytes"], record["sha256"])
        members = _members(data.classes)
        if [part["class"] for part in record["parts"]] != list(members):
            raise DataError(f"{path} has other classes than the data")
        points = _scale(data.latents, weights)
        parts, start = {}, 0
        for part, rows in zip(record["parts"], members.values(), strict=True):
            piece = content[start : (start := start + part["bytes"])]
            settings = None if part["settings"] is None else Settings(*map(int, part["settings"]))
            try:
                parts[part["class"]] = from_bytes(piece, points[rows], settings)
            except DataError as error:
                raise DataError(f"{path.with_suffix('.faiss')} is unusable: {error}") from None
        certificate = Certificate(**record["certificate"])
        return cls(weights, parts, data.classes, certificate, path.stem)


def open_index(data: Data, weights: Weights | None = None, draws: Draws | None = None) -> Index:
    """Load the index beside `data`; where there is none, or one of other data, build and save it.

    On a read-only or full disk, for data that is not on disk, and where search is exact anyway, it
    stays in memory.
    """
    with contextlib.suppress(DataError, OSError):  # also one that may not be read
        return Index.load(data, weights)
    index = Index.build(data.latents, weights, data.classes, draws=draws)
    if data.path is not None and not index.exact:
        with contextlib.suppress(OSError):
            index.save(data.path, data.fingerprint)
    return index


def _drawing(draws: Draws | None, members: Members, weights: np.ndarray) -> Draw:
    """Make queries for one part; the seed is fixed, so that equal data gives an equal index."""

    def draw(points: np.ndarray, n: int, stream: int) -> Queries:
        rng = np.random.default_rng([0x1D3D, stream])
        if draws is None:
            return draws_near(points, n, rng)
        rows = rng.integers(len(points), size=n)
        anchors = rows if isinstance(members, slice) else members[rows]
        return Queries(_scale(draws(anchors, rng), weights), rows)

    return draw


def _members(classes: np.ndarray | None) -> dict[int, Members]:
    """Row numbers of each class, sorted; one part with all rows where there are no classes."""
    if classes is None:
        return {0: slice(None)}
    return {int(label): np.flatnonzero(classes == label) for label in np.unique(classes)}


def _scale(latents: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weigh the factors and drop those of weight 0; Euclidean distance does the rest."""
    latents = np.asarray(latents)
    if latents.ndim != 2 or latents.shape[1] != len(weights):
        raise ValueError(f"`points` must have shape (n, {len(weights)}), got {latents.shape}.")
    used = weights > 0
    return np.ascontiguousarray(latents[:, used] * weights[used], dtype=np.float32)


def _default_weights(latents: np.ndarray) -> np.ndarray:
    weights = varying(latents).astype(np.float64)  # others tell no rows apart
    return weights if weights.any() else np.ones_like(weights)


def _checked_weights(weights: Weights | None, latents: np.ndarray) -> np.ndarray:
    if weights is None:
        return _default_weights(latents)
    checked = np.asarray(weights, dtype=np.float64)
    if checked.shape != latents.shape[1:]:
        raise ValueError(f"`weights` must hold one number for each of {latents.shape[1]} factors.")
    if not (np.isfinite(checked).all() and (checked >= 0).all() and checked.any()):
        raise ValueError("`weights` must be finite, at least 0, and not all 0.")
    return checked


def _stem(weights: np.ndarray, latents: np.ndarray) -> str:
    """Name the files: `index`, or with a digest of weights that are not the default ones."""
    if np.array_equal(weights, _default_weights(latents)):
        return "index"
    return f"index-{sha256(repr(weights.tolist()).encode())[:8]}"
