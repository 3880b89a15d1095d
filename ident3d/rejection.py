"""Rejection sampling, vectorised: the one loop that every rejection sampler here shares."""

from collections.abc import Callable

import numpy as np

Proposal = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]  # rows -> draws, accepted

_MOST_COPIES = 32
_LEAST_WORK = 256


def first_accepted(count: int, propose: Proposal, passes: int = 1_000_000) -> np.ndarray:
    """Draw for each of `count` rows until a draw is accepted, and keep that one.

    `propose(rows)` returns one draw for each entry of `rows` (rows may repeat) and a mask of the
    accepted ones. Only rejected rows are drawn again. As fewer rows remain, each gets several
    proposals at a time and takes its first accepted one, which leaves the law unchanged.
    """
    draws, accepted = propose(np.arange(count))
    kept = draws
    pending = np.flatnonzero(~accepted)
    while pending.size:
        if not (passes := passes - 1):
            raise ValueError(f"{pending.size} of {count} rows found no accepted draw.")
        copies = min(max(count, _LEAST_WORK) // pending.size, _MOST_COPIES)
        draws, accepted = propose(np.repeat(pending, copies))
        accepted = accepted.reshape(-1, copies)
        first = accepted.argmax(axis=1) + copies * np.arange(len(pending))
        done = accepted.any(axis=1)
        kept[pending[done]] = draws[first[done]]
        pending = pending[~done]
    return kept
