"""Positive pairs: anchors, and for each a positive that follows a conditional p(z+ | z).

    pairs = Pairs(data, Normal(0.1), seed=0)
    batch = pairs.batch(512)     # batch.anchors, batch.positives: rows, latents, images

Anchors are drawn uniformly from the split's rows, whatever the method (by time: from those that a
frame follows): methods differ in the positive alone. Rows in, rows out; images are read at the
very end. `ident3d audit` tells how closely the pairs served follow the conditional requested.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from ..conditionals import ByTime, Conditional, Fixed, parse
from ..dataset import Dataset, PairedRows
from ..errors import choose, whole
from ..spaces import UNIT_BOX, Space
from ._candidates import AllImages, PairData, read_images
from .batches import Batch, View
from .buffers import Allocate, fresh
from .epochs import Epochs
from .later import Later
from .lookup import NEIGHBOURS, Lookup, measure_widths

METHODS = {
    "nearest": "the row nearest to a draw, as in the paper",
    "weighted": "one of the k rows nearest to a draw, by the conditional's density",
    "exact": "rendered positives",
    "augmented": "the anchor's own row; a transform makes the difference",
    "time": "a later frame of the anchor's sequence",
}
LOOKUPS = ("nearest", "weighted")
CANDIDATES = {
    "rows": "the split's rows",
    "all": "the split's rows, and their rendered positives as rows n to 2n - 1",
}


class Rows(NamedTuple):
    """The row numbers of a batch.

    An exact positive has its anchor's number i, or n + i where the candidates are "all".
    """

    anchors: np.ndarray
    positives: np.ndarray
    negatives: np.ndarray | None


class Pairs:
    """Batches of positive pairs from a data set.

    Args:
        data: What `ident3d.load` gives, or anything with its attributes.
        conditional: p(z+ | z), or its text form; None for the one that was rendered, and for
            augmented pairs.
        seed: Batch number b of `batch` depends on `(seed, b)` alone.
        method: One of `METHODS`; by default exact where positives were rendered for this
            conditional, time for `ByTime`, else nearest.
        candidates: Which images look-ups choose among, one of `CANDIDATES`. With "all" they are
            the images that exact pairs have, too, and the index is built in memory.
        k: How many rows `weighted` chooses among.
        negatives: A wider conditional, or its text form: each anchor then gets hard negatives,
            looked up, and never the anchor or its positive.
        negatives_per_anchor: How many.
        negatives_method: "nearest" or "weighted"; by default as for positives that are looked up,
            else nearest.
        space: Where the latents live.
        device: Where the index lives, `"cpu"` or `"cuda"`.
    """

    def __init__(
        self,
        data: Dataset | PairData,  # pyright sees no protocol in a class of cached properties
        conditional: Conditional | str | None,
        seed: int,
        *,
        method: str | None = None,
        candidates: str = "rows",
        k: int = NEIGHBOURS,
        negatives: Conditional | str | None = None,
        negatives_per_anchor: int = 1,
        negatives_method: str | None = None,
        space: Space = UNIT_BOX,
        device: str = "cpu",
    ) -> None:
        choose(CANDIDATES, candidates, "candidates")
        self.data = data
        self.seed = whole(seed, "seed", 0)
        self.conditional = as_conditional(data, conditional, method)
        self.method = choose_method(data, self.conditional, method)
        self.candidates = candidates
        self.k = whole(k, "k")
        self.negatives_per_anchor = whole(negatives_per_anchor, "negatives_per_anchor")
        self.space = space
        looked_up, exact = self.method in LOOKUPS, self.method == "exact"
        pool: Dataset | PairData | AllImages = data
        if candidates == "all" and data.pairs is not None:
            pool = AllImages(data, data.pairs)
        rendered = data.pairs if exact and pool is data else None
        self._sources = (pool, rendered or pool, pool)  # of anchors, positives, negatives
        self._shift = len(data.latents) if exact and pool is not data else 0
        # Whether a positive is a candidate other than its anchor, which no look-up returns anyway.
        self._apart = looked_up or self._shift > 0
        self.anchors = np.arange(len(data.latents))  # rows that may be anchors
        self._later: Later | None = None
        if isinstance(self.conditional, ByTime):
            self._later = Later(_sequences(data), self.conditional.most)
            self.anchors = self._later.anchors
        self._lookup: Lookup | None = None
        self._hard: Lookup | None = None
        if looked_up:
            self._lookup = Lookup(pool, self.conditional, self.method, k, space)
            self._lookup.index.to(device)
        if negatives is not None:
            if self._later is not None:
                raise ValueError("`negatives` must be None: pairs by time have no hard negatives.")
            way = negatives_method or (self.method if looked_up else "nearest")
            choose(dict.fromkeys(LOOKUPS), way, "negatives_method")
            wide = as_conditional(data, negatives)
            self._hard = Lookup(pool, wide, way, k, space, self._lookup, self._apart)
            self._hard.index.to(device)
            narrow = measure_widths(data.latents, self.conditional, space)
            if self._hard.widths.mean() <= narrow.mean():
                raise ValueError(
                    f"`negatives` must be wider than `conditional`, {self.conditional}; got {wide}."
                )
        self._batches = 0

    def batch(self, n: int) -> Batch:
        """Draw the next `n` pairs, images included."""
        rng = np.random.default_rng([self.seed, self._batches])
        self._batches += 1
        return self.gather(self.rows_for(self._anchors(n, rng), rng))

    def epochs(self, batch_size: int, *, rank: int = 0, world_size: int = 1) -> Epochs:
        """Return epochs of batches: those of `PairLoader`, as numpy arrays and without torch.

        for anchors, positives in pairs.epochs(512): ...      # one epoch, resumable
        """
        return Epochs(self, batch_size, rank=rank, world_size=world_size)

    def draw(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw `n` anchor rows, uniformly, and the rows of their positives."""
        rows = self.rows_for(self._anchors(n, rng), rng)
        return rows.anchors, rows.positives

    def rows_for(self, anchors: np.ndarray, rng: np.random.Generator) -> Rows:
        """Draw a positive, and hard negatives where requested, for each anchor row."""
        if self._later is not None:
            positives = self._later.rows(anchors, rng)
        elif self._lookup is None:
            positives = anchors + self._shift
        else:
            positives = self._lookup.look(anchors, rng)[1]
        if self._hard is None:
            return Rows(anchors, positives, None)
        each, avoid = (np.repeat(rows, self.negatives_per_anchor) for rows in (anchors, positives))
        negatives = self._hard.look(each, rng, avoid if self._apart else None)[1]
        return Rows(anchors, positives, negatives)

    def gather(self, rows: Rows, allocate: Allocate = fresh) -> Batch:
        """Read the latents of a batch's rows, and their images into memory from `allocate`."""
        views = [
            (source, numbers, allocate)
            for source, numbers in zip(self._sources, rows, strict=True)
            if numbers is not None
        ]
        # Reading releases the interpreter's lock, so the views are read side by side: the first
        # one here, as a thread takes a while to start.
        with ThreadPoolExecutor(len(views) - 1) as pool:
            others = [pool.submit(_view, *view) for view in views[1:]]
            return Batch(_view(*views[0]), *(other.result() for other in others))

    def settings(self) -> dict[str, Any]:
        """Say, as plain values, all that decides which pairs are served."""
        hard = self._hard
        return {
            "seed": self.seed,
            "conditional": str(self.conditional),
            "method": self.method,
            "candidates": self.candidates,
            "k": self.k,
            "space": str(self.space),
            "negatives": None if hard is None else f"{hard.conditional}, {hard.method}",
            "negatives_per_anchor": 0 if hard is None else self.negatives_per_anchor,
            "data": self.data.fingerprint,
        }

    def __repr__(self) -> str:
        negatives = "" if self._hard is None else f", negatives {self._hard.conditional}"
        return (
            f"Pairs({len(self.data.latents):,} rows, {self.conditional}, {self.method}"
            f"{negatives}, seed={self.seed})"
        )

    def _anchors(self, n: int, rng: np.random.Generator) -> np.ndarray:
        return self.anchors[rng.integers(len(self.anchors), size=whole(n, "n"))]


