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
    "hostile JSON": (
        "Refused in one sentence, in linear time and little memory.",
        "nesting, huge and endless numbers, NaN, equal keys, broken text, cut or random bytes, in "
        "manifests, indexes, work files, records, entries, exports and checkpoints",
    ),
    "a hostile manifest": (
        "A manifest is believed only as far as its types, names and sizes are checked.",
        "values of other types, paths for names, absurd sizes, no splits, all with a right digest",
    ),
    "a hostile .npy file": (
        "Refused in one sentence; nothing in it is executed, no memory is taken on its word.",
        "unclosed brackets, nesting, huge shapes, other types, cut files, random headers, in "
        "`import`, `render --latents`, `score` and `verify`",
    ),
    "a pickle": (
        "Nothing from outside is unpickled.",
        "pickles that would run code, as arrays, records, archives, shards, weights, checkpoints",
    ),
    "a hostile PNG": (
        "Every checksum is checked, depth and size are what they must be, or it is refused.",
        "flips anywhere, IEND included, cuts, 16 bits, other modes, huge sizes, random chunks",
    ),
    "a hostile tar": (
        "Nothing is unpacked, no name becomes a path; refused in one sentence or read whole.",
        "flips and cuts in headers, members that would leave the folder, links, huge members",
    ),
    "a hostile gzip stream": (
        "Found by its checksum; what unpacks to far more than it holds is refused.",
        "flips and cuts anywhere, a bomb",
    ),
    "a hostile CSV": (
        "Refused in one sentence, or every latent is a number in its box.",
        "missing and doubled columns, text for numbers, NaN, zero bytes, random bytes",
    ),
    "a hostile safetensors file": (
        "Refused in one sentence.",
        "cut and random headers, offsets outside the file, deep JSON, as weights and checkpoints",
    ),
    "a flipped bit in a record or entry": (
        "An entry that was changed is refused; a record is read as valid or refused.",
        "one bit, anywhere, in records, entry.json and embeddings",
    ),
    "a flipped bit in a checkpoint": (
        "A run never goes on from other weights than it stopped at.",
        "one bit, anywhere, in a checkpoint",
    ),
    "a flipped bit in an index": (
        "A damaged index is built again, never searched.",
        "one bit, anywhere, in index.json and index.faiss",
    ),
    "a flipped bit under a reader": (
        "Reading ends in one sentence or in arrays of the right shape, never in a traceback.",
        "one bit, anywhere, in shards that `sheet`, `info`, `audit` and `index` read",
    ),
    "an HTTP fault": (
        "The file arrives whole, or not under its final name.",
        "dropped connections, error codes, wrong and unmet ranges and lengths, other bytes",
    ),
    "a malformed address": (
        "Refused at once, not tried again.",
        "addresses and redirects without host, with a bad port, spaces, control characters",
    ),
    "a wrong command line": (
        "One sentence, exit 1 or 2, nothing written.",
        "unknown words, missing paths, numbers out of range, options that do not go together",
    ),
    "a pipe or device in place of a file": (
        "Refused at once; nothing waits for ever.",
        "FIFOs and /dev/zero as manifest, archive, record, array, shard, weights and index",
    ),
    "escape sequences in a stranger's text": (
        "No control character reaches the terminal.",
        "colours, titles, cursor moves, changes of direction, in every text of a manifest",
    ),
    "numbers at the edge of floats": (
        "Scores do not depend on the scale of what is scored.",
        "representations and factors scaled by 1e-300 to 1e300",
    ),
    "arrays that are not real numbers": (
        "Refused in one sentence, never scored.",
        "complex, text, objects, dates, NaN and infinity, in metrics, `score` and pairs",
    ),
    "a record with absurd numbers": (
        "The page is written; a record that cannot be drawn is left out, and named.",
        "scores, curves, metrics and points of up to 1e308",
    ),
    "readers by thread, fork and spawn": (
        "Every row comes as it was written, however it is read.",
        "threads, forked and spawned processes that read the same data set at once",
    ),
    "a limit on memory": (
        "One sentence, exit 1.",
        "RLIMIT_AS for commands that need more",
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
