"""Parquet files as `datasets.load_dataset` reads them, and back."""

import subprocess
import sys

import datasets
import numpy as np
import pytest

import ident3d
from ident3d.errors import DataError
from ident3d.exchange import import_exchanged, writing
from tests.support.exchanged import KINDS, round_trip, run
from tests.support.helpers import make_dataset


@pytest.mark.parametrize("kind", KINDS)
def test_load_dataset_reads_it_and_it_comes_back(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(writing, "_FILE_BYTES", 8 * 8 * 3 * 6)  # several files
    data = make_dataset(tmp_path / "data", **KINDS[kind])
    out = round_trip(data, tmp_path, "parquet")
    found = datasets.load_dataset(str(out), cache_dir=str(tmp_path / "cache"))["train"]
    assert isinstance(found.features["image"], datasets.Image)
    assert found["row"][:] == data.rows.tolist()
    np.testing.assert_array_equal(np.array(found["latents"][:], np.float32), data.latents)
    for row, item in enumerate(found):
        np.testing.assert_array_equal(np.asarray(item["image"]), data.images[row])
    if kind == "pairs":
        for row, item in enumerate(found):
            np.testing.assert_array_equal(np.asarray(item["positive"]), data.pairs.images[row])
        stored = np.array(found["positive_latents"][:], np.float32)
        np.testing.assert_array_equal(stored, data.pairs.latents)
    if kind == "classes":
        assert found.features["class"].names == list(data.class_names)
        assert found["class"][:] == data.classes.tolist()


def test_the_sample_and_two_splits(tmp_path):
    """Real renders; splits come by their names, and streaming works."""
    make_dataset(tmp_path / "data", split="test")
    run("export", tmp_path / "data" / "test", tmp_path / "two", "--format", "parquet")
    make_dataset(tmp_path / "data", split="train", rows=9)
    run("export", tmp_path / "data" / "train", tmp_path / "two", "--format", "parquet")
    found = datasets.load_dataset(str(tmp_path / "two"), cache_dir=str(tmp_path / "cache"))
    assert {name: len(split) for name, split in found.items()} == {"train": 9, "test": 20}
    data = ident3d.sample()
    out = round_trip(data, tmp_path, "parquet")
    stream = datasets.load_dataset(str(out), split="train", streaming=True)
    for row, item in enumerate(stream.take(5)):
        np.testing.assert_array_equal(np.asarray(item["image"]), data.images[row])
    text = (out / "README.md").read_text()
    assert "| train | 176 |" in text and "| object_hue |" in text


def test_a_damaged_file_is_refused(tmp_path):
    run("export", make_dataset(tmp_path / "data").path, tmp_path / "out", "--format", "parquet")
    (path,) = (tmp_path / "out" / "data").glob("*.parquet")
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(DataError, match="SHA-256 disagrees"):
        import_exchanged(tmp_path / "out", tmp_path / "back")


def test_nothing_is_printed_at_exit_where_dill_is_imported(tmp_path):
    make_dataset(tmp_path / "data")
    code = f"""if True:
        import dill, datasets, torch, ident3d
        data = ident3d.load({str(tmp_path / "data")!r})
        data.images[[0, 1]]
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Traceback" not in done.stderr and "__del__" not in done.stderr
