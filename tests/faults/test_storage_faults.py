"""Kills, full and failing disks, limits: whatever stops a writer, the same call ends as if not."""

import errno
import functools
import os
import resource
import shutil

import pytest

from tests.faults.injecting import (
    failing_at,
    in_child,
    is_one_sentence,
    killed_at,
    steps_of,
    told,
)
from tests.faults.ledger import injected
from tests.faults.writers import WRITERS

REFUSED = "one sentence; the same call then ends as if never stopped"
every_writer = pytest.mark.parametrize("name", WRITERS)


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch):
    """Kills and errors do not depend on syncs; their order is tested in test_shards.py."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    """Get a writer's source, the number of its steps and what it makes undisturbed."""

    @functools.cache
    def find(name):
        root, writer = tmp_path_factory.mktemp("clean"), WRITERS[name]
        source = writer.source(root)
        steps = steps_of(lambda: writer.make(root / "out", source))
        return source, len(steps), writer.made(root / "out")

    return find


@every_writer
def test_a_kill_at_every_step(clean, name, tmp_path):
    (source, steps, made), writer = clean(name), WRITERS[name]
    for step in range(steps):
        out = tmp_path / str(step)
        assert killed_at(step, lambda out=out: writer.make(out, source)), step
        writer.make(out, source)
        assert writer.made(out) == made, step
        shutil.rmtree(out)
    injected("a kill at a step of a writer", "the same call ends as if never stopped", steps)


@every_writer
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_refuses_a_step(clean, name, code, tmp_path):
    (source, steps, made), writer = clean(name), WRITERS[name]
    for step in range(steps):
        out = tmp_path / str(step)
        with failing_at(step, code), pytest.raises(OSError) as caught:
            writer.make(out, source)
        assert caught.value.errno == code, step
        assert is_one_sentence(told(caught.value)), told(caught.value)
        writer.make(out, source)
        assert writer.made(out) == made, step
        shutil.rmtree(out)
    kind = "a full disk" if code == errno.ENOSPC else "a disk that fails"
    injected(kind, REFUSED, steps)


@every_writer
def test_a_limit_on_file_size(clean, name, tmp_path):
    """The system itself cuts writes short, HDF5's, Pillow's and numpy's included."""
    (source, _, made), writer = clean(name), WRITERS[name]
    largest = max(path.stat().st_size for path in _made_files(writer, source, tmp_path / "free"))
    for limit in sorted({largest * k // 9 for k in range(9)}):
        out = tmp_path / str(limit)

        def work(limit=limit, out=out):
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            writer.make(out, source)

        code, said = in_child(work)
        assert code == 3 and "File too large" in said and is_one_sentence(said), (limit, code, said)
        writer.make(out, source)
        assert writer.made(out) == made, limit
        shutil.rmtree(out)
        injected("a limit on file size", REFUSED)


def _made_files(writer, source, out):
    writer.make(out, source)
    return [path for path in out.rglob("*") if path.is_file()]


@pytest.fixture
def small_disk(tmp_path):
    """Mount a disk of a few pages: `small_disk(kilobytes)`; only root may."""
    mounted = []

    def mount(kilobytes):
        disk = tmp_path / f"disk{len(mounted)}"
        disk.mkdir()
        code = os.system(f"mount -t tmpfs -o size={kilobytes}k tmpfs {disk} 2> /dev/null")
        if code:
            return None
        mounted.append(disk)
        return disk

    yield mount
    for disk in mounted:
        os.system(f"umount {disk}")


@every_writer
def test_a_disk_that_is_full(clean, name, small_disk):
    """Where the tests run as root, on a disk that is really full; elsewhere, by injected errors."""
    (source, _, made), writer = clean(name), WRITERS[name]
    for kilobytes in range(4, 64, 8):
        disk = small_disk(kilobytes)
        if disk is None:
            break
        code, said = in_child(lambda disk=disk: writer.make(disk / "out", source))
        assert code in (0, 3), (kilobytes, code, said)
        assert code == 0 or is_one_sentence(said), said
        assert code == 0 or "No space left" in said or "its disk has" in said, said
        os.system(f"mount -o remount,size=8m {disk}")
        writer.make(disk / "out", source)
        assert writer.made(disk / "out") == made, kilobytes
        injected("a full disk", "it fitted" if code == 0 else REFUSED)
