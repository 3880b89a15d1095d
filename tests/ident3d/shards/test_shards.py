import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from functools import partial
from pathlib import Path

import h5py
import numpy as np
import pytest

from ident3d.dataset import load
from ident3d.errors import DataError
from ident3d.files import Busy
from ident3d.shards import MANIFEST, Description, write_manifest
from tests.support.helpers import make_dataset, painted, painted_row, shard_writer

ROWS = np.arange(10)


writer = partial(shard_writer, count=len(ROWS))


def fill(shard):
    for position in shard.missing():
        shard.put(position, painted(position))


def test_a_shard_has_its_final_name_only_when_whole(tmp_path):
    with writer(tmp_path) as shard:
        shard.put(3, painted(3))
        with pytest.raises(ValueError, match="lacks 9 of 10"):
            shard.finish()
        assert not shard.path.exists()
        fill(shard)
        entry = shard.finish()
    assert shard.path.stat().st_size == entry["bytes"]
    with h5py.File(shard.path) as file:
        assert painted_row(file["images"][()]).tolist() == ROWS.tolist()
        assert file["images"].chunks is None  # contiguous: a row is one read
        assert file.attrs["factors"][7] == "object_hue"
        assert file.attrs["format_version"] == 2


def test_images_come_in_any_order_and_across_sessions(tmp_path):
    for positions in ([9, 0, 4], [5, 4, 1], [2, 3, 6, 7, 8]):
        with writer(tmp_path) as shard:
            for position in positions:
                shard.put(position, painted(position))
    with writer(tmp_path) as shard:
        assert shard.missing() == []
        shard.finish()
    write_manifest(tmp_path, "train", Description(seed=0))
    assert painted_row(load(tmp_path).images[:]).tolist() == ROWS.tolist()


@pytest.mark.parametrize("cut", [1, 5, 100, 203])
def test_a_torn_record_is_dropped_and_the_rest_kept(tmp_path, cut):
    with writer(tmp_path) as shard:
        for position in range(5):
            shard.put(position, painted(position))
    journal = tmp_path / "train/.work/shard-00000.journal"
    os.truncate(journal, journal.stat().st_size - cut)
    with writer(tmp_path) as shard:
        assert shard.missing() == [4, 5, 6, 7, 8, 9]
        fill(shard)
        shard.finish()


