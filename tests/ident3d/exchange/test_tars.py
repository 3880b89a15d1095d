"""Tar files for webdataset, read with no library but ours; tests/clients reads them with theirs."""

import io
import json
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from ident3d.cli import cli
from ident3d.dataset import load
from ident3d.errors import DataError
from ident3d.exchange import export_parquet, export_webdataset, import_exchanged, parquet, writing
from ident3d.files import canonical_sha256, file_digest
from tests.support.exchanged import KINDS, round_trip
from tests.support.helpers import check_unfinished_render_is_kept, large_images, make_dataset

LEGACY = Path(__file__).parents[2] / "support" / "legacy" / "data" / "train"


@pytest.mark.parametrize("kind", KINDS)
def test_there_and_back(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(writing, "_FILE_BYTES", 8 * 8 * 3 * 6)  # several files
    out = round_trip(make_dataset(tmp_path / "data", **KINDS[kind]), tmp_path, "webdataset")
    assert len(list((out / "data").glob("train-*.tar"))) > 3
    assert f"path: data/train-{'[0-9]' * 5}*.tar" in (out / "README.md").read_text()


def test_an_export_tells_its_own_layout(tmp_path):
    data = make_dataset(tmp_path / "data")
    out = export_webdataset(data.path, tmp_path / "out")
    command = ["import", str(out), str(tmp_path / "back"), "--compress"]
    done = CliRunner().invoke(cli, command)
    assert isinstance(done.exception, ValueError) and "its own layout" in str(done.exception)
    assert not (tmp_path / "back").exists()


@pytest.mark.parametrize("order", [("train", "train-small"), ("train-small", "train")])
def test_splits_whose_names_begin_alike_are_told_apart(tmp_path, order):
    for split in order:
        make_dataset(tmp_path / "data", split=split)
        export_webdataset(tmp_path / "data" / split, tmp_path / "out")
    card = (tmp_path / "out" / "README.md").read_text()
    (pattern,) = re.findall(r"split: train\n    path: (\S+)", card)
    found = [path.name for path in (tmp_path / "out").glob(pattern)]
    assert found == ["train-00000.tar"]


def test_splits_share_a_folder_and_other_data_is_refused(tmp_path):
    for split in ("train", "test"):
        make_dataset(tmp_path / "data", split=split)
        export_webdataset(tmp_path / "data" / split, tmp_path / "out")
    export_webdataset(tmp_path / "data" / "test", tmp_path / "out")  # again: nothing to do
    other = make_dataset(tmp_path / "other", seed=1)
    with pytest.raises(DataError, match="holds other data of split 'train'; remove it first"):
        export_webdataset(other.path, tmp_path / "out")
    with pytest.raises(DataError, match="in another format"):
        export_parquet(tmp_path / "data" / "train", tmp_path / "out")
    assert import_exchanged(tmp_path / "out", tmp_path / "back", "test") == ["test"]
    assert import_exchanged(tmp_path / "out", tmp_path / "back") == ["test", "train"]
    assert load(tmp_path / "back" / "train").fingerprint
    with pytest.raises(ValueError, match="`split` must be one of test, train"):
        import_exchanged(tmp_path / "out", tmp_path / "back", "val")


def test_a_folder_with_other_data_is_refused(tmp_path):
    export_webdataset(make_dataset(tmp_path / "data").path, tmp_path / "out")
    make_dataset(tmp_path / "back", pairs="normal:0.1")
    with pytest.raises(DataError, match="holds other data; import to another folder"):
        import_exchanged(tmp_path / "out", tmp_path / "back")


def test_other_rows_of_the_same_description_are_refused(tmp_path):
    for rows in (20, 21):
        data = make_dataset(tmp_path / f"data{rows}", rows=rows)
        export_webdataset(data.path, tmp_path / f"out{rows}")
    import_exchanged(tmp_path / "out20", tmp_path / "back")
    assert import_exchanged(tmp_path / "out20", tmp_path / "back") == ["train"]  # nothing to do
    with pytest.raises(DataError, match="holds other data; import to another folder"):
        import_exchanged(tmp_path / "out21", tmp_path / "back")
    assert len(load(tmp_path / "back")) == 20


def test_an_unfinished_render_is_left_alone(tmp_path, exported):
    back = tmp_path / "back"
    check_unfinished_render_is_kept(
        back, lambda: import_exchanged(exported, back), "shard-00009.journal"
    )


def test_an_export_of_format_1_is_imported_in_the_present_one(tmp_path):
    old = load(LEGACY)
    out = export_webdataset(old.path, tmp_path / "out")
    assert export_webdataset(old.path, tmp_path / "out") == out  # again: nothing to do
    import_exchanged(out, tmp_path / "back")
    assert import_exchanged(out, tmp_path / "back") == ["train"]  # again: nothing to do
    np.testing.assert_array_equal(load(tmp_path / "back").images[:], old.images[:])


@pytest.fixture
def exported(tmp_path):
    return export_webdataset(make_dataset(tmp_path / "data").path, tmp_path / "out")


def change_record(exported, change):
    record = json.loads((exported / "ident3d.json").read_text())
    record.pop("sha256")
    change(record["splits"]["train"])
    text = json.dumps({**record, "sha256": canonical_sha256(record)})
    (exported / "ident3d.json").write_text(text)


def test_damage_is_found(tmp_path, exported):
    (path,) = (exported / "data").glob("*.tar")
    whole = path.read_bytes()
    path.write_bytes(whole[:2000] + b"?" + whole[2001:])
    with pytest.raises(DataError, match="SHA-256 disagrees"):
        import_exchanged(exported, tmp_path / "back")
    path.unlink()
    with pytest.raises(DataError, match="is missing"):
        import_exchanged(exported, tmp_path / "back")
    (exported / "ident3d.json").write_text("{}")
    with pytest.raises(DataError, match="damaged or no record"):
        import_exchanged(exported, tmp_path / "back")
    assert not (tmp_path / "back" / "dataset.json").exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda split: split["files"][0].update(name="../train-00000.tar"),
        lambda split: split.update(resolution=[1 << 20, 8, 3]),
        lambda split: split.update(shards=[5]),
        lambda split: split.update(files=[]),
        lambda split: split.update(resolution=[8, 8.9, 3]),
        lambda split: split["description"]["settings"].update(hue=None),
        lambda split: split["description"]["settings"].update(hue="a\0b"),
        lambda split: split["description"]["settings"].update({"\ud800": 1}),
        lambda split: split["description"].update(sequences=True),
        lambda split: split["description"].update(class_names=[]),
    ],
)
def test_a_hostile_record_is_refused(tmp_path, exported, change):
    change_record(exported, change)
    with pytest.raises(DataError, match="damaged or no record of an export"):
        import_exchanged(exported, tmp_path / "back")


