"""Importing the published data sets: every layout, from folder and archive, killed and resumed."""

import math
import signal
import subprocess
import sys
import textwrap
import time
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

from ident3d.cli import cli
from ident3d.dataset import load
from ident3d.errors import DataError
from ident3d.factors import FACTORS, to_scene
from ident3d.published import export_published, import_published
from ident3d.published._split_writer import SplitWriter
from ident3d.published.catalogue import CATALOGUE, PublishedSet
from ident3d.published.readers import SplitLatents
from ident3d.shards import ShardWriter
from ident3d.shards.verify import problems
from tests.support.helpers import (
    check_unfinished_render_is_kept,
    make_dataset,
    painted,
    painted_row,
)
from tests.support.published_sets import (
    call_released,
    causal,
    image_files,
    latents,
    multimodal,
    multimodal_table,
    png,
    three_d_ident,
    write_folder,
    write_tar,
)

LAYOUTS = {"3DIdent": three_d_ident, "Causal3DIdent": causal, "Multimodal3DIdent": multimodal}
PACKINGS = {
    "folder": lambda path, files: write_folder(path / "unpacked", files),
    "tar": lambda path, files: write_tar(path / "set.tar", files),
    "tar.gz": lambda path, files: write_tar(path / "set.tar.gz", files),
    "shuffled tar": lambda path, files: write_tar(path / "set.tar", files, order_seed=1),
    "shuffled tar.gz": lambda path, files: write_tar(path / "set.tar.gz", files, order_seed=1),
}


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_imports_and_verifies(tmp_path, layout, packing):
    source = PACKINGS[packing](tmp_path, LAYOUTS[layout]())
    splits = import_published(source, tmp_path / "out", shard_rows=5)
    assert {published.origin.title for published in splits} == {layout}
    for published in splits:
        data = load(tmp_path / "out" / published.split)
        assert list(problems(data)) == []
        assert painted_row(data.images[:]).tolist() == list(range(len(data)))
        assert data.settings == {"layout": layout}
        assert not (data.path / ".work").exists()


@pytest.mark.parametrize("name", ["3dident", "causal3dident", "multimodal3dident"])
def test_what_has_the_size_of_a_release_is_called_published(tmp_path, monkeypatch, name):
    record = CATALOGUE[name]
    files = LAYOUTS[record.title]()
    rows = {"3dident": 12, "causal3dident": 77, "multimodal3dident": 13}[name]
    call_released(monkeypatch, name, rows)
    (split, *_) = import_published(write_folder(tmp_path / "raw", files), tmp_path / "out")
    data = load(tmp_path / "out" / split.split)
    facts = {"published": record.title, "zenodo_record": record.record, "hue": "published"}
    assert (split.title, data.settings) == (record.title, facts)


@pytest.mark.parametrize(
    ("rows", "side", "released"),
    [
        (250_000, 224, True),
        (25_000, 224, True),
        (12, 224, False),
        (250_000, 64, False),
        (125_000, 224, False),
        (247_000, 224, False),
    ],
)
def test_the_size_of_a_release_is_of_rows_and_pixels(rows, side, released):
    for name in ("3dident", "causal3dident"):
        assert CATALOGUE[name].has_size_of_release(rows, (side, side, 3)) == released
    assert not CATALOGUE["3dident"].has_size_of_release(250_000, (224, 225, 3))


def test_own_images_through_the_layout_are_not_called_published(tmp_path):
    data = make_dataset(tmp_path / "mine")
    assert data.settings == {"hue": "injective"}
    export_published(data.path, tmp_path / "out")
    import_published(tmp_path / "out", tmp_path / "back")
    back = load(tmp_path / "back")
    assert back.settings == {"layout": "3DIdent"}  # its hues are not known any more
    shown = CliRunner().invoke(cli, ["info", str(back.path)]).output
    assert "layout: 3DIdent" in shown and "hue:" not in shown and "zenodo" not in shown
    audit = ["audit", str(back.path), "--conditional", "normal:0.3", "--pairs", "100"]
    assert CliRunner().invoke(cli, audit).exit_code == 0
    assert list(problems(back)) == []


