"""Nearest rows with FAISS: an IVF-HNSW index proposes candidates, exact distances decide.

The inverted lists hold four-bit codes, which FAISS compares with SIMD table look-ups several times
faster than full vectors; the candidates are then ranked by their exact distances. Where codes are
too coarse for the data (few dimensions, many rows) the lists hold the vectors themselves.
"""

import math
import os
from typing import Any, NamedTuple

import faiss
import numpy as np

from ..errors import DataError, whole

_LINKS = 16  # HNSW links per centroid
_GPU_HELP = "`pip uninstall faiss-cpu` and `pip install faiss-gpu` on a machine with an NVIDIA GPU"

# OpenMP's threads do not survive a fork: FAISS in a forked worker hangs unless it uses one thread.
if hasattr(os, "register_at_fork"):  # Windows has neither
    os.register_at_fork(after_in_child=lambda: faiss.omp_set_num_threads(1))

Found = tuple[np.ndarray, np.ndarray]  # distances and row numbers, each (n, k), nearest first


class Settings(NamedTuple):
    """How hard an IVF-HNSW index looks."""

    probes: int  # inverted lists read for a query
    ef_search: int  # beam width of the HNSW graph that finds those lists
    candidates: int  # rows ranked by their exact distance

    def harder(self, lists: int) -> "Settings":
        """Look a fifth harder, at most into all `lists`."""
        probes, ef_search, candidates = (math.ceil(1.2 * setting) for setting in self)
        return Settings(min(probes, lists), ef_search, candidates)

    def sensible(self, lists: int) -> bool:
        """Tell settings that tuning could have chosen from those that exhaust the machine."""
        return (
            1 <= self.probes <= lists
            and 1 <= self.ef_search <= 16 * lists
            and 1 <= self.candidates <= 100_000
        )


