"""Writes docs/reliability.md from the ledger: promise, faults, injections, outcome.

IDENT3D_LEDGER=tests.json python -m pytest -q tests/faults
IDENT3D_LEDGER=soak.json python -m tests.faults.soak --seconds 3600
python -m tests.faults.before 6ce5ae3 before.json
python -m tests.faults.report tests.json soak.json before.json
"""

import json
import re
import sys
from pathlib import Path

from ident3d.files import write_bytes
from tests.faults.ledger import KINDS

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
TOP = """# Reliability

What ident3d promises when disks fill, processes die, servers lie and files come from strangers, and
what was injected to test it. This page is written by `python -m tests.faults.report`, from counts
that the tests themselves keep: an injection is counted once its promise was seen to hold. A broken
promise fails the test, so none stands here.

<!-- not run: it takes an hour and more -->
```sh
IDENT3D_LEDGER=tests.json .venv/bin/python -m pytest -q tests/faults   # part of make test
IDENT3D_LEDGER=soak.json make soak        # an hour of random faults; SECONDS=600 for less
.venv/bin/python -m tests.faults.before 6ce5ae3 before.json   # the thirteen, then and now
.venv/bin/python -m tests.faults.report tests.json soak.json before.json
```

Every refusal is one sentence, with exit code 1 where something on disk or from outside is wrong,
and 2 where the command is. `make soak` prints its seed, and for a broken promise the options that
bring it back.

"""


BEFORE = """
## The thirteen ways in which 0.1.0 broke

`tests/faults/test_thirteen.py` meets each of them as a user does, by commands and public names, so
that it runs on that version as it is.

| | what broke | tests | on the main of before ({commit}) | now |
|---:|---|---:|---|---|
"""
THIRTEEN = (
    "a flipped bit in a journal puts an image on another row",
    "any file under a final name is trusted",
    "equal data, unequal fingerprints",
    "a full disk while a shard is written: a traceback",
    "too many open files, no permission: told as damage",
    "a download that was cut off gets its final name",
    "tracebacks from hostile manifests, arrays, shards and records",
    "`verify` believes what a file declares",
    "a folder removed during a render: exit 0",
    "hangs: equal keys, sizes, pipes, malformed addresses",
    "escape sequences reach the terminal",
    "scores of extreme scale, 16-bit PNGs, checkpoints, counts, complex numbers",
    "full disks under `pack`, exports at once, words that mislead",
)


def then_and_now(name: str) -> str:
    """The table of the thirteen, from what `tests.faults.before` found."""
    found = json.loads(Path(name).read_text())
    lines = [BEFORE.format(commit=found["commit"])]
    for number, words in enumerate(THIRTEEN, 1):
        before, now = (
            [why for test, why in found[side].items() if re.match(rf"test_{number}_", test)]
            for side in ("before", "now")
        )
        failed = sum(why is not None for why in before)
        passed = now.count(None)
        lines.append(
            f"| {number} | {words} | {len(now)} | {failed} of {len(before)} fail "
            f"| {passed} of {len(now)} pass |\n"
        )
    return "".join(lines)


def main(tests: str, soak: str | None = None, before: str | None = None) -> None:
    counts, more = (json.loads(Path(name).read_text()) if name else {} for name in (tests, soak))
    if lacking := [kind for kind in KINDS if kind not in counts]:
        raise SystemExit(f"{tests} has no injection of: {', '.join(lacking)}.")
    lines = [
        "| promise | faults injected | in `make test` | in the last `make soak` | outcome |",
        "|---|---|---:|---:|---|",
    ]
    for kind, (promise, faults) in KINDS.items():
        ran, soaked = sum(counts[kind].values()), sum(more.get(kind, {}).values())
        outcome = "; ".join(sorted(counts[kind] | more.get(kind, {})))
        shown = f"{soaked:,}" if soaked else "-"
        lines.append(f"| {promise} | **{kind}**: {faults} | {ran:,} | {shown} | {outcome} |")
    totals = [sum(sum(one.values()) for one in table.values()) for table in (counts, more)]
    lines.append(
        f"| all {len(KINDS)} kinds | | {totals[0]:,} | {totals[1]:,} | no promise broken |"
    )
    further = then_and_now(before) if before else ""
    write_bytes(PAGE, (TOP + "\n".join(lines) + "\n" + further).encode())
    print(f"Wrote {PAGE.name}: {len(KINDS)} kinds, {totals[0]:,} and {totals[1]:,} injections.")


if __name__ == "__main__":
    main(*sys.argv[1:])
