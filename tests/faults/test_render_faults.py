"""The render command under removal, limits, missing rights and company, without Blender."""

import contextlib
import os
import resource
import shutil
from functools import partial

import numpy as np
import pytest
from ident3d.render import render_command
from ident3d.render.build import Build
from ident3d.render.plan import begin, declare
from ident3d.render.workers import WorkerSlot

from ident3d.cli import main
from ident3d.dataset import load
from ident3d.published import export_published
from ident3d.shards import reader
from ident3d.shards.verify import problems
from tests.faults.injecting import at_once, in_child, is_one_sentence
from tests.faults.ledger import injected
from tests.faults.writers import SPEC, WRITERS, Painter, Still, render, whole
from tests.support.helpers import make_dataset, painted_row

SETTINGS = ["--resolution", "8", "--pairs", "normal:0.2", "--preset", "draft"]


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


class Pool(Painter):
    """Painted images where the command would start Blender."""

    before = staticmethod(lambda image: None)

    def __init__(self, settings, slots, say):
        super().__init__(SPEC, self.before)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


@pytest.fixture
def command(monkeypatch, capfd):
    """Run `ident3d render OUT ...` here; give its exit code and all that it said."""
    monkeypatch.setattr(render_command, "WorkerPool", Pool)
    monkeypatch.setattr(render_command, "find_slots", lambda *_: ("cpu", [WorkerSlot()]))
    monkeypatch.setattr("ident3d.render.build.LOOK_AGAIN_AFTER", 0.05)

    def run(out, size=8, shard_size=4):
        words = ["render", str(out), "--size", str(size), "--shard-size", str(shard_size)]
        try:
            main([*words, *SETTINGS])
            code = 0
        except SystemExit as ended:
            code = ended.code
        return code, "".join(capfd.readouterr())

    return run


# Removed while it is rendered ---------------------------------------------------------------------


@pytest.mark.parametrize("what", [".", "train", "train/.work"])
def test_a_folder_removed_while_it_is_rendered(command, monkeypatch, tmp_path, what):
    reference = tmp_path / "reference"
    render(reference, size=8, shard_size=4)
    for number in range(1, 17):
        out = tmp_path / str(number)

        def remove(image, number=number, out=out):
            if image == number:
                shutil.rmtree(out / what)

        monkeypatch.setattr(Pool, "before", staticmethod(remove))
        code, said = command(out)
        assert code == 1 and "finished" not in said, (number, said)
        assert is_one_sentence(said.splitlines()[-1]), said
        assert "removed" in said or "lost" in said, said
        monkeypatch.setattr(Pool, "before", staticmethod(lambda image: None))
        assert command(out)[0] == 0
        assert whole(out) == whole(reference)
        injected("a folder that is removed", "exit 1 and one sentence; run again, it is whole")


def test_a_finished_file_removed_while_others_are_rendered(command, monkeypatch, tmp_path):
    def remove(image):
        if image == 15:
            (tmp_path / "out/train/pairs-00000.h5").unlink()

    monkeypatch.setattr(Pool, "before", staticmethod(remove))
    assert command(tmp_path / "out")[0] == 0
    render(tmp_path / "reference", size=8, shard_size=4)
    assert whole(tmp_path / "out") == whole(tmp_path / "reference")
    injected("a folder that is removed", "rendered again before the end")


