"""The ledger of the fault suite: every kind of fault with its promise, every injection counted.

A test enters an injection once it has seen what came of it, so the ledger holds kept promises only:

    injected("a kill at a step of a writer", "resumed, nothing lost")

`IDENT3D_LEDGER=counts.json pytest tests/faults` adds this run's counts to that file when it ends.
"""

import atexit
import json
import os
from collections import Counter
from pathlib import Path

from ident3d.files import Lock, write_json

# kind -> (what is promised, what is injected)
KINDS = {
    "a kill at a step of a writer": (
        "A kill at any instant loses at most the image in hand.",
        "SIGKILL before each open, write, sync, rename and removal of every writer of data",
    ),
    "a torn or zero-filled tail": (
        "What a power cut left half-written is found and made again.",
        "journals, shards and plans cut short or ending in zeros, at many lengths",
    ),
    "a full disk": (
        "One sentence, exit 1, everything rendered is kept.",
        "ENOSPC at every write of every writer; a small tmpfs where the tests run as root",
    ),
    "a disk that fails": (
        "One sentence, exit 1, everything rendered is kept.",
        "EIO at every write, sync and rename of every writer",
    ),
    "a limit on open files": (
        "The truth is told, and a bounded number of shards is open.",
        "RLIMIT_NOFILE, for readers and writers of many shards",
    ),
    "a limit on file size": (
        "One sentence, exit 1, everything rendered is kept.",
        "RLIMIT_FSIZE, for every writer",
    ),
    "a folder that may not be written or read": (
        "One sentence that says so.",
        "folders and files without permission, read-only ones",
    ),
    "a folder that is removed": (
        "Exit 1 and one sentence, never a false `finished`.",
        "the split, its .work or the whole data set removed while a writer works",
    ),
    "writers at the same time": (
        "Two runs never write the same file; together they end as one would.",
        "two and three of every writer at once",
    ),
    "a flipped bit": (
        "No wrong row is served as right: found by verify, or the row is made again.",
        "one bit, anywhere, in shards, pairs, journals, manifests, indexes and plans",
    ),
    "a file that is not what its name says": (
        "Nothing under a final name is trusted before it is checked.",
        "shards swapped, copied, zeroed, of another seed or split, with and without a manifest",
    ),
    "a hostile HDF5 file": (
        "Refused in one sentence, at once and in little memory.",
        "10^9 rows declared, compound, NaN or missing columns, links, images never written",
    ),
}

_counts: Counter[tuple[str, str]] = Counter()


def injected(kind: str, outcome: str, count: int = 1) -> None:
    """Enter injections of one kind and what came of them, in a few plain words."""
    if kind not in KINDS:
        raise KeyError(f"{kind!r} is not in the table of kinds.")
    _counts[kind, outcome] += count


@atexit.register
def _add_to_file() -> None:
    if not (name := os.environ.get("IDENT3D_LEDGER")) or not _counts:
        return
    path = Path(name)
    with Lock(path.with_name(f".{path.name}.lock"), wait=True):  # runs at once add up
        table = json.loads(path.read_text()) if path.exists() else {}
        for (kind, outcome), count in _counts.items():
            outcomes = table.setdefault(kind, {})
            outcomes[outcome] = outcomes.get(outcome, 0) + count
        write_json(path, table)