class NearestRows:
    """The rows of `points`, float32 (n, d): a search compares with every one, exactly."""

    exact = True  # whether searches compare with every row
    settings: Settings | None = None

    def __init__(self, points: np.ndarray) -> None:
        self.points = points
        self._flat: Any = None  # made when a search first needs it

    def search(self, points: np.ndarray, k: int, exclude: np.ndarray) -> Found:
        """Find the `k` nearest rows of each point other than its `exclude` row (-1: none).

        Returns:
            Distances and row numbers, each of shape (n, k), nearest first.
        """
        available = len(self.points) - int((exclude >= 0).any())
        k = whole(k, "k", 1, available, "the rows there are")
        return self._search(np.ascontiguousarray(points, dtype=np.float32), k, exclude)

    def _search(self, points: np.ndarray, k: int, exclude: np.ndarray) -> Found:
        if self._flat is None:
            self._flat = faiss.IndexFlatL2(self.points.shape[1])
            self._flat.add(self.points)
        # FAISS rounds; a few more rows than requested, ranked exactly, make up for it.
        found = self._flat.search(points, min(k + 4, len(self.points)))[1]
        return self._rank(points, found, k, exclude)

    def _rank(self, points: np.ndarray, found: np.ndarray, k: int, exclude: np.ndarray) -> Found:
        """Order candidates by exact distance and keep `k`; row -1 where there are too few."""
        # An index from disk could name rows that do not exist; treat them as not found.
        valid = (found >= 0) & (found < len(self.points)) & (found != exclude[:, None])
        rows = np.where(valid, found, -1)
        apart = self.points[rows] - points[:, None]  # (n, candidates, d)
        squares = np.where(valid, np.einsum("ncd,ncd->nc", apart, apart), np.inf)
        order = squares.argsort(axis=1, kind="stable")[:, :k]
        nearest = np.take_along_axis(squares, order, 1)
        return np.sqrt(nearest), np.take_along_axis(rows, order, 1)

    def to_gpu(self) -> None:
        """Search on the first GPU; exact search stays on the CPU."""
        if not hasattr(faiss, "StandardGpuResources"):
            raise ValueError(f"`device='cuda'` needs faiss-gpu: {_GPU_HELP}.")
        if faiss.get_num_gpus() == 0:
            raise ValueError("`device='cuda'` needs a GPU, and FAISS sees none; use 'cpu'.")

    def to_cpu(self) -> None:
        """Search on the CPU again."""

    def to_bytes(self) -> bytes:
        """Serialise what cannot be rebuilt from the points: nothing, for exact search."""
        return b""

    def describe(self) -> dict[str, Any]:
        """Describe the search as plain values."""
        return {"rows": len(self.points), "kind": "exact"}

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as bytes; whoever receives it searches on the CPU."""
        return from_bytes, (self.to_bytes(), self.points, self.settings)


class IvfRows(NearestRows):
    """The rows of `points` behind a trained IVF-HNSW `index` over them."""

    exact = False
    settings: Settings

    def __init__(self, points: np.ndarray, index: Any, settings: Settings) -> None:
        super().__init__(points)
        self._index = index  # FAISS tells its class only at run time
        self._on_gpu: Any = None
        self._gpu_process = 0  # a forked worker inherits the index and must not touch the card
        self.set(settings)

    @property
    def lists(self) -> int:
        """How many inverted lists there are."""
        return self._index.nlist

    @property
    def coded(self) -> bool:
        """Whether the lists hold codes rather than vectors."""
        return isinstance(self._index, faiss.IndexIVFPQFastScan)

    def set(self, settings: Settings) -> None:
        """Use these settings from now on."""
        self.settings = settings
        # efSearch belongs to the HNSW quantizer. On the IVF index FAISS used to ignore it, and
        # raises AttributeError today.
        self._index.nprobe = settings.probes
        if self.coded:
            self._index.implem = 10  # query by query: a tenth faster than FAISS's choice here
        _quantizer(self._index).hnsw.efSearch = settings.ef_search
        if self._on_gpu is not None:
            self._on_gpu.nprobe = settings.probes

    def _search(self, points: np.ndarray, k: int, exclude: np.ndarray) -> Found:
        # Tuned for k = 1; more neighbours need more candidates. One more, for the excluded row.
        wanted = max(self.settings.candidates, 4 * k) + 1 if self.coded else k + 1
        index = self._on_gpu if self._gpu_process == os.getpid() else self._index
        found = index.search(points, min(wanted, len(self.points)))[1]
        distances, rows = self._rank(points, found, k, exclude)
        # The lists read may hold too few rows; then only looking at all rows is right.
        short = np.flatnonzero(rows[:, -1] < 0)
        if len(short):
            distances[short], rows[short] = super()._search(points[short], k, exclude[short])
        return distances, rows

    def to_gpu(self) -> None:
        """Move the lists to the first GPU; the HNSW quantizer stays on the CPU."""
        super().to_gpu()
        if self._on_gpu is not None:
            return
        # GPUs have no four-bit lists: the same centroids, with the vectors themselves.
        plain = faiss.IndexIVFFlat(self._index.quantizer, self.points.shape[1], self.lists)
        plain.add(self.points)
        options = faiss.GpuClonerOptions()
        options.allowCpuCoarseQuantizer = True
        self._resources: Any = faiss.StandardGpuResources()
        self._on_gpu = faiss.index_cpu_to_gpu(self._resources, 0, plain, options)
        self._on_gpu.nprobe = self.settings.probes
        self._gpu_process = os.getpid()

    def to_cpu(self) -> None:
        """Search on the CPU again, and let go of the card."""
        self._on_gpu, self._resources, self._gpu_process = None, None, 0

    def to_bytes(self) -> bytes:
        """Serialise the index, without the points where it holds codes."""
        return faiss.serialize_index(self._index).tobytes()

    def describe(self) -> dict[str, Any]:
        """Describe the index as plain values."""
        codes = "4-bit codes, ranked exactly" if self.coded else "vectors"
        kind = {"rows": len(self.points), "kind": "ivf-hnsw", "lists": self.lists, "codes": codes}
        return kind | self.settings._asdict()


def from_bytes(content: bytes, points: np.ndarray, settings: Settings | None) -> NearestRows:
    """Read `to_bytes` back, over the same points; raises DataError on anything else."""
    if not content:
        return NearestRows(points)
    try:
        index: Any = faiss.deserialize_index(np.frombuffer(content, np.uint8))
        quantizer = _quantizer(index)
    except (RuntimeError, AttributeError) as error:
        raise DataError(f"FAISS cannot read it ({type(error).__name__})") from None
    if not (
        isinstance(index, faiss.IndexIVFPQFastScan | faiss.IndexIVFFlat)
        and isinstance(quantizer, faiss.IndexHNSWFlat)
        and index.metric_type == faiss.METRIC_L2
        and (index.ntotal, index.d) == points.shape
        and (quantizer.ntotal, quantizer.d) == (index.nlist, index.d)
    ):
        raise DataError("it is no IVF-HNSW index over these latents")
    if settings is None or not settings.sensible(index.nlist):
        raise DataError(f"its settings {settings} make no sense")
    return IvfRows(points, index, settings)


def build(points: np.ndarray, coded: bool) -> IvfRows:
    """Build an IVF-HNSW index over `points`; its settings are the least, still to be tuned."""
    count, dim = points.shape
    codes = f"PQ{dim}x4fs" if coded else "Flat"
    index: Any = faiss.index_factory(dim, f"IVF{list_count(count)}_HNSW{_LINKS},{codes}")
    index.cp.niter = 10
    index.cp.max_points_per_centroid = 64
    index.cp.min_points_per_centroid = 1  # FAISS prints a warning below this
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)  # threads would insert into the HNSW graph in a random order
    try:
        index.train(points)
    finally:
        faiss.omp_set_num_threads(threads)
    index.add(points)
    return IvfRows(points, index, Settings(1, 1, 1))


def codes_suffice(rows: int, dim: int) -> bool:
    """Tell whether four bits for each dimension tell most rows apart."""
    return 16.0**dim > 16 * rows


def list_count(rows: int) -> int:
    """Choose how many lists share the rows: about the square root, a power of two.

    Codes are compared so fast that finding the lists takes half the time: fewer, longer lists win.
    """
    return 2 ** round(np.log2(np.sqrt(rows)))


def _quantizer(index: Any) -> Any:
    """Get the HNSW index that finds lists, as its own class; AttributeError if there is none."""
    return faiss.downcast_index(index.quantizer)