def test_a_tar_without_its_rows_is_refused(tmp_path, exported):
    (path,) = (exported / "data").glob("*.tar")
    shutil.copy(path, tmp_path / "whole.tar")
    with tarfile.open(tmp_path / "whole.tar") as whole, tarfile.open(path, "w") as fewer:
        for member in whole.getmembers()[:9]:
            fewer.addfile(member, whole.extractfile(member))
    change_record(exported, lambda split: split["files"][0].update(sha256=file_digest(path)))
    with pytest.raises(DataError, match="holds fewer rows than it says"):
        import_exchanged(exported, tmp_path / "back")


def change_rows(exported, change):
    """Change what a tar says of its rows, and let the record know its new digest."""
    (path,) = (exported / "data").glob("*.tar")
    with tarfile.open(path) as tar:
        members = [(member, tar.extractfile(member).read()) for member in tar.getmembers()]
    with tarfile.open(path, "w") as tar:
        for member, content in members:
            if member.name.endswith(".json"):
                content = json.dumps(json.loads(content) | change).encode()
                member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    change_record(exported, lambda split: split["files"][0].update(sha256=file_digest(path)))


@pytest.mark.parametrize(
    "change",
    [
        *({"row": row} for row in (-1, 1.5, 2**64 - 1, None, "0", True)),
        *({"class": label} for label in (-1, 3, 1.5, 2**64 - 1, None, [1, 2], {}, "x")),
    ],
)
def test_a_row_with_values_of_other_kinds_is_refused(tmp_path, change):
    out = export_webdataset(make_dataset(tmp_path / "data", classes=3).path, tmp_path / "out")
    change_rows(out, change)
    with pytest.raises(DataError, match=r"not of ident3d's form|without its class, 0 to 2"):
        import_exchanged(out, tmp_path / "back")
    assert not (tmp_path / "back" / "dataset.json").exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda out: change_rows(out, {"row": 1}),
        lambda out: change_record(out, lambda split: split["description"].update(seed=5)),
        lambda out: change_record(out, lambda split: split.update(fingerprint="0" * 64)),
    ],
)
def test_other_rows_than_promised_are_not_declared(tmp_path, exported, change):
    change(exported)
    with pytest.raises(DataError, match=r"other rows than its ident3d\.json promises"):
        import_exchanged(exported, tmp_path / "back")
    assert not (tmp_path / "back" / "dataset.json").exists()


