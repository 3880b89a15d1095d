"""Random faults for as long as you like: `make soak`, or

    python -m tests.faults.soak --seconds 3600 --seed 7

The seed is printed; with it the same faults come in the same order. Each kept promise is counted,
each broken one told at once, with the command that brings it back.
"""

import argparse
import contextlib
import faulthandler
import os
import secrets
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # forked readers must not wait for a pool

import numpy as np

from tests.faults import storage_injectors  # noqa: F401 (enters its injectors)
from tests.faults.injectors import INJECTORS
from tests.faults.ledger import injected
from tests.faults.world import World, build

HANG = 60  # seconds of one injection, not counting those in which this process is paused


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    parser.add_argument("--kind", choices=INJECTORS, help="this kind alone")
    parser.add_argument("--first", type=int, default=0, help="number of the first injection")
    chosen = parser.parse_args()
    print(f"Seed {chosen.seed}, {chosen.seconds:g} seconds.", flush=True)
    faulthandler.enable()
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", "builtin type .* has no __module__", DeprecationWarning)
    warnings.filterwarnings("ignore", "`z.*never changes", UserWarning)
    signal.signal(signal.SIGALRM, _hang)
    kept, broken = Counter[str](), 0
    with tempfile.TemporaryDirectory() as root:
        with contextlib.redirect_stdout(None):
            world = build(Path(root, "world"))
        end, number = time.monotonic() + chosen.seconds, chosen.first
        kinds = [chosen.kind] if chosen.kind else list(INJECTORS)
        while time.monotonic() < end:
            kind = kinds[number % len(kinds)]  # each in turn: the slow ones too
            if inject(kind, [chosen.seed, number], world, Path(root, "folder")):
                kept[kind] += 1
            else:
                broken += 1
                print(f"  again: --seed {chosen.seed} --kind {kind!r} --first {number}", flush=True)
            number += 1
    for kind, count in kept.items():
        print(f"{count:7,}  {kind}")
    print(f"{kept.total():7,}  injections of {len(kept)} kinds, {broken} broken promises")
    sys.exit(broken > 0)


def inject(kind: str, seed: list[int], world: World, folder: Path) -> bool:
    """Inject one fault; tell whether the promise was kept."""
    folder.mkdir()
    _waited[0] = 0
    signal.setitimer(signal.ITIMER_REAL, 1, 1)
    try:
        injected(kind, INJECTORS[kind](np.random.default_rng(seed), world, folder))
    except Exception:
        print(f"BROKEN: {kind}\n{traceback.format_exc()}", flush=True)
        return False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        shutil.rmtree(folder)
    return True


_waited = [0]


def _hang(*_: object) -> None:
    _waited[0] += 1
    if _waited[0] > HANG:
        raise TimeoutError(f"An injection took more than {HANG} seconds.")


if __name__ == "__main__":
    main()
