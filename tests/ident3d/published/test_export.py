"""Our data in the released layout: read as the released loaders read it, and imported back."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from ident3d.cli import cli
from ident3d.dataset import load
from ident3d.errors import DataError
from ident3d.factors import to_scene
from ident3d.files import Lock
from ident3d.published import export_published, import_published
from tests.support.helpers import large_images, make_dataset, painted_row
from tests.support.published_sets import causal, multimodal, write_folder


def released_reading(root, suffix=""):
    """Open what the released loaders open: names from the row count, no directory listing."""
    raw = np.load(root / f"raw_latents{suffix}.npy")
    digits = int(np.ceil(np.log10(len(raw))))
    names = [root / f"images{suffix}" / f"{str(i).zfill(digits)}.png" for i in range(len(raw))]
    return raw, np.stack([np.asarray(Image.open(name)) for name in names])


@pytest.mark.parametrize("rows", [1, 9, 10, 11, 100, 101])
def test_released_code_reads_an_export(tmp_path, rows):
    data = make_dataset(tmp_path / "data", rows=rows, shard_size=40)
    folder = export_published(data.path, tmp_path / "out")
    assert folder == tmp_path / "out/train"
    raw, images = released_reading(folder)
    np.testing.assert_array_equal(raw, data.latents)
    assert raw.dtype == np.float32
    np.testing.assert_array_equal(images, data.images[:])
    np.testing.assert_allclose(np.load(folder / "latents.npy"), to_scene(raw), atol=1e-6)
    assert sorted(path.name for path in folder.iterdir()) == [
        "images",
        "latents.npy",
        "raw_latents.npy",
    ]


def test_export_and_import_give_equal_pixels_and_latents(tmp_path):
    data = make_dataset(tmp_path / "data", rows=23, compress=True)
    export_published(data.path, tmp_path / "out")
    import_published(tmp_path / "out", tmp_path / "back", shard_rows=9)
    back = load(tmp_path / "back")
    np.testing.assert_array_equal(back.latents, data.latents)
    np.testing.assert_array_equal(back.images[:], data.images[:])


def test_the_largest_images_come_back(tmp_path):
    data = large_images(tmp_path / "data")
    import_published(export_published(data.path, tmp_path / "out"), tmp_path / "back")
    np.testing.assert_array_equal(load(tmp_path / "back").images[:], data.images[:])


def test_classes_go_into_folders_and_come_back(tmp_path):
    import_published(write_folder(tmp_path / "raw", causal()), tmp_path / "data")
    data = load(tmp_path / "data")
    folder = export_published(data.path, tmp_path / "out")
    assert folder.name == "trainset"
    for kind in range(7):
        raw, images = released_reading(folder, f"_{kind}")
        rows = np.flatnonzero(data.classes == kind)
        np.testing.assert_array_equal(raw, data.latents[rows])
        assert painted_row(images).tolist() == rows.tolist()
    import_published(folder, tmp_path / "back")
    assert load(tmp_path / "back").fingerprint == data.fingerprint


def test_a_killed_export_goes_on(tmp_path):
    data = make_dataset(tmp_path / "data", rows=60)
    script = textwrap.dedent("""
        import os, sys, time
        from ident3d.published import export_published
        replace = os.replace
        os.replace = lambda *names: (replace(*names), time.sleep(0.02))
        export_published(sys.argv[1], sys.argv[2])
    """)
    process = subprocess.Popen([sys.executable, "-c", script, data.path, tmp_path / "out"])
    images = tmp_path / "out/train/images"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and len(list(images.glob("*.png"))) < 5:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    kept = {path: path.stat().st_mtime_ns for path in images.glob("*.png")}
    assert 5 <= len(kept) < 60
    assert not (tmp_path / "out/train/raw_latents.npy").exists()
    half = tmp_path / "out/train/.raw_latents.npy.1.partial"
    half.write_bytes(b"what a later kill leaves")
    folder = export_published(data.path, tmp_path / "out")
    assert painted_row(released_reading(folder)[1]).tolist() == list(range(60))
    assert kept == {path: path.stat().st_mtime_ns for path in kept}
    assert not half.exists()
    assert not list(folder.rglob("*.partial"))


def test_two_exports_to_one_folder_do_not_mix(tmp_path):
    data = make_dataset(tmp_path / "data")
    mark = tmp_path / "out/train/.export.json"
    mark.parent.mkdir(parents=True)
    mark.write_text(json.dumps({"fingerprint": data.fingerprint}))
    lock = Lock(tmp_path / "out/.train.lock")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(export_published, data.path, tmp_path / "out")
        with pytest.raises(TimeoutError):
            waiting.result(timeout=0.5)
        assert not (tmp_path / "out/train/images").exists()
        lock.release()
        assert waiting.result() == tmp_path / "out/train"
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["train"]


def test_exporting_twice_is_harmless_and_other_data_is_refused(tmp_path):
    data = make_dataset(tmp_path / "data")
    folder = export_published(data.path, tmp_path / "out")
    assert export_published(data.path, tmp_path / "out") == folder
    other = make_dataset(tmp_path / "other", seed=1)
    with pytest.raises(DataError, match="not empty"):
        export_published(other.path, tmp_path / "out")
    brighter = make_dataset(tmp_path / "brighter", size=16)  # the same latents in other pixels
    assert (brighter.latents == data.latents).all()
    with pytest.raises(DataError, match="not empty"):
        export_published(brighter.path, tmp_path / "out")
    for mark in ('{"fingerprint": "0"}', "{"):
        (folder / ".export.json").write_text(mark)
        with pytest.raises(DataError, match="unfinished export of other data"):
            export_published(data.path, tmp_path / "out")


LATENTS = ["latents.npy", "raw_latents.npy"]


@pytest.mark.parametrize("gone", ["images/00.png", "images/07.png", "images/19.png", *LATENTS])
def test_what_is_gone_from_an_export_is_made_again(tmp_path, gone):
    data = make_dataset(tmp_path / "data")
    folder = export_published(data.path, tmp_path / "out")
    kept = (folder / "images/08.png").stat().st_mtime_ns
    (folder / gone).unlink()
    brighter = make_dataset(tmp_path / "brighter", size=16)  # the same latents in other pixels
    with pytest.raises(DataError, match="not empty"):
        export_published(brighter.path, tmp_path / "out")
    export_published(data.path, tmp_path / "out")
    assert (folder / gone).exists() and (folder / "images/08.png").stat().st_mtime_ns == kept
    assert painted_row(released_reading(folder)[1]).tolist() == list(range(20))
    assert sorted(path.name for path in (tmp_path / "out").rglob(".*")) == []


@pytest.mark.parametrize("name", LATENTS)
def test_a_damaged_file_of_latents_is_made_again(tmp_path, name):
    data = make_dataset(tmp_path / "data")
    folder = export_published(data.path, tmp_path / "out")
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(b"")
    export_published(data.path, tmp_path / "out")
    assert (folder / name).read_bytes() == whole


@pytest.mark.parametrize("content", [b"", b"no array\n"])
def test_latents_that_are_no_array_are_one_sentence(tmp_path, content):
    (tmp_path / "out/train").mkdir(parents=True)
    (tmp_path / "out/train/raw_latents.npy").write_bytes(content)
    with pytest.raises(DataError, match="is there and not empty; export to another folder"):
        export_published(make_dataset(tmp_path / "data").path, tmp_path / "out")


def test_other_ranges_have_no_place_in_the_layout(tmp_path):
    import_published(write_folder(tmp_path / "raw", multimodal()), tmp_path / "data")
    with pytest.raises(ValueError, match=r"object_hue in \[0, 6\.28\]"):
        export_published(tmp_path / "data/val", tmp_path / "out")
    assert not os.path.exists(tmp_path / "out")


def test_the_command(tmp_path):
    data = make_dataset(tmp_path / "data")
    arguments = ["export", str(data.path), str(tmp_path / "out"), "--format", "published"]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    assert str(tmp_path / "out/train") in result.output