@pytest.mark.parametrize(
    "change",
    [{"row": None}, {"row": date(1970, 1, 2)}, {"image": {"bytes": 1}}, {"class": 1.0}],
)
def test_a_parquet_row_with_values_of_other_kinds_is_refused(change):
    record = {"row": 0, "image": {"bytes": b""}, "latents": [0.0], "class": 1}
    assert parquet._row(record).label == 1
    with pytest.raises(ValueError, match=r"is no whole number|not bytes"):
        parquet._row(record | change)


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"?")])
def test_a_damaged_export_is_repaired(tmp_path, monkeypatch, damage):
    data = make_dataset(tmp_path / "data")
    monkeypatch.setattr(writing, "_FILE_BYTES", 8 * 8 * 3 * 6)  # several files
    out = export_webdataset(data.path, tmp_path / "out")
    monkeypatch.undo()  # files keep their rows
    before = {path.name: path.stat().st_mtime_ns for path in (out / "data").iterdir()}
    damage(out / "data/train-00002.tar")
    (out / "README.md").unlink()
    export_webdataset(data.path, out)
    after = {path.name: path.stat().st_mtime_ns for path in (out / "data").iterdir()}
    assert {name for name in after if after[name] != before.get(name)} == {"train-00002.tar"}
    assert after.keys() == before.keys() and (out / "README.md").exists()
    import_exchanged(out, tmp_path / "back")
    assert load(tmp_path / "back").fingerprint == data.fingerprint


def test_the_largest_images_come_back(tmp_path):
    data = large_images(tmp_path / "data")
    export_webdataset(data.path, tmp_path / "out")
    import_exchanged(tmp_path / "out", tmp_path / "back")
    assert load(tmp_path / "back").fingerprint == data.fingerprint


def test_a_killed_export_goes_on(tmp_path):
    data = make_dataset(tmp_path / "data", rows=300, shard_size=100)
    script = """if True:
        import sys, time
        from ident3d.exchange import export_webdataset, writing
        writing._FILE_BYTES = 8 * 8 * 3 * 20
        write = writing.write_tar
        def slow(*arguments):
            time.sleep(0.05)
            write(*arguments)
        writing.write_tar = slow
        export_webdataset(sys.argv[1], sys.argv[2])
    """
    arguments = [sys.executable, "-c", script, data.path, tmp_path / "out"]
    process = subprocess.Popen(arguments)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and len(list(tmp_path.glob("out/data/*.tar"))) < 3:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not (tmp_path / "out" / "ident3d.json").exists()
    kept = {p.name: p.stat().st_mtime_ns for p in tmp_path.glob("out/data/*.tar")}
    subprocess.run(arguments, check=True)
    after = {p.name: p.stat().st_mtime_ns for p in tmp_path.glob("out/data/*.tar")}
    assert len(after) == 15
    assert kept.items() <= after.items()
    import_exchanged(tmp_path / "out", tmp_path / "back")
    assert load(tmp_path / "back").fingerprint == data.fingerprint
    assert [p.name for p in tmp_path.glob("out/data/*") if p.suffix != ".tar"] == []


def kill_an_export(data, out, name):
    """Export in a process that dies where a file would get its name."""
    script = """if True:
        import os, signal, sys
        from ident3d import files
        from ident3d.exchange import export_webdataset
        def kill(action, path):
            if (action, path.name) == ("rename", sys.argv[3]):
                os.kill(os.getpid(), signal.SIGKILL)
        files.watchers.append(kill)
        export_webdataset(sys.argv[1], sys.argv[2])
    """
    done = subprocess.run([sys.executable, "-c", script, data.path, out, name])
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize("name", ["train-00000.tar", "README.md", "ident3d.json"])
def test_a_killed_export_leaves_nothing_half_written(tmp_path, name):
    data = make_dataset(tmp_path / "data")
    kill_an_export(data, tmp_path / "out", name)
    assert list(tmp_path.rglob("*.partial"))
    export_webdataset(data.path, tmp_path / "out")
    assert not list(tmp_path.rglob("*.partial"))


def test_a_killed_export_does_not_go_on_over_another(tmp_path):
    first, second = make_dataset(tmp_path / "a"), make_dataset(tmp_path / "b", seed=5)
    kill_an_export(first, tmp_path / "out", "train-00000.tar")
    export_webdataset(second.path, tmp_path / "out")
    with pytest.raises(DataError, match="holds other data of split 'train'; remove it first"):
        export_webdataset(first.path, tmp_path / "out")
    import_exchanged(tmp_path / "out", tmp_path / "back")
    assert load(tmp_path / "back").fingerprint == second.fingerprint


def test_parquet_without_pyarrow_is_refused_in_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataError, match=r"Parquet needs pyarrow .*ident3d\[hub\]"):
        export_parquet(make_dataset(tmp_path / "data").path, tmp_path / "out")
