"""Finding rows that follow a conditional: draw z+ ~ p(. | z), then choose a row close to it.

Both ways look up rows near the draw; they differ in which one they take.

    nearest    the nearest row that is not the anchor, as in the paper
    weighted   one of the k nearest, at random, in proportion to p(row | anchor)^lambda

A nearest row is a draw plus the way to the next row, so its spread is too wide. Weighting by the
density pulls it back. lambda follows from how far rows lie apart: 1 where they are sparse beside
the conditional, 1/2 where they are dense, so that the variance served is the variance requested
whenever the data allows it (docs/pairs.md).
"""

import math

import numpy as np

from ..conditionals import Conditional, Fixed, Normal, Product
from ..errors import whole
from ..factors import varying
from ..index import Data, Index, open_index
from ..spaces import Space

NEIGHBOURS = 16  # rows that `weighted` chooses among by default
_CALIBRATION = 4096  # draws that measure a conditional's width and the rows' distances
_EVEN = 1.1  # widths that differ by less than this factor count as equal
_FIXED = 0.25  # a fixed factor's width, in units of the narrowest other: docs/pairs.md says why


class Lookup:
    """Rows of `data` that follow `conditional`, found by `nearest` or `weighted`.

    Distances are in units of the conditional's width in each factor, so that a factor that must
    stay close weighs more. Where all widths are alike this is the plain distance. A `sibling` that
    measures distances alike lends its index. `avoids` says that `look` will be told rows to avoid.
    """

    def __init__(
        self,
        data: Data,
        conditional: Conditional,
        method: str,
        k: int,
        space: Space,
        sibling: "Lookup | None" = None,
        avoids: bool = False,
    ) -> None:
        self.conditional = conditional
        self.method = method
        self.k = k if method == "weighted" else 1
        self.space = space
        self._latents = data.latents
        self._check_k(data, avoids)
        self.widths = measure_widths(data.latents, conditional, space)
        free = varying(data.latents)
        if not free.any():
            raise ValueError("`data` must have latents that differ; all its rows are alike.")
        scales = np.full(len(free), np.inf)
        scales[free] = scales_of(self.widths[free])
        even = scales[free].max() < _EVEN * scales[free].min()
        # (d,), rounded so that conditionals of the same shape share a saved index.
        ratios = np.round(scales[free].max() / scales, 3)
        self._weights = np.where(free, 1.0 if even else ratios, 0.0)
        if sibling is not None and np.array_equal(sibling._weights, self._weights):
            self.index: Index = sibling.index
        else:
            self.index = open_index(data, self._weights, None if even else self._draw)
        if method == "weighted":
            self._density = widen_fixed(conditional, float(scales.min()))
            self._power = self._calibrate()

    def look(
        self, anchors: np.ndarray, rng: np.random.Generator, avoid: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw one point for each anchor row and choose a row for it.

        Args:
            anchors: Row numbers, shape (n,); an anchor is never its own choice.
            rng: The only source of randomness.
            avoid: A further row for each anchor that must not be chosen, shape (n,).

        Returns:
            The points drawn, shape (n, d), and the rows chosen, shape (n,).
        """
        drawn = self._draw(anchors, rng)
        # (n, k), nearest first; one more where one of them may have to be avoided.
        distances, rows = self.index.search(drawn, self.k + (avoid is not None), anchors)
        if self.method == "weighted":
            # The largest of logits plus Gumbel noise is a draw in proportion to their exponentials.
            scores = self._power * self._log_density(rows, anchors) + rng.gumbel(size=rows.shape)
        else:
            scores = -distances
        if avoid is not None:
            allowed = rows != avoid[:, None]
            scores = np.maximum(scores, np.finfo(scores.dtype).min)  # of density 0: still allowed
            scores[~allowed | (allowed.cumsum(1) > self.k)] = -np.inf  # the k nearest allowed stay
        return drawn, rows[np.arange(len(rows)), scores.argmax(1)]

    def weigh(self, apart: np.ndarray) -> np.ndarray:
        """Tell the length of differences between latents, shape (n, d), as the index sees it."""
        return np.linalg.norm(apart * self._weights, axis=1)

    def _draw(self, anchors: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return self.conditional.sample(self._latents[anchors], rng, self.space)

    def _log_density(self, rows: np.ndarray, anchors: np.ndarray) -> np.ndarray:
        """Tell log p(row | anchor) of each anchor's rows, (n, k), computed as n k pairs."""
        positives = self._latents[rows.ravel()]
        given = np.repeat(self._latents[anchors], rows.shape[1], axis=0)
        return self._density.log_density(positives, given, self.space).reshape(rows.shape)

    def _calibrate(self) -> float:
        """Find lambda from the rows' mean squared distance to draws, relative to the draws' own."""
        rng = np.random.default_rng(0)
        anchors = rng.integers(len(self._latents), size=_CALIBRATION // 4)
        drawn = self._draw(anchors, rng)
        distances, rows = self.index.search(drawn, self.k, anchors)
        self._log_density(rows[:1], anchors[:1])  # refuse a conditional with no density right here
        requested = np.square(self.weigh(drawn - self._latents[anchors])).mean()
        return density_power(float(np.square(distances).mean() / max(requested, 1e-12)))

    def _check_k(self, data: Data, avoids: bool) -> None:
        labels = np.zeros(len(data.latents)) if data.classes is None else data.classes
        smallest = int(np.unique(labels, return_counts=True)[1].min())
        most = smallest - 1 - avoids
        if most < 1:
            raise ValueError(
                f"`data` must have {2 + avoids} rows of each class to choose from, got {smallest}."
            )
        if self.method == "weighted":
            whole(self.k, "k", 1, most, "the rows that an anchor can meet")


def density_power(ratio: float) -> float:
    """Choose the power of the density that makes the variance served the variance requested.

    Let the draw have variance 1 around the anchor and its neighbours variance `ratio` around the
    draw. Neighbours weighted by a normal density to the power L have mean c times the draw and
    variance c `ratio`, where 1 / c = 1 + L `ratio`; so in all c^2 + c `ratio`, which is 1 for
    1 / c = (ratio + sqrt(ratio^2 + 4)) / 2.
    """
    if ratio < 1e-9:
        return 0.5
    return ((ratio + math.hypot(ratio, 2)) / 2 - 1) / ratio


def measure_widths(latents: np.ndarray, conditional: Conditional, space: Space) -> np.ndarray:
    """Measure the spread that a conditional requests in each factor, (d,), around rows."""
    rng = np.random.default_rng(0)
    anchors = latents[rng.integers(len(latents), size=_CALIBRATION)]
    return np.sqrt(np.square(conditional.sample(anchors, rng, space) - anchors).mean(0))


def scales_of(widths: np.ndarray) -> np.ndarray:
    """Turn widths into units of distance; fixed factors get a quarter of the narrowest other."""
    free = widths > 1e-6
    if not free.any():
        return np.ones_like(widths)
    return np.where(free, widths, _FIXED * widths[free].min())


def widen_fixed(conditional: Conditional, scale: float) -> Conditional:
    """Give the fixed factors of a product a narrow normal, so that rows have a density at all."""
    if not isinstance(conditional, Product):
        return conditional

    def widen(part: Conditional) -> Conditional:
        return Normal(scale) if isinstance(part, Fixed) else part

    parts = {name: widen(part) for name, part in conditional.parts.items()}
    return Product(parts, widen(conditional.others), conditional.factors)