def as_conditional(
    data: PairData, conditional: Conditional | str | None, method: str | None = None
) -> Conditional:
    """Read a conditional, or its text form, or None for the one that was rendered."""
    if conditional is None and method == "augmented":
        conditional = Fixed()
    if conditional is None:
        if data.pairs is None:
            raise ValueError("`conditional` is needed: this data has no rendered pairs.")
        conditional = data.pairs.conditional
        if isinstance(_rendered(data), str):
            raise ValueError(
                f"`conditional` is needed: this data's own, {conditional}, is not known here; "
                "pass it as an object."
            )
    if isinstance(conditional, str):
        conditional = parse(conditional, data.factors)
    if not isinstance(conditional, Conditional):
        raise ValueError(
            "`conditional` must be a conditional such as `Normal(0.3)`, or its text 'normal:0.3'; "
            f"got {conditional!r}."
        )
    conditional.check(data.latents.shape[1])
    return conditional


def choose_method(data: PairData, conditional: Conditional, method: str | None) -> str:
    """Check a method against what the data offers; None for the default."""
    rendered = _rendered(data)
    # Texts are compared too: a width with more digits than are written was rendered as such.
    offered = rendered == conditional or str(rendered) == str(conditional)
    if method is None:
        by_time = "time" if isinstance(conditional, ByTime) else "nearest"
        return "exact" if offered else by_time
    choose(METHODS, method, "method")
    if (method == "time") != isinstance(conditional, ByTime):
        raise ValueError(
            f"`method` 'time' and the conditional time:FRAMES go together; got {method!r} "
            f"and {conditional}."
        )
    if method == "exact" and rendered is None:
        raise ValueError(
            "`method` 'exact' needs rendered positives, and this data has none; "
            "`ident3d render --pairs` makes them."
        )
    if method == "exact" and not offered:
        raise ValueError(
            f"`method` 'exact' serves the rendered conditional {rendered}, not {conditional}; "
            "use 'nearest' or 'weighted'."
        )
    if method == "augmented" and not isinstance(conditional, Fixed):
        raise ValueError(
            f"`method` 'augmented' serves the anchor's own row and cannot follow {conditional}; "
            "leave `conditional` None."
        )
    return method


def _rendered(data: PairData) -> Conditional | str | None:
    """Read the conditional that was rendered; its text alone where somebody wrote it elsewhere."""
    if data.pairs is None:
        return None
    try:
        return parse(data.pairs.conditional, data.factors)
    except ValueError:
        return data.pairs.conditional


def _sequences(data: Dataset | PairData) -> np.ndarray:
    sequences = getattr(data, "sequences", None)  # of what a caller made, there may be none
    if sequences is None:
        raise ValueError("`conditional` time:FRAMES needs sequences, and this data has none.")
    return sequences


def _view(source: PairData | PairedRows | AllImages, rows: np.ndarray, allocate: Allocate) -> View:
    return View(rows, source.latents[rows], read_images(source.images, rows, allocate))
