"""One data set read by threads, forked and spawned processes at once: every row as written."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

from ident3d.dataset import load
from tests.faults.ledger import injected
from tests.support.helpers import make_dataset, painted_row

ROWS, READS = 60, 24


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "compressed"])
def data(request, tmp_path_factory):
    made = make_dataset(tmp_path_factory.mktemp("readers"), ROWS, 7, compress=request.param)
    made.images[0]  # open in the parent, so that children inherit what they must not use
    return made


def read(data, seed):
    """Read random rows through the caller's own handles; tells whether each was right."""
    rows = np.random.default_rng(seed).integers(ROWS, size=40)
    return np.array_equal(painted_row(data.images[rows]), rows)


def test_threads(data):
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(read, [data] * READS, range(READS)))
    injected("readers by thread, fork and spawn", "every row right", READS)


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_processes(data, method):
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(3, mp_context=context) as pool:
        assert all(pool.map(read, [data] * READS, range(READS)))
    injected("readers by thread, fork and spawn", "every row right", READS)


def test_threads_inside_forked_processes(data):
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        assert all(pool.map(threads, [data] * 4, range(4)))
    injected("readers by thread, fork and spawn", "every row right", 16)


def threads(data, seed):
    with ThreadPoolExecutor(4) as pool:
        return all(pool.map(read, [data] * 4, range(4 * seed, 4 * seed + 4)))


def test_a_reader_opened_before_a_fork_and_one_after(data):
    again = load(data.path)
    assert read(data, 0) and read(again, 1)
    injected("readers by thread, fork and spawn", "every row right", 2)
