"""Writes docs/reliability.md from the ledger: promise, faults, injections, outcome.

IDENT3D_LEDGER=tests.json python -m pytest -q tests/faults
IDENT3D_LEDGER=soak.json python -m tests.faults.soak --seconds 3600
python -m tests.faults.report tests.json soak.json
"""

import json
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
.venv/bin/python -m tests.faults.report tests.json soak.json
```

Every refusal is one sentence, with exit code 1 where something on disk or from outside is wrong,
and 2 where the command is. `make soak` prints its seed, and for a broken promise the options that
bring it back.

"""


def main(tests: str, soak: str | None = None) -> None:
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
    write_bytes(PAGE, (TOP + "\n".join(lines) + "\n").encode())
    print(f"Wrote {PAGE.name}: {len(KINDS)} kinds, {totals[0]:,} and {totals[1]:,} injections.")


if __name__ == "__main__":
    main(*sys.argv[1:])
