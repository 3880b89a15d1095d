"""Positive pairs: anchors, and for each a positive that follows a conditional p(z+ | z).

    pairs = Pairs(data, Normal(0.1), seed=0)
    batch = pairs.batch(512)     # batch.anchors, batch.positives: rows, latents, images

Rows in, rows out; images are read at the very end. `ident3d audit` tells how closely the pairs
served follow the conditional asked for.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol

import numpy as np

from ..conditionals import Conditional, parse
from ..errors import choose
from ..index import Data
from ..spaces import UNIT_BOX, Space
from .lookup import NEIGHBOURS, Lookup, measure_widths

METHODS = {
    "nearest": "the row nearest to a draw, as in the paper",
    "weighted": "one of the k rows nearest to a draw, by the conditional's density",
    "exact": "rendered positives",
}


class View(NamedTuple):
    """Some rows of a data set."""

    rows: np.ndarray  # int64 (n,)
    latents: np.ndarray  # float32 (n, d)
    images: np.ndarray  # uint8 (n, H, W, 3)


class Batch(NamedTuple):
    """Anchors, their positives, and their hard negatives where those were asked for."""

    anchors: View
    positives: View
    negatives: View | None


class Rows(NamedTuple):
    """The row numbers of a batch. With exact pairs a positive has its anchor's number."""

    anchors: np.ndarray
    positives: np.ndarray
    negatives: np.ndarray | None


class PairData(Data, Protocol):
    """What pairs need of a data set."""

    images: np.ndarray
    pairs: object | None


class Pairs:
    """Draws batches of positive pairs from a data set.

    Args:
        data: What `ident3d.load` gives, or anything with its attributes.
        conditional: p(z+ | z), or its text form; None for the one that was rendered.
        seed: Batch number b of `batch` depends on `(seed, b)` alone.
        method: `"nearest"`, `"weighted"` or `"exact"`; by default exact where positives were
            rendered for this conditional, else nearest.
        k: How many rows `weighted` chooses among.
        negatives: A wider conditional, or its text form: `negatives` then holds one hard negative
            for each anchor.
        space: Where the latents live.
        device: Where the index lives, `"cpu"` or `"cuda"`.
    """

    def __init__(
        self,
        data: PairData,
        conditional: Conditional | str | None,
        seed: int,
        *,
        method: str | None = None,
        k: int = NEIGHBOURS,
        negatives: Conditional | str | None = None,
        space: Space = UNIT_BOX,
        device: str = "cpu",
    ) -> None:
        if not isinstance(seed, int | np.integer) or seed < 0:
            raise ValueError(f"`seed` must be an integer of at least 0, got {seed!r}.")
        self.data = data
        self.seed = int(seed)
        self.conditional = as_conditional(data, conditional)
        self.method = choose_method(data, self.conditional, method)
        self._lookup = self._hard = None
        if self.method != "exact":
            self._lookup = Lookup(data, self.conditional, self.method, k, space)
            self._lookup.index.to(device)
        if negatives is not None:
            way = "nearest" if self.method == "exact" else self.method
            wide = as_conditional(data, negatives)
            self._hard = Lookup(data, wide, way, k, space, self._lookup)
            self._hard.index.to(device)
            self._check_wider(space)
        self._batches = 0

    def batch(self, n: int) -> Batch:
        """Draw the next `n` pairs, images included."""
        rng = np.random.default_rng([self.seed, self._batches])
        self._batches += 1
        anchors = rng.integers(len(self.data.latents), size=_count(n))
        return self.gather(self.rows_for(anchors, rng))

    def draw(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw `n` anchor rows, uniformly, and the rows of their positives."""
        anchors = rng.integers(len(self.data.latents), size=_count(n))
        return anchors, self.rows_for(anchors, rng).positives

    def rows_for(self, anchors: np.ndarray, rng: np.random.Generator) -> Rows:
        """Draw a positive, and a hard negative where asked for, for each anchor row."""
        positives = anchors if self._lookup is None else self._lookup.look(anchors, rng)[1]
        if self._hard is None:
            return Rows(anchors, positives, None)
        return Rows(anchors, positives, self._hard.look(anchors, rng, avoid=positives)[1])

    def gather(self, rows: Rows) -> Batch:
        """Read the latents and images of a batch's rows."""
        positives = self.data if self._lookup is not None else self.data.pairs
        sources = [self.data, positives, self.data][: 2 + (rows.negatives is not None)]
        # Reading releases the interpreter's lock, so the views are read side by side.
        with ThreadPoolExecutor(len(sources)) as pool:
            views = list(pool.map(_view, sources, rows))
        return Batch(*views) if rows.negatives is not None else Batch(*views, None)

    def __repr__(self) -> str:
        negatives = "" if self._hard is None else f", negatives {self._hard.conditional}"
        return (
            f"Pairs({len(self.data.latents):,} rows, {self.conditional}, {self.method}"
            f"{negatives}, seed={self.seed})"
        )

    def _check_wider(self, space: Space) -> None:
        asked = measure_widths(self.data.latents, self.conditional, space).mean()
        if self._hard.widths.mean() <= asked:
            raise ValueError(
                f"`negatives` must be wider than the conditional {self.conditional}, "
                f"got {self._hard.conditional}."
            )


def as_conditional(data: PairData, conditional: Conditional | str | None) -> Conditional:
    """Read a conditional, or its text form, or None for the one that was rendered."""
    if conditional is None:
        if data.pairs is None:
            raise ValueError("`conditional` is needed: this data has no rendered pairs.")
        conditional = data.pairs.conditional
    if isinstance(conditional, str):
        conditional = parse(conditional, data.factors)
    conditional.check(data.latents.shape[1])
    return conditional


def choose_method(data: PairData, conditional: Conditional, method: str | None) -> str:
    """Check a method against what the data offers; None for the default."""
    rendered = None if data.pairs is None else str(parse(data.pairs.conditional, data.factors))
    if method is None:
        return "exact" if rendered == str(conditional) else "nearest"
    choose(METHODS, method, "method")
    if method == "exact" and rendered is None:
        raise ValueError(
            "`method` 'exact' needs rendered positives, and this data has none; "
            "`ident3d render --pairs` makes them."
        )
    if method == "exact" and rendered != str(conditional):
        raise ValueError(
            f"`method` 'exact' serves the rendered conditional {rendered}, not {conditional}; "
            "use 'nearest' or 'weighted'."
        )
    return method


def _view(source: PairData, rows: np.ndarray) -> View:
    return View(rows, source.latents[rows], source.images[rows])


def _count(n: int) -> int:
    if n < 1:
        raise ValueError(f"`n` must be at least 1, got {n}.")
    return int(n)