def test_a_truncated_shard_beside_its_manifest_is_not_finished(command, tmp_path):
    assert command(tmp_path / "out")[0] == 0
    before, shard = whole(tmp_path / "out"), tmp_path / "out/train/shard-00001.h5"
    os.truncate(shard, shard.stat().st_size // 2)
    for _ in range(2):
        code, said = command(tmp_path / "out")
        assert code == 1 and "finished" not in said and "remove it and run" in said
    shard.unlink()
    assert command(tmp_path / "out")[0] == 0
    assert whole(tmp_path / "out") == before
    injected("a file that is not what its name says", "named, and mended by removing it")


# Limits and rights --------------------------------------------------------------------------------


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("limit", [24, 32, 64])
def test_more_shards_than_files_may_be_open(tmp_path, compress, limit):
    data = make_dataset(tmp_path, rows=100, shard_size=1, compress=compress)

    def work():
        spare = len(os.listdir("/proc/self/fd"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit + spare, limit + spare))
        order = np.random.default_rng(0).permutation(100)
        assert painted_row(data.images[order]).tolist() == order.tolist()
        assert painted_row(data.images[:]).tolist() == list(range(100))
        assert list(problems(data)) == []
        assert len(os.listdir("/proc/self/fd")) <= spare + (limit + spare) // 4 + 2

    assert in_child(work) == (0, "")
    injected("a limit on open files", "every row is right")


@pytest.mark.parametrize("number", range(6))
def test_no_file_left_is_told_as_that(tmp_path, number):
    data = make_dataset(tmp_path, rows=4, shard_size=1)

    def work():
        limit = max(map(int, os.listdir("/proc/self/fd"))) + number
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        held = []
        try:
            with contextlib.suppress(OSError):
                while True:  # earlier tests may have left numbers free below the limit
                    held.append(os.open("/dev/null", os.O_RDONLY))
            data.images[:]
        finally:
            for descriptor in held:
                os.close(descriptor)

    code, said = in_child(work)
    assert code == 3 and "Too many open files; allow more (`ulimit -n`)" in said, said
    assert "damaged" not in said and is_one_sentence(said)
    injected("a limit on open files", "told as what it is")


def as_nobody(work):
    """Run as a user without rights; root may do everything."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    work()


@pytest.fixture
def open_tmp(tmp_path):
    """A folder that others can reach, which pytest's own are not."""
    folder = tmp_path
    while folder != folder.parent and folder.stat().st_mode & 0o7777 == 0o700:
        folder.chmod(0o755)
        folder = folder.parent
    return tmp_path


@pytest.mark.parametrize("name", ["dataset.json", "train/shard-00000.h5", "train/pairs-00001.h5"])
def test_a_file_that_may_not_be_read_is_told_as_that(open_tmp, name):
    render(open_tmp / "out", size=8, shard_size=4)
    (open_tmp / "out" / name).chmod(0)

    def work():
        data = load(open_tmp / "out")
        data.images[:], data.pairs.images[:], list(problems(data))

    code, said = in_child(partial(as_nobody, work))
    assert code == 3 and "Permission denied; change who may read" in said, said
    assert "damaged" not in said and is_one_sentence(said)
    injected("a folder that may not be written or read", "told as what it is")


@pytest.mark.parametrize("name", [name for name in WRITERS if name != "an entry"])
def test_a_folder_that_may_not_be_written(open_tmp, name):
    writer, out = WRITERS[name], open_tmp / "out"
    source = writer.source(open_tmp)
    out.mkdir(mode=0o555)
    code, said = in_child(partial(as_nobody, lambda: writer.make(out, source)))
    assert code == 3 and "Permission denied" in said and is_one_sentence(said), said
    out.chmod(0o755)
    writer.make(out, source)
    writer.made(out)
    injected("a folder that may not be written or read", "told as what it is; then all is made")


# Company ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("name", WRITERS)
def test_writers_at_the_same_time(tmp_path, name, count, monkeypatch):
    """Each ends well, or says that another works there; together they make what one would."""
    monkeypatch.setattr("ident3d.render.build.LOOK_AGAIN_AFTER", 0.05)
    writer = WRITERS[name]
    source = writer.source(tmp_path)
    writer.make(tmp_path / "alone", source)
    for turn in range(4):
        out = tmp_path / str(turn)
        ended = at_once(*[partial(writer.make, out, source)] * count)
        for code, said in ended:
            assert code == 0 or (code == 3 and "Another process" in said), ended
        assert any(code == 0 for code, _ in ended) or "shard" in name or "import" in name, ended
        writer.make(out, source)
        assert writer.made(out) == writer.made(tmp_path / "alone")
        injected("writers at the same time", f"{count} at once make what one makes")


def test_three_exports_at_once_all_end_well(tmp_path):
    data = make_dataset(tmp_path / "data")
    ended = at_once(*[partial(export_published, data.path, tmp_path / "out")] * 3)
    assert [code for code, _ in ended] == [0, 0, 0], ended
    injected("writers at the same time", "3 at once make what one makes")


def test_a_small_run_does_not_declare_or_tidy_up_under_a_larger_one(tmp_path):
    """The larger one's journals stay, and the manifest waits for it."""

    small = begin(tmp_path, SPEC, 2, 2, "small")
    large = begin(tmp_path, SPEC, 8, 2, "large")
    Build(small, Painter(), Still()).run(small.tasks())
    with large.open(large.tasks()[-1]) as writer:
        writer.put(0, np.zeros((8, 8, 3), np.uint8))
        assert not declare(small)
        assert writer.missing() == [1]
        assert large.kept.exists()
    injected("writers at the same time", "the larger one declares the whole")


def test_shards_are_opened_again_when_others_need_files(tmp_path, monkeypatch):
    data = make_dataset(tmp_path, rows=10, shard_size=1)
    data.images[:5]
    real, refused = reader.h5py.File, []

    def full(*arguments):
        if not refused and len(data.images._handles) == 5:
            refused.append(1)
            raise OSError(24, "Too many open files")
        return real(*arguments)

    monkeypatch.setattr(reader.h5py, "File", full)
    assert painted_row(data.images[:]).tolist() == list(range(10)) and refused
    injected("a limit on open files", "every row is right")
