import pickle
import tracemalloc

import numpy as np
import pytest
import torch

from ident3d.pairs.buffers import Buffers
from tests.support.interruptions import in_threads

SHAPE = (16, 8, 8, 3)


def address(array):
    return array.__array_interface__["data"][0]


def test_memory_is_used_again_once_nobody_holds_it():
    buffers = Buffers()
    first = buffers(SHAPE)
    assert (first.shape, first.dtype, first.flags.writeable) == (SHAPE, np.uint8, True)
    used = address(first)
    second = buffers(SHAPE)
    assert address(second) != used
    del first
    assert address(buffers((2, *SHAPE))) != used  # of another size
    assert address(buffers(SHAPE)) == used
    assert address(buffers(SHAPE)) == used


HOLDERS = {
    "the array": lambda array: array,
    "a row": lambda array: array[3],
    "a view of a view": lambda array: array.transpose(0, 3, 1, 2)[::2][1:],
    "other bytes": lambda array: array.reshape(-1).view(np.int64),
    "a memoryview": lambda array: memoryview(array),
    "a tensor": torch.from_numpy,
    "a row of a tensor": lambda array: torch.from_numpy(array).permute(0, 3, 1, 2)[5],
    "a detached tensor": lambda array: torch.from_numpy(array).view(-1)[7:].detach(),
    "a tensor by DLPack": torch.from_dlpack,
    "numpy from a tensor": lambda array: torch.from_numpy(array)[1].numpy(),
}


@pytest.mark.parametrize("name", HOLDERS)
def test_whoever_holds_a_part_holds_the_memory(name):
    buffers = Buffers()
    array = buffers(SHAPE)
    array[...] = 7
    used, held = address(array), HOLDERS[name](array)
    del array
    others = [buffers(SHAPE) for _ in range(8)]
    for other in others:
        other[...] = 255
    assert bytes(np.asarray(held)) == b"\x07" * np.asarray(held).nbytes
    assert used not in map(address, others)
    del held
    assert address(buffers(SHAPE)) == used


def test_little_memory_waits_and_none_outlives_its_buffers():
    size = 1 << 20
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        buffers = Buffers()
        held = [buffers((size,)) for _ in range(40)]
        assert tracemalloc.get_traced_memory()[0] - before > 40 * size
        kept = held.pop()
        kept[...] = 3
        held.clear()
        assert tracemalloc.get_traced_memory()[0] - before < 5.5 * size  # four, and the one kept
        del buffers
        assert (kept == 3).all()
        del kept
        assert tracemalloc.get_traced_memory()[0] - before < 0.5 * size
    finally:
        tracemalloc.stop()


def test_threads_never_share_memory():
    buffers, torn = Buffers(), []

    def work(number):
        rng, held = np.random.default_rng(number), []
        for _ in range(300):
            array = buffers(SHAPE)
            array[...] = number
            held.append(array[rng.integers(16)])
            del array
            torn.extend(part for part in held if (part != number).any())
            del held[: rng.integers(4)]

    in_threads(work, 6)
    assert not torn


def test_a_pickled_copy_is_a_copy():
    buffers = Buffers()
    array = buffers(SHAPE)
    array[...] = 5
    copy = pickle.loads(pickle.dumps(array))
    del array
    buffers(SHAPE)[...] = 255
    assert (copy == 5).all()
