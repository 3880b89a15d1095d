"""Protocols: which rows are scored, which of them R2 is fitted on, and how batch-norm runs.

Records of version 1 were made under other names, which they keep, so that their ids stay what they
were: `clean` is today's `held-out`; `paper` fitted images in-sample, which the released code does
only for synthetic data.
"""

from dataclasses import dataclass, replace

import numpy as np

HELD_OUT, AS_RELEASED = "held-out", "as-released"
RELEASED_ROWS = 4096
SHUFFLE = 20210615  # seed of the order of rows: one for everybody, so that anybody can check


@dataclass(frozen=True)
class Protocol:
    """What is known of a protocol."""

    label: str  # its name on pages
    words: str
    version: int = 2  # of the records that may have it
    whole: bool = False  # score all rows of a split; else at most `RELEASED_ROWS`
    shuffled: bool = False  # score rows in the order that `SHUFFLE` gives, not from the first on
    train_mode: bool = False  # batch-norm normalises by the batch, as in training
    in_sample: bool = False  # R2 is fitted on the rows that it is scored on, of images too


_WHOLE = Protocol(
    HELD_OUT,
    "Whole split, encoder in eval mode, R² fitted on even rows and scored on odd ones.",
    whole=True,
)
PROTOCOLS = {
    HELD_OUT: _WHOLE,
    AS_RELEASED: Protocol(
        AS_RELEASED,
        "As the released code does it. Images: 4,096 shuffled rows, batch-norm in training mode, "
        "R² fitted on the first half and scored on the second. Synthetic: 4,096 rows, R² fitted "
        "and scored on the same.",
        shuffled=True,
        train_mode=True,
    ),
    "clean": replace(_WHOLE, version=1),
    "paper": Protocol(
        "paper (schema 1: fitted in-sample)",
        "Older records: the first 4,096 rows, batch-norm in training mode, R² fitted where it is "
        "scored. That flatters wide representations of images; as-released has replaced it.",
        version=1,
        train_mode=True,
        in_sample=True,
    ),
}
TODAY = tuple(name for name, protocol in PROTOCOLS.items() if protocol.version == 2)
OLD = {"clean": HELD_OUT, "paper": AS_RELEASED}  # what commands take old names for


def scored_rows(protocol: str, rows: int) -> np.ndarray:
    """Return the rows of a split that a protocol scores, in its order."""
    known = PROTOCOLS[protocol]
    order = np.arange(rows)
    if known.shuffled:
        order = np.random.default_rng(SHUFFLE).permutation(rows)
    return order if known.whole else order[:RELEASED_ROWS]


def fit_and_score(
    protocol: str, rows: int, synthetic: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return which of the scored rows R2 is fitted on, and which it is scored on."""
    known, order = PROTOCOLS[protocol], np.arange(rows)
    if known.in_sample or (synthetic and not known.whole):
        return order, order
    if known.shuffled:
        half = (rows + 1) // 2
        return order[:half], order[half:]
    return order[::2], order[1::2]
