"""The audit: the pairs that are served against those requested.

Requested are draws of the conditional itself; served are the positives that a method gives instead.
Both are measured as differences z+ - z. A look-up can only serve rows there are, so it serves a
wider spread than requested; how much wider depends on how far apart the rows lie.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import ks_2samp, wasserstein_distance

from ..conditionals import Conditional
from ..dataset import Dataset
from ..errors import choose, whole
from ..factors import varying
from ..spaces import UNIT_BOX, Space
from .lookup import NEIGHBOURS, Lookup
from .pairs import LOOKUPS, PairData, as_conditional, choose_method

AUDITED = (*LOOKUPS, "exact")
_WIDEST = np.sqrt(2 / 3)  # spread of differences of uniform draws from [-1, 1]: no pair needs more
TOLERANCE = 1.1  # a spread served within this factor of the one requested is called faithful


@dataclass(frozen=True)
class FactorAudit:
    """One factor under one method: spreads are root mean squares of z+ - z."""

    factor: str
    method: str
    requested: float
    served: float
    ratio: float | None  # served / requested; None for a fixed factor
    wasserstein: float  # earth mover's distance between the differences requested and served
    ks: float  # Kolmogorov-Smirnov distance between them


@dataclass(frozen=True)
class MethodAudit:
    """One method over all factors that vary and are not fixed."""

    method: str
    requested: float
    served: float
    ratio: float | None
    on_anchor: float | None  # share of draws whose nearest row is the anchor itself
    distance: float  # median distance from the draw to the row served
    wasserstein: float  # mean over factors
    ks: float
    k: int | None = None  # how many rows `weighted` chose among


@dataclass(frozen=True)
class Audit:
    """What was measured; `advice()` says it in sentences."""

    rows: int
    dim: int  # factors that vary
    conditional: str
    pairs: int
    methods: tuple[MethodAudit, ...]
    factors: tuple[FactorAudit, ...]
    differences: dict[str, np.ndarray]  # "requested" and each method: (pairs, factors that vary)

    def to_record(self) -> dict[str, Any]:
        """Give the plain JSON form."""
        return {
            "rows": self.rows,
            "conditional": self.conditional,
            "pairs": self.pairs,
            "advice": self.advice(),
            "methods": [asdict(method) for method in self.methods],
            "factors": [asdict(factor) for factor in self.factors],
        }

    def advice(self) -> list[str]:
        """Say how far the pairs served are from those requested, and what would help."""
        lookups = [method for method in self.methods if method.method != "exact"]
        lines = [_verdict(self.conditional, method) for method in self.methods]
        lines += [
            f"weighted chose among {method.k} rows, as many as the smallest class has beside an "
            f"anchor; `Pairs` does so with k={method.k}."
            for method in self.methods
            if method.k is not None and method.k < NEIGHBOURS
        ]
        worst = max(lookups, key=lambda method: method.ratio or 0, default=None)
        if worst is None or worst.ratio is None or worst.ratio <= TOLERANCE:
            return lines
        if worst.on_anchor is not None and worst.on_anchor > 0.05:
            lines.append(
                f"{worst.on_anchor:.1%} of the draws lie closest to their own anchor: "
                "the rows are too far apart to follow this conditional."
            )
        # A row adds its own distance to a draw's: served^2 = requested^2 + gap^2, and the gap
        # shrinks with the d-th root of the number of rows.
        gap = np.sqrt(max(worst.served**2 - worst.requested**2, 0))
        allowed = np.sqrt(TOLERANCE**2 - 1)  # gap / requested at which the ratio is TOLERANCE
        rows = self.rows * (gap / (allowed * worst.requested)) ** self.dim
        wider = (
            f", or, with the rows there are, a conditional with a spread of about "
            f"{gap / allowed:.2f} or more"
            if gap / allowed < _WIDEST
            else ""
        )
        return [
            *lines,
            "To fix it, serve rendered positives, which have no such error: method 'exact', once "
            f"`ident3d render OUT --pairs {self.conditional}` has made them. Look-ups by "
            f"'{worst.method}' would need about {rows:.0e} rows to come within "
            f"{TOLERANCE - 1:.0%}{wider}.",
        ]


def audit(
    data: Dataset | PairData,
    conditional: Conditional | str | None,
    methods: Sequence[str] | None = None,
    *,
    pairs: int = 20_000,
    seed: int = 0,
    space: Space = UNIT_BOX,
) -> Audit:
    """Compare what `conditional` requests with what each method serves.

    Args:
        data: What `ident3d.load` gives; only its latents are read.
        conditional: As for `Pairs`; None for the one that was rendered.
        methods: Some of `AUDITED`; by default all that the data and the conditional allow.
        pairs: How many pairs to draw.
        seed: For the draws.
        space: Where the latents live.
    """
    whole(pairs, "pairs", 2)
    conditional = as_conditional(data, conditional)
    free = np.flatnonzero(varying(data.latents))
    anchors = np.random.default_rng([seed, 0]).integers(len(data.latents), size=pairs)
    start = data.latents[anchors].astype(np.float64)
    drawn = conditional.sample(start, np.random.default_rng([seed, 1]), space)
    differences = {"requested": (drawn - start)[:, free]}
    measured: list[MethodAudit] = []
    factors: list[FactorAudit] = []
    for method, lookup in _set_up(data, conditional, methods, space).items():
        rng = np.random.default_rng([seed, 2])
        served, on_anchor, distance = _serve(data, lookup, anchors, rng)
        differences[method] = (served - start)[:, free]
        own = [
            _factor_audit(data.factors[column].name, method, *both)
            for column, *both in zip(
                free, differences["requested"].T, differences[method].T, strict=True
            )
        ]
        factors += own
        k = lookup.k if lookup is not None and method == "weighted" else None
        measured.append(_summary(method, own, on_anchor, distance, k))
    return Audit(
        len(data.latents), len(free), str(conditional), pairs,
        tuple(measured), tuple(factors), differences,
    )  # fmt: skip


def _set_up(
    data: PairData, conditional: Conditional, methods: Sequence[str] | None, space: Space
) -> dict[str, Lookup | None]:
    """Set up the methods; by default all that work, for rendered pairs or a density may be missing.

    Exact pairs need no look-up: None.
    """
    ready: dict[str, Lookup | None] = {}
    labels = np.zeros(len(data.latents)) if data.classes is None else data.classes
    k = min(NEIGHBOURS, int(np.unique(labels, return_counts=True)[1].min()) - 1)
    for method in methods or AUDITED:
        choose(dict.fromkeys(AUDITED), method, "methods")
        try:
            choose_method(data, conditional, method)
            if method == "weighted" and k < 2:
                raise ValueError(
                    "`weighted` chooses among several rows, and the smallest class has one beside "
                    "an anchor; use 'nearest', or leave that class out."
                )
            sibling = next(filter(None, ready.values()), None)
            ready[method] = (
                None if method == "exact" else Lookup(data, conditional, method, k, space, sibling)
            )
        except ValueError:
            if methods or method == "nearest":
                raise
    return ready


def _serve(
    data: PairData, lookup: Lookup | None, anchors: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, float | None, float]:
    """Tell the latents served, the share of draws on their anchor, the distance from the draws."""
    if lookup is None:
        assert data.pairs is not None  # `choose_method` has seen to it
        return data.pairs.latents[anchors], None, 0.0
    drawn, rows = lookup.look(anchors, rng)
    nearest, _ = lookup.index.search(drawn, 1, anchors)
    on_anchor = lookup.weigh(drawn - data.latents[anchors]) <= nearest[:, 0]
    served = data.latents[rows]
    apart = np.linalg.norm((drawn - served)[:, varying(data.latents)], axis=1)
    return served, float(on_anchor.mean()), float(np.median(apart))


def _factor_audit(name: str, method: str, wanted: np.ndarray, served: np.ndarray) -> FactorAudit:
    spread, got = (float(np.sqrt(np.square(values).mean())) for values in (wanted, served))
    return FactorAudit(
        factor=name,
        method=method,
        requested=spread,
        served=got,
        ratio=got / spread if spread > 0 else None,
        wasserstein=float(wasserstein_distance(wanted, served)),
        ks=float(ks_2samp(wanted, served, method="asymp").statistic),
    )


def _summary(
    method: str, factors: list[FactorAudit], on_anchor: float | None, distance: float, k: int | None
) -> MethodAudit:
    free = [factor for factor in factors if factor.ratio is not None] or factors
    requested, served = (
        float(np.sqrt(np.mean([getattr(factor, name) ** 2 for factor in free])))
        for name in ("requested", "served")
    )
    return MethodAudit(
        method=method,
        requested=requested,
        served=served,
        ratio=served / requested if requested > 0 else None,
        on_anchor=on_anchor,
        distance=distance,
        wasserstein=float(np.mean([factor.wasserstein for factor in factors])),
        ks=float(np.mean([factor.ks for factor in factors])),
        k=k,
    )


def _verdict(conditional: str, method: MethodAudit) -> str:
    if method.ratio is None:
        return (
            f"{method.method}: {conditional} requests no change at all; the positives served "
            f"differ by {method.served:.3f} in each factor."
        )
    if method.ratio > TOLERANCE:
        wide = "twice" if 1.9 <= method.ratio <= 2.1 else f"{method.ratio:.1f} times"
        how = f"{wide} the spread requested ({method.served:.3f} instead of {method.requested:.3f})"
    elif method.ratio < 1 / TOLERANCE:
        how = f"only {method.ratio:.0%} of the spread requested"
    else:
        how = f"the spread requested ({method.served:.3f} for {method.requested:.3f})"
    return f"{method.method}: {conditional} serves {how}."