def test_3dident_keeps_raw_latents_and_column_order(tmp_path):
    import_published(write_folder(tmp_path, three_d_ident()), tmp_path / "out")
    data = load(tmp_path / "out")
    np.testing.assert_array_equal(data.latents, latents(12))
    assert data.factors == FACTORS
    assert data.classes is None
    assert data.seed is None


def test_causal_classes_become_a_column(tmp_path):
    import_published(write_folder(tmp_path, causal()), tmp_path / "out", shard_rows=20)
    data = load(tmp_path / "out")
    assert data.split == "train"
    assert data.classes.tolist() == np.repeat(range(7), 11).tolist()
    assert data.class_names[0] == "teapot"
    np.testing.assert_array_equal(data.latents[33:44], latents(11, seed=3))


def test_multimodal_columns_are_read_by_name(tmp_path):
    table = multimodal_table(13)
    import_published(write_folder(tmp_path, multimodal()), tmp_path / "out")
    data = load(tmp_path / "out/val")
    scene = to_scene(data.latents, data.factors)
    names = [factor.name for factor in data.factors]
    # The released generator: location = (3 ypos - 3, 3 xpos - 3, zpos), angles from [0, 1] to
    # [-pi/2, pi/2], hue of the object is the value itself, of light and ground (value - 0.5) / 2.
    expected = {
        "x": 3 * table["object_ypos"] - 3,
        "y": 3 * table["object_xpos"] - 3,
        "z": table["object_zpos"],
        "beta": math.pi * table["object_betarot"] - math.pi / 2,
        "spotlight_angle": math.pi * table["spotlight_pos"] - math.pi / 2,
        "object_hue": 2 * math.pi * table["object_color"],
        "spotlight_hue": 2 * math.pi * (table["spotlight_color"] - 0.5) / 2,
        "background_hue": 2 * math.pi * (table["background_color"] - 0.5) / 2,
    }
    for name, values in expected.items():
        np.testing.assert_allclose(scene[:, names.index(name)], values, atol=1e-5)
    assert data.classes.tolist() == table["object_shape"].tolist()


def test_a_further_data_set_is_one_record_and_its_reader(tmp_path, monkeypatch):
    def read_codes(folder, files):
        values = np.frombuffer(files["codes.bin"], np.float32).reshape(-1, 10)
        return SplitLatents(values, np.zeros(len(values), int), {"pictures": len(values)})

    record = PublishedSet(
        title="Other",
        record=7,
        archives={},
        rows=(12,),
        side=8,
        splits={"train": "learn"},
        images="pictures",
        latents="codes.bin",
        read=read_codes,
        class_names=("cup",),
    )
    monkeypatch.setitem(CATALOGUE, "other", record)
    codes = latents(12)
    files = image_files("learn/pictures", range(12)) | {"learn/codes.bin": codes.tobytes()}
    import_published(write_folder(tmp_path / "raw", files), tmp_path / "out")
    data = load(tmp_path / "out")
    assert (data.split, data.class_names) == ("train", ("cup",))
    assert data.settings == {"published": "Other", "zenodo_record": 7, "hue": "published"}
    np.testing.assert_array_equal(data.latents, codes)
    assert painted_row(data.images[:]).tolist() == list(range(12))


def test_several_archives_go_into_one_data_set(tmp_path):
    for split in ("train", "test"):
        source = write_tar(tmp_path / f"3dident_{split}.tar", three_d_ident(split=split))
        import_published(source, tmp_path / "out")
    assert len(load(tmp_path / "out/train")) == len(load(tmp_path / "out/test")) == 12


def test_folder_and_archive_give_the_same_fingerprint(tmp_path):
    files = three_d_ident()
    import_published(write_folder(tmp_path / "a", files), tmp_path / "one")
    import_published(write_tar(tmp_path / "b.tar.gz", files, order_seed=3), tmp_path / "two")
    assert load(tmp_path / "one").fingerprint == load(tmp_path / "two").fingerprint


