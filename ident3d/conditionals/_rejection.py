"""Rejection sampling, vectorised: the one loop that every rejection sampler here shares."""

from collections.abc import Callable

import numpy as np

Proposal = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]  # rows -> draws, accepted

_LEAST_WORK = 256  # proposals a pass may make for free, its overhead being what it is


def first_accepted(count: int, propose: Proposal) -> np.ndarray:
    """Draw for each of `count` rows until a draw is accepted, and keep that one.

    `propose(rows)` returns one draw for each entry of `rows` (rows may repeat) and a mask of the
    accepted ones. Only rejected rows are drawn again. As fewer rows remain, each gets several
    proposals at a time and takes its first accepted one, which leaves the law unchanged.
    """
    kept, accepted = propose(np.arange(count))
    pending = np.flatnonzero(~accepted)
    while pending.size:
        room = max(count, _LEAST_WORK) // pending.size
        copies = int(min(1 + room / 4, 1 + 1 / max(accepted.mean(), 1 / room)))
        draws, accepted = propose(np.repeat(pending, copies))
        accepted = accepted.reshape(-1, copies)
        first = accepted.argmax(axis=1) + copies * np.arange(len(pending))
        done = accepted.any(axis=1)
        kept[pending[done]] = draws[first[done]]
        pending = pending[~done]
    return kept


def accept(exponent: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Accept each draw with probability exp(exponent); `exponent` is at most 0."""
    return rng.standard_exponential(exponent.shape) >= -exponent
