"""Random faults of storage for `make soak`; the tests inject the same ones one after the other."""

import atexit
import errno
import functools
import os
import resource
import shutil
import tempfile
from functools import partial
from pathlib import Path

from ident3d.dataset import load
from ident3d.errors import DataError
from ident3d.shards.verify import problems
from tests.faults.injecting import (
    at_once,
    failing_at,
    flip,
    in_child,
    is_one_sentence,
    killed_at,
    steps_of,
    told,
)
from tests.faults.injectors import injector, pick
from tests.faults.writers import WRITERS, Painter, render, whole

AS_IF_NEVER = "the same call ends as if never stopped"
REFUSED = "one sentence; the same call then ends as if never stopped"


@functools.cache
def prepared(name):
    """Get a writer, its source, the number of its steps and what it makes undisturbed."""
    root = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    writer = WRITERS[name]
    source = writer.source(root)
    steps = steps_of(lambda: writer.make(root / "out", source))
    return writer, source, len(steps), writer.made(root / "out")


@injector("a kill at a step of a writer")
def kills(rng, world, folder):
    writer, source, steps, made = prepared(pick(rng, WRITERS))
    make = partial(writer.make, folder / "out", source)
    while killed_at(int(rng.integers(steps)), make) and rng.integers(3):
        pass  # and again, on what the one before left
    make()
    assert writer.made(folder / "out") == made
    return AS_IF_NEVER


def _refuse(rng, folder, code):
    writer, source, steps, made = prepared(pick(rng, WRITERS))
    try:
        with failing_at(int(rng.integers(steps)), code):
            writer.make(folder / "out", source)
        raise AssertionError("the error of the disk was not noticed")
    except OSError as error:
        assert error.errno == code and is_one_sentence(told(error)), told(error)
    writer.make(folder / "out", source)
    assert writer.made(folder / "out") == made
    return REFUSED


@injector("a full disk")
def full_disk(rng, world, folder):
    return _refuse(rng, folder, errno.ENOSPC)


@injector("a disk that fails")
def failing_disk(rng, world, folder):
    return _refuse(rng, folder, errno.EIO)


@injector("a limit on file size")
def small_files(rng, world, folder):
    writer, source, _, made = prepared(pick(rng, WRITERS))
    limit = int(rng.integers(12_000))

    def work():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        writer.make(folder / "out", source)

    code, said = in_child(work)
    assert code == 0 or (code == 3 and is_one_sentence(said)), (code, said)
    writer.make(folder / "out", source)
    assert writer.made(folder / "out") == made
    return REFUSED if code else "they fitted"


@injector("writers at the same time")
def company(rng, world, folder):
    writer, source, _, made = prepared(pick(rng, WRITERS))
    count = int(rng.integers(2, 4))
    for code, said in at_once(*[partial(writer.make, folder / "out", source)] * count):
        assert code == 0 or (code == 3 and "Another process" in said), said
    writer.make(folder / "out", source)
    assert writer.made(folder / "out") == made
    return f"{count} at once make what one makes"


def _stopped(rng, folder):
    """Leave a render somewhere in its middle."""
    number = int(rng.integers(2, 16))

    def stop(image):
        if image == number:
            raise InterruptedError

    try:
        render(folder, size=8, shard_size=4, pool=Painter(before=stop))
    except InterruptedError:
        return sorted(folder.glob("train/.work/*.journal"))
    raise AssertionError("it was not stopped")


def _mended(folder):
    """Render until nothing is refused, removing what is named; tell whether something was."""
    named = False
    for _ in range(5):
        code, said = in_child(lambda: render(folder, size=8, shard_size=4))
        if code == 0:
            break
        assert code == 3 and is_one_sentence(said) and "remove" in said, (code, said)
        paths = [path for path in folder.rglob("*") if path.is_file() and path.name in said]
        paths[0].unlink()
        named = True
    assert whole(folder) == prepared_render()
    return named


@functools.cache
def prepared_render():
    with tempfile.TemporaryDirectory() as root:
        render(Path(root), size=8, shard_size=4)
        return whole(Path(root))


@injector("a torn or zero-filled tail")
def torn(rng, world, folder):
    journals = _stopped(rng, folder / "out")
    path = pick(rng, journals)
    size = path.stat().st_size
    os.truncate(path, int(rng.integers(size)))
    if rng.integers(2):
        os.truncate(path, size)
    return "named, and mended by removing it" if _mended(folder / "out") else AS_IF_NEVER


@injector("a flipped bit")
def flipped(rng, world, folder):
    _stopped(rng, folder / "out")
    files = [p for p in (folder / "out").rglob("*") if p.is_file() and p.stat().st_size]
    path = pick(rng, sorted(files))
    flip(path, int(rng.integers(path.stat().st_size * 8)))
    try:
        named = _mended(folder / "out")
    except AssertionError:  # in a finished shard whose digest was noted: verify names it
        found = list(problems(load(folder / "out")))
        assert len(found) == 1 and path.name in found[0], found
        path.unlink()
        named = _mended(folder / "out")
    return "named, and mended by removing it" if named else AS_IF_NEVER


@injector("a folder that is removed")
def removed(rng, world, folder):
    number, what = int(rng.integers(1, 17)), pick(rng, (".", "train", "train/.work"))

    def remove(image):
        if image == number:
            shutil.rmtree(folder / "out" / what)

    try:
        finished = render(folder / "out", size=8, shard_size=4, pool=Painter(before=remove))
        assert not finished
    except (DataError, OSError) as error:
        assert is_one_sentence(told(error)), told(error)
    render(folder / "out", size=8, shard_size=4)
    assert whole(folder / "out") == prepared_render()
    return "one sentence; run again, it is whole"