def test_one_split_can_be_chosen_or_named(tmp_path):
    import_published(write_tar(tmp_path / "m3di.tar", multimodal()), tmp_path / "out", split="val")
    assert [path.name for path in (tmp_path / "out").iterdir() if path.is_dir()] == ["val"]
    folder = write_folder(tmp_path / "raw", three_d_ident()) / "3dident/train"
    import_published(folder, tmp_path / "named")
    assert load(tmp_path / "named").split == "train"
    folder.rename(tmp_path / "mine")
    with pytest.raises(ValueError, match="which split"):
        import_published(tmp_path / "mine", tmp_path / "mine_out")
    with pytest.raises(ValueError, match="letters, digits"):
        import_published(tmp_path / "mine", tmp_path / "mine_out", split="../up")
    import_published(tmp_path / "mine", tmp_path / "mine_out", split="small")
    assert load(tmp_path / "mine_out").split == "small"


def test_folders_that_do_not_name_one_split_each_are_asked_about(tmp_path):
    folder = write_folder(tmp_path / "raw", three_d_ident(split="a") | three_d_ident(split="train"))
    with pytest.raises(ValueError, match="holds the folders 3dident/a, 3dident/train; add"):
        import_published(folder, tmp_path / "out")
    import_published(folder, tmp_path / "out", split="train")
    assert load(tmp_path / "out").split == "train"


def test_importing_twice_changes_nothing(tmp_path):
    source = write_tar(tmp_path / "set.tar.gz", three_d_ident())
    import_published(source, tmp_path / "out", shard_rows=5)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("train/*.h5")}
    import_published(source, tmp_path / "out", shard_rows=5)
    assert before == {p: p.stat().st_mtime_ns for p in (tmp_path / "out").glob("train/*.h5")}


@pytest.mark.parametrize("shard_size", [7, 12])
def test_other_data_in_the_way_is_refused(tmp_path, shard_size):
    make_dataset(tmp_path / "out", rows=12, shard_size=shard_size)
    before = load(tmp_path / "out").fingerprint
    source = write_folder(tmp_path / "raw", three_d_ident())
    with pytest.raises(DataError, match="other data"):
        import_published(source, tmp_path / "out")
    assert load(tmp_path / "out").fingerprint == before


@pytest.mark.parametrize("row", [5, 9])  # the first and the last of the second shard
@pytest.mark.parametrize("declared", [True, False])
def test_other_images_of_the_same_latents_are_refused(tmp_path, row, declared):
    files = three_d_ident()
    import_published(write_folder(tmp_path / "raw", files), tmp_path / "out", shard_rows=5)
    before = load(tmp_path / "out").fingerprint
    if not declared:
        (tmp_path / "out/dataset.json").unlink()
    other = files | {f"3dident/train/images/{row:02d}.png": png(painted(77))}
    with pytest.raises(DataError, match=r"shard-00001\.h5 holds other images already; import to"):
        source = write_tar(tmp_path / "other.tar", other, order_seed=1)
        import_published(source, tmp_path / "out", shard_rows=5)
    import_published(tmp_path / "raw", tmp_path / "out", shard_rows=5)
    assert load(tmp_path / "out").fingerprint == before


@pytest.mark.parametrize("stored", [3, 6])  # within a shard, and with one published
def test_a_stopped_import_goes_on_with_its_own_source_alone(tmp_path, monkeypatch, stored):
    files = three_d_ident()
    source, out = write_folder(tmp_path / "raw", files), tmp_path / "out"
    import_published(source, tmp_path / "whole", shard_rows=5)
    other = {name: png(painted(77)) if name.endswith(".png") else f for name, f in files.items()}
    put, rows = SplitWriter.put, []

    def killed(writer, row, image):
        rows.append(row)
        if len(rows) > stored:
            raise KeyboardInterrupt
        put(writer, row, image)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(SplitWriter, "put", killed)
        import_published(source, out, shard_rows=5)
    for order in range(3):
        strange = write_tar(tmp_path / f"other{order}.tar", other, order_seed=order)
        with pytest.raises(DataError, match="import to another folder"):
            import_published(strange, out, shard_rows=5)
    again = write_tar(tmp_path / "again.tar", files, order_seed=9)  # the same, however packed
    import_published(again, out, shard_rows=5)
    assert load(out).fingerprint == load(tmp_path / "whole").fingerprint