def test_a_kill_loses_nothing_that_was_put(tmp_path):
    script = textwrap.dedent("""
        import os, signal, sys
        from pathlib import Path
        from tests.ident3d.shards.test_shards import writer, painted
        shard = writer(Path(sys.argv[1]))
        for position in range(6):
            shard.put(position, painted(position))
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    process = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert process.returncode == -signal.SIGKILL
    with writer(tmp_path) as shard:
        assert shard.missing() == [6, 7, 8, 9]


def test_two_writers_never_share_a_shard(tmp_path):
    with writer(tmp_path), pytest.raises(Busy):
        writer(tmp_path)
    writer(tmp_path).close()


def test_a_finished_shard_is_left_alone(tmp_path):
    with writer(tmp_path) as shard:
        fill(shard)
        shard.finish()
    before = shard.path.read_bytes()
    with writer(tmp_path) as shard:
        assert shard.missing() == []
        shard.finish()
    assert shard.path.read_bytes() == before


def test_a_shard_begun_with_other_settings_is_refused(tmp_path):
    writer(tmp_path).close()
    with pytest.raises(DataError, match="begun with other"):
        writer(tmp_path, description=Description(seed=0, settings={"samples": 4}))
    with pytest.raises(DataError, match="begun with other"):
        writer(tmp_path, latents=np.zeros((10, 10)))
    writer(tmp_path).close()  # and nothing was lost


def test_same_content_same_bytes(tmp_path):
    one, two = (make_dataset(tmp_path / name, rows=9) for name in "ab")
    assert [e["sha256"] for e in one.files()] == [e["sha256"] for e in two.files()]
    assert one.fingerprint == two.fingerprint


def test_wrong_images_are_refused(tmp_path):
    with writer(tmp_path) as shard:
        with pytest.raises(ValueError, match="must be uint8"):
            shard.put(0, np.zeros((8, 8, 3), np.float32))
        with pytest.raises(ValueError, match="must be uint8"):
            shard.put(0, np.zeros((9, 8, 3), np.uint8))
        with pytest.raises(ValueError, match=r"must be in 0\.\.9"):
            shard.put(10, painted(1))
        assert len(shard.missing()) == 10


def test_a_full_disk_loses_only_the_image_in_hand(tmp_path, monkeypatch):
    with writer(tmp_path) as shard:
        shard.put(0, painted(0))
        stream = shard._stream

        class FullDisk:
            def write(self, record):
                return stream.write(record[: len(record) // 2])

            def __getattr__(self, name):
                return getattr(stream, name)

        monkeypatch.setattr(shard, "_stream", FullDisk())
        with pytest.raises(OSError, match="No space left"):
            shard.put(1, painted(1))
    with writer(tmp_path) as shard:
        assert shard.missing() == list(range(1, 10))


def test_description_round_trip():
    description = Description(seed=3, settings={"a": 1}, pairs="normal:0.1", class_names=("x",))
    record = json.loads(json.dumps(description.to_record()))
    assert Description.from_record(record) == description


# Power cuts ---------------------------------------------------------------------------------------


@pytest.fixture
def calls(monkeypatch):
    """What the code asks of the disk, in its order: ("sync" | "name" | "remove", path)."""
    seen = []

    def record(module, function, kind, which=lambda *arguments: arguments[0]):
        real = getattr(module, function)

        def called(*arguments, **options):
            seen.append((kind, Path(which(*arguments)).resolve()))
            return real(*arguments, **options)

        monkeypatch.setattr(module, function, called)

    # A synced file may get another name later: what counts is the name at the time.
    record(os, "fsync", "sync", lambda descriptor: os.readlink(f"/proc/self/fd/{descriptor}"))
    record(os, "replace", "name", lambda _, final: final)
    record(os, "unlink", "remove")
    record(Path, "unlink", "remove")
    record(shutil, "rmtree", "remove")
    return seen


def test_a_shard_is_on_the_disk_before_its_journal_goes(tmp_path, calls):
    with writer(tmp_path) as shard:
        fill(shard)
        calls.clear()
        shard.finish()
    work = tmp_path / "train/.work"
    order = [
        calls.index(call)
        for call in [
            ("sync", work / "shard-00000.partial"),  # the bytes,
            ("name", shard.path),  # then the name,
            ("sync", shard.path.parent),  # which is the folder's,
            ("remove", work / "shard-00000.journal"),  # and only then
        ]
    ]
    assert order == sorted(order)


def test_a_shard_named_by_a_process_that_died_is_synced_too(tmp_path, calls):
    with writer(tmp_path) as shard:
        fill(shard)
        journal = shard._journal.read_bytes()
        shard.finish()
    shard._journal.write_bytes(journal)  # as if killed after the name, before the folder's sync
    calls.clear()
    with writer(tmp_path) as shard:
        shard.finish()
    removed = calls.index(("remove", shard._journal))
    assert calls.index(("sync", shard.path)) < removed
    assert calls.index(("sync", shard.path.parent)) < removed


def test_the_manifest_is_on_the_disk_before_the_work_folder_goes(tmp_path, calls):
    with writer(tmp_path) as shard:
        fill(shard)
        shard.finish()
    calls.clear()
    write_manifest(tmp_path, "train", Description(seed=0))
    kinds = [kind for kind, path in calls if path.name == MANIFEST or path == tmp_path]
    assert kinds == ["name", "sync"]
    named = calls.index(("name", tmp_path / MANIFEST))
    assert calls[named - 1][0] == "sync"  # its bytes, under the name they had then
    assert MANIFEST in calls[named - 1][1].name
    assert calls.index(("sync", tmp_path)) < calls.index(("remove", tmp_path / "train/.work"))
