"""Every injector, a fixed number of times from a fixed seed."""

import zlib

import numpy as np
import pytest

from tests.faults.injectors import INJECTORS
from tests.faults.ledger import injected

TIMES = 25
OFTEN = {
    "a wrong command line": 3,  # test_command_lines.py has them all
    "an HTTP fault": 60,
    "readers by thread, fork and spawn": 8,
    "hostile JSON": 60,
    "a hostile .npy file": 40,
    "a flipped bit in a checkpoint": 40,
}


@pytest.mark.parametrize("kind", INJECTORS)
def test_a_random_fault_breaks_no_promise(world, tmp_path, kind):
    for number in range(OFTEN.get(kind, TIMES)):
        folder = tmp_path / str(number)
        folder.mkdir()
        rng = np.random.default_rng([zlib.crc32(kind.encode()), number])
        injected(kind, INJECTORS[kind](rng, world, folder))