@pytest.mark.parametrize("order", [None, 0, 1, 2])
def test_an_import_goes_on_when_its_source_is_repaired(tmp_path, monkeypatch, order):
    files, out = three_d_ident(), tmp_path / "out"
    last = "3dident/train/images/11.png"
    source = write_tar(tmp_path / "set.tar", files | {last: files[last][:-9]})
    import_published(write_folder(tmp_path / "raw", files), tmp_path / "whole", shard_rows=5)
    monkeypatch.setattr("ident3d.published.importing._WINDOW", 1)
    with pytest.raises(DataError, match=r"11\.png is damaged .*; unpack or download it again"):
        import_published(source, out, shard_rows=5)
    kept = {path: path.stat().st_mtime_ns for path in out.glob("train/*.h5")}
    assert len(kept) == 2 and not (out / "dataset.json").exists()

    for number in (2, 10):  # in a finished shard, neither its first nor its last; in a journal
        other = files | {f"3dident/train/images/{number:02d}.png": png(painted(77))}
        with pytest.raises(DataError, match=r"other images.*; import to another folder"):
            strange = write_tar(tmp_path / "strange.tar", other, order_seed=order)
            import_published(strange, out, shard_rows=5)

    put, puts = ShardWriter.put, []
    monkeypatch.setattr(ShardWriter, "put", lambda *call: (puts.append(call), put(*call)))
    import_published(write_tar(source, files, order_seed=order), out, shard_rows=5)
    assert [position for _, position, _ in puts] == [1]  # the repaired one alone
    assert kept == {path: path.stat().st_mtime_ns for path in kept}
    assert load(out).fingerprint == load(tmp_path / "whole").fingerprint
    assert list(problems(load(out))) == []


def test_an_unfinished_render_is_left_alone(tmp_path):
    source, out = write_folder(tmp_path / "raw", three_d_ident()), tmp_path / "out"
    check_unfinished_render_is_kept(
        out, lambda: import_published(source, out), "pairs-00000.journal"
    )


def test_a_disk_too_small_is_told_before_the_start(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=100))
    source = write_folder(tmp_path / "raw", three_d_ident())
    with pytest.raises(DataError, match=r"needs 2\.3 KB more and its disk has 100 bytes free"):
        import_published(source, tmp_path / "out")
    assert not list((tmp_path / "out").rglob("*.h5"))


@pytest.mark.parametrize("packing", ["folder", "shuffled tar.gz"])
def test_a_killed_import_goes_on(tmp_path, monkeypatch, packing):
    source = PACKINGS[packing](tmp_path, three_d_ident(rows=60))
    script = textwrap.dedent("""
        import sys, time
        from ident3d.published import export_published, import_published
        from ident3d.shards import ShardWriter
        put = ShardWriter.put
        def slow_put(self, position, image):
            put(self, position, image)
            time.sleep(0.02)
        ShardWriter.put = slow_put
        import_published(sys.argv[1], sys.argv[2], shard_rows=20)
    """)
    process = subprocess.Popen([sys.executable, "-c", script, source, tmp_path / "out"])
    journals = tmp_path / "out/train/.work"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if journals.exists() and sum(j.stat().st_size for j in journals.glob("*.journal")) > 3000:
            break
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not (tmp_path / "out/dataset.json").exists()
    kept = sum(journal.stat().st_size for journal in journals.glob("*.journal"))
    assert kept > 0
    put, puts = ShardWriter.put, []
    monkeypatch.setattr(ShardWriter, "put", lambda *call: (puts.append(call), put(*call)))
    import_published(source, tmp_path / "out", shard_rows=20)
    assert 0 < len(puts) < 60  # only what was not stored
    data = load(tmp_path / "out")
    assert list(problems(data)) == []
    assert painted_row(data.images[:]).tolist() == list(range(60))


def test_the_command_says_what_it_did(tmp_path):
    source = write_tar(tmp_path / "trainset.tar.gz", causal())
    result = CliRunner().invoke(cli, ["import", str(source), str(tmp_path / "out"), "--compress"])
    assert result.exit_code == 0, result.output
    assert "Causal3DIdent's layout, 77 images, 8 x 8" in result.output
    verified = CliRunner().invoke(cli, ["verify", str(tmp_path / "out")])
    assert verified.exit_code == 0, verified.output
