"""What pairs by time serve: how factors change between a frame and a later one.

Nothing is requested of such pairs, so there is nothing to compare with: the audit says what there
is. Sparse changes, mostly small and sometimes large, have a generalized normal shape of about 1
(Laplace) or less and an excess kurtosis of 3 or more; a normal law has 2 and 0.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import gennorm, kurtosis

from ..dataset import Dataset
from ..factors import varying
from .pairs import Pairs

_ROUNDING = 1e-5  # of a step: by which float32 latents of a steady motion differ


@dataclass(frozen=True)
class Transition:
    """How one factor changes, in unit latents."""

    factor: str
    spread: float  # root mean square of z+ - z
    still: float  # share of pairs in which it does not change at all
    excess_kurtosis: float | None  # None: all changes are alike
    # Exponent of the generalized normal law, centred at 0, that fits best; None: as above.
    shape: float | None


@dataclass(frozen=True)
class Transitions:
    """What was measured."""

    conditional: str
    pairs: int
    factors: tuple[Transition, ...]

    def to_record(self) -> dict[str, Any]:
        """Give the plain JSON form."""
        return asdict(self)


def transitions(
    data: Dataset, conditional: str, *, pairs: int = 20_000, seed: int = 0
) -> Transitions:
    """Measure how factors change in pairs by time, such as `time:5`; only latents are read."""
    served = Pairs(data, conditional, seed)
    anchors, positives = served.draw(pairs, np.random.default_rng([seed, 2]))
    changes = data.latents[positives].astype(np.float64) - data.latents[anchors]
    free = np.flatnonzero(varying(data.latents))
    found = (_measure(data.factors[column].name, changes[:, column]) for column in free)
    return Transitions(str(served.conditional), pairs, tuple(found))


def _measure(name: str, changes: np.ndarray) -> Transition:
    spread = float(np.sqrt(np.square(changes).mean()))
    alike = np.ptp(changes) <= _ROUNDING * np.abs(changes).max()
    return Transition(
        factor=name,
        spread=spread,
        still=float((changes == 0).mean()),
        excess_kurtosis=None if alike else float(kurtosis(changes)),
        shape=None if alike else fit_shape(changes / spread),
    )


def fit_shape(changes: np.ndarray) -> float:
    """Fit the exponent of exp(-|x / scale|^exponent) by maximum likelihood."""
    return float(gennorm.fit(changes, floc=0)[0])
