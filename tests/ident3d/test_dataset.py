import base64
import gc
import hashlib
import io
import json
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys

import h5py
import numpy as np
import pytest
from PIL import Image

import ident3d
from ident3d.cli import main
from ident3d.dataset import load
from ident3d.errors import DataError
from ident3d.files import canonical_sha256, file_digest
from ident3d.outside import write_sealed
from ident3d.shards import MANIFEST
from ident3d.shards.verify import problems
from tests.support.helpers import make_dataset, painted_row
from tests.support.interruptions import in_threads


@pytest.fixture(params=[False, True], ids=["contiguous", "zstd"])
def data(tmp_path, request):
    return make_dataset(tmp_path / "set", rows=20, compress=request.param, pairs="normal:0.1")


def test_rows_come_in_the_order_asked(data):
    assert data.images.shape == (20, 8, 8, 3)
    assert painted_row(data.images[[5, 3, 19, 3]]).tolist() == [5, 3, 19, 3]
    assert painted_row(data.images[-1]) == 19
    assert painted_row(data.images[6:9]).tolist() == [6, 7, 8]
    assert painted_row(data.images[np.arange(20) % 9 == 0]).tolist() == [0, 9, 18]
    assert data.images[[]].shape == (0, 8, 8, 3)
    assert painted_row(np.asarray(data.images)).tolist() == list(range(20))
    assert painted_row(data.images[np.array([7, 2], np.uint8)]).tolist() == [7, 2]
    with pytest.raises(IndexError):
        data.images[20]
    with pytest.raises(IndexError, match="read whole"):  # not images 2 and 3
        data.images[2, 3]


def test_pairs_belong_to_their_rows(data):
    assert data.pairs.conditional == "normal:0.1"
    assert np.array_equal(data.pairs.latents, data.latents * np.float32(0.9))
    assert (data.pairs.images[:][:, 0, 0, 2] == 1).all()
    assert painted_row(data.pairs.images[[7, 2]]).tolist() == [7, 2]


def test_images_in_memory_are_the_same(data, monkeypatch):
    keys = [[5, 3, 19, 3], -1, slice(6, 9), np.arange(20) % 9 == 0, [], np.array([[1], [2]])]
    read = [data.images[key] for key in keys]
    positives = data.pairs.images[:]
    assert data.to_memory(limit=2 * data.images.nbytes - 1) is data
    assert data.images._memory is None  # anchors alone would fit, but not with their positives
    assert data.to_memory(limit=2 * data.images.nbytes) is data
    assert data.images.nbytes == data.images[:].nbytes
    copy = pickle.loads(pickle.dumps(data))
    monkeypatch.setattr(data.images, "_open", lambda shard: pytest.fail("read a file"))
    for key, expected in zip(keys, read, strict=True):
        assert np.array_equal(data.images[key], expected)
        assert data.images[key].shape == expected.shape
    data.images[2:5][:] = 0  # the caller's copy, not the data
    assert painted_row(data.images[2:5]).tolist() == [2, 3, 4]
    with pytest.raises(IndexError):
        data.images[20]
    shutil.rmtree(data.path)
    assert np.array_equal(data.pairs.images[:], positives)
    with pytest.raises(DataError, match="is missing"):  # a pickled copy has its own files to open
        copy.images[0]


@pytest.mark.parametrize("memory", [False, True])
def test_images_are_read_into_memory_that_is_there(data, memory):
    images = data.to_memory().images if memory else data.images
    rows = np.array([5, 3, 19, -1])
    together, apart = np.zeros((4, 8, 8, 3), np.uint8), np.zeros((9, 8, 8, 3), np.uint8)
    images.read_into(rows, together)
    images.read_into(rows, [apart[i] for i in (7, 0, 2, 4)])
    assert np.array_equal(together, images[rows])
    assert np.array_equal(apart[[7, 0, 2, 4]], together)
    assert not apart[[1, 3, 5, 6, 8]].any()
    before = together.copy()
    with pytest.raises(IndexError, match="no row"):  # not the last one instead
        images.read_into(np.array([1, 2, 3, 20]), together)
    with pytest.raises(ValueError):
        images.read_into(rows[:3], together[:2])
    assert np.array_equal(together[2:], before[2:])


def test_varying_factors(tmp_path):
    assert ident3d.sample().varying == ident3d.FACTORS
    assert make_dataset(tmp_path, rows=1).varying == ()


def _read(data, queue):
    queue.put(painted_row(data.images[[19, 0, 8]]).tolist())


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_handles_survive_processes(data, method):
    data.images[0]  # opened in the parent first
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    workers = [context.Process(target=_read, args=(data, queue)) for _ in range(2)]
    for worker in workers:
        worker.start()
    assert [queue.get(timeout=60) for _ in workers] == [[19, 0, 8]] * 2
    for worker in workers:
        worker.join()


def test_threads_and_pickles(data):
    wrong = []

    def read(seed):
        for _ in range(50):
            rows = np.random.default_rng(seed).integers(0, 20, 16)
            if not np.array_equal(painted_row(data.images[rows]), rows):
                wrong.append(rows)

    in_threads(read, 4)
    assert not wrong
    assert painted_row(pickle.loads(pickle.dumps(data)).images[4]) == 4


def test_many_shards_do_not_exhaust_handles(tmp_path, monkeypatch):
    monkeypatch.setattr("ident3d.shards.reader._OPEN_FILES", 2)
    data = make_dataset(tmp_path, rows=12, shard_size=1)
    assert painted_row(data.images[::-1]).tolist() == list(range(11, -1, -1))
    assert len(data.images._handles) == 2


def test_classes_are_a_column(tmp_path):
    data = make_dataset(tmp_path, classes=3)
    assert data.class_names == ("class0", "class1", "class2")
    assert data.classes.tolist() == [row % 3 for row in range(20)]


def test_splits_are_named_when_there_are_several(tmp_path):
    make_dataset(tmp_path, split="train")
    assert load(tmp_path).split == "train"
    make_dataset(tmp_path, split="test", rows=4)
    assert (len(load(tmp_path / "train")), len(load(tmp_path / "test"))) == (20, 4)
    with pytest.raises(ValueError, match=r"name one: .*test or .*train"):
        load(tmp_path)
    with pytest.raises(DataError, match="no split 'val'"):
        load(tmp_path / "val")


def _finish_split(root, name):
    make_dataset(root, split=name, rows=3)


def test_a_split_is_found_from_inside_its_folder(tmp_path, monkeypatch):
    data = make_dataset(tmp_path / "set")
    monkeypatch.chdir(data.path)
    here = load(".")
    assert here.fingerprint == load("..").fingerprint == data.fingerprint
    monkeypatch.chdir(tmp_path)  # as some launchers do
    np.testing.assert_array_equal(here.images[[1]], data.images[[1]])


def test_splits_finished_at_the_same_moment_are_all_kept(tmp_path):
    context = multiprocessing.get_context("fork")
    names = [f"split{number}" for number in range(8)]
    workers = [context.Process(target=_finish_split, args=(tmp_path, name)) for name in names]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [len(load(tmp_path / name)) for name in names] == [3] * 8


def test_fingerprints_tell_data_apart(tmp_path):
    one, two = make_dataset(tmp_path / "a"), make_dataset(tmp_path / "b", seed=1)
    assert one.fingerprint != two.fingerprint


# Faults ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["images", "latents", "rows", "attributes"])
def test_one_flipped_byte_is_found(tmp_path, part):
    data = make_dataset(tmp_path)
    path = data.path / "shard-00001.h5"
    content = bytearray(path.read_bytes())
    with h5py.File(path) as file:
        place = file[part].id.get_offset() + 11 if part in file else content.index(b"object_hue")
    content[place] ^= 1
    path.write_bytes(content)
    (problem,) = problems(load(tmp_path))
    assert problem.startswith("shard-00001.h5 was changed")


def test_truncated_and_missing_files_are_found(tmp_path):
    data = make_dataset(tmp_path)
    os.truncate(data.path / "shard-00002.h5", 1000)
    (data.path / "shard-00000.h5").unlink()
    found = list(problems(data))
    assert [text.split()[0] for text in found] == ["shard-00000.h5", "shard-00002.h5"]
    with pytest.raises(DataError, match="truncated or not an HDF5"):
        data.images[19]
    with pytest.raises(DataError, match="is missing"):
        data.images[0]


def test_a_swapped_shard_is_found(tmp_path):
    data = make_dataset(tmp_path)
    shutil.copy(data.path / "shard-00000.h5", data.path / "shard-00001.h5")
    assert any("shard-00001.h5" in text for text in problems(data))


def test_a_file_of_another_data_set_is_found(tmp_path):
    data = make_dataset(tmp_path)
    shutil.copy(data.path / "shard-00000.h5", data.path / "shard-00009.h5")
    (problem,) = problems(data)
    assert problem.startswith("shard-00009.h5 is not of this data set")


@pytest.mark.parametrize("fault", ["flip", "no record", "no index"])
def test_a_damaged_index_is_found(tmp_path, fault):
    data = make_dataset(tmp_path)
    (data.path / "index.faiss").write_bytes(b"content")
    digest = hashlib.sha256(b"content").hexdigest()
    write_sealed(data.path / "index.json", {"sha256": digest}, "seal")
    assert not list(problems(data))
    if fault == "flip":
        (data.path / "index.faiss").write_bytes(b"cOntent")
    else:
        (data.path / ("index.json" if fault == "no record" else "index.faiss")).unlink()
    (problem,) = problems(data)
    assert problem.startswith("index.faiss")


def edit(root, change):
    """Edit a manifest as a stranger would, own digest included."""
    manifest = json.loads((root / MANIFEST).read_text())
    del manifest["sha256"]
    change(manifest)
    manifest["sha256"] = canonical_sha256(manifest)
    (root / MANIFEST).write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda m: m.update(version=3), "format version 3.*upgrade"),
        (lambda m: m.update(format="other"), "not ident3d's"),
        (lambda m: m["splits"]["train"]["shards"][0].update(name="../x.h5"), "file name"),
        (lambda m: m["splits"]["train"]["shards"][0].update(rows=-1), "not a valid manifest"),
        (lambda m: m["splits"].update({"../up": m["splits"]["train"]}), "split name"),
        (lambda m: m["splits"]["train"].update(resolution=[8, 8, 4]), "4 channels"),
        (lambda m: m["splits"]["train"].update(resolution=[True, 8, 3]), "True is no whole number"),
        (lambda m: m["splits"]["train"].update(resolution=[8, 8, 3.0]), r"3\.0 is no whole number"),
        (lambda m: m["splits"]["train"]["shards"][0].update(rows=True), "True is no whole number"),
        (lambda m: m["splits"]["train"]["description"].update(seed=True), "True is no whole"),
        (lambda m: m.update(version=True), "not ident3d's"),
        (lambda m: m["splits"]["train"].pop("shards"), "not a valid manifest"),
    ],
)
def test_foreign_manifests_are_one_sentence(tmp_path, change, rule):
    make_dataset(tmp_path)
    edit(tmp_path, change)
    with pytest.raises(DataError, match=rule):
        load(tmp_path / "train")


def test_an_edited_manifest_is_found(tmp_path):
    make_dataset(tmp_path)
    text = (tmp_path / MANIFEST).read_text()
    (tmp_path / MANIFEST).write_text(text.replace('"seed": 0', '"seed": 1'))
    with pytest.raises(DataError, match="own digest disagrees"):
        load(tmp_path)


def test_a_manifest_that_disagrees_with_its_shards(tmp_path):
    make_dataset(tmp_path)
    edit(tmp_path, lambda m: m["splits"]["train"]["shards"][0].update(rows=6))
    data = load(tmp_path)
    with pytest.raises(DataError, match="manifest says 6"):
        _ = data.latents
    with pytest.raises(DataError, match="disagrees with the manifest"):
        data.images[0]


def written_wrongly(data, name, change):
    """Change a column of the second shard and its positives, and make every digest fit again."""
    for path in sorted(data.path.glob("*-00001.h5")):
        with h5py.File(path, "r+") as file:
            values = change(file[name][()])
            del file[name]
            file[name] = values
            del file["digests"]

    def reseal(record):
        for file in (f for k in ("shards", "pair_shards") for f in record["splits"]["train"][k]):
            path = data.path / file["name"]
            file.update(bytes=path.stat().st_size, sha256=file_digest(path))

    edit(data.path.parent, reseal)
    return load(data.path)


def holding(value):
    def change(latents):
        latents[3, 2] = value
        return latents

    return change


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (holding(np.nan), "row 3 holds NaN or infinity as z"),
        (holding(-np.inf), "row 3 holds NaN or infinity as z"),
        (holding(50), "row 3 has z = 50"),
        (lambda latents: latents[:, :4], r"shape \(n, 10\), got \(7, 4\)"),
    ],
)
def test_latents_that_are_none_are_refused_when_read(data, change, match):
    wrong = written_wrongly(data, "latents", change)
    for read, kind in ((lambda: wrong.latents, "shard"), (lambda: wrong.pairs, "pairs")):
        with pytest.raises(DataError, match=rf"{kind}-00001\.h5 .*{match}.*; make or download"):
            read()
    for use in (wrong.to_frame, lambda: ident3d.Pairs(wrong, None, seed=0)):
        with pytest.raises(DataError):
            use()
    out = data.path.parent / "out"
    for arguments in (["index", str(wrong.path)], ["export", str(wrong.path), str(out)]):
        with pytest.raises(SystemExit) as left:
            main(arguments)
        assert left.value.code == 1  # one sentence, no traceback


@pytest.mark.parametrize("number", [3, -1])
def test_a_class_without_a_name_is_refused_when_read(tmp_path, number):
    def change(classes):
        classes[2] = number
        return classes

    wrong = written_wrongly(make_dataset(tmp_path, classes=3), "classes", change)
    with pytest.raises(DataError, match=rf"class {number} in row 9, and names for 0 to 2; make"):
        _ = wrong.classes


@pytest.mark.parametrize("change", ["lost", "swapped", "shorter"])
def test_positives_of_other_rows_are_refused(data, change):
    def edited(record):
        pairs = record["splits"]["train"]["pair_shards"]
        if change == "lost":
            del pairs[0]
        elif change == "swapped":
            pairs[:2] = pairs[1::-1]
        else:
            pairs[0]["rows"] -= 1

    edit(data.path.parent, edited)
    with pytest.raises(DataError, match="pairs are of other rows than shards"):
        load(data.path)


def test_links_to_other_files_are_refused(tmp_path):
    data = make_dataset(tmp_path)
    with h5py.File(data.path / "shard-00000.h5", "a") as file:
        del file["images"]
        file["images"] = h5py.ExternalLink("shard-00001.h5", "images")
    with pytest.raises(DataError, match="not an ident3d shard"):
        load(tmp_path).images[0]


def test_unfinished_and_foreign_folders(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        load(tmp_path / "nothing")
    (tmp_path / "photos").mkdir()
    with pytest.raises(DataError, match="is not a data set"):
        load(tmp_path / "photos")
    (tmp_path / "set/train/.work").mkdir(parents=True)
    with pytest.raises(DataError, match="unfinished"):
        load(tmp_path / "set/train")
    with pytest.raises(DataError, match="does not exist"):  # whatever lies beside it
        load(tmp_path / "nothing")


@pytest.mark.parametrize("missing", ["fcntl", "preadv, fork"])
def test_reading_needs_no_posix(missing):
    """Windows has no fcntl, no pread and no fork: reading and pairing must work there."""
    script = f"""
import os, sys
if {missing!r} == "fcntl":
    sys.modules["fcntl"] = None
else:
    del os.preadv, os.fork, os.register_at_fork
import ident3d
data = ident3d.sample()
assert data.images[[5, 3]].shape == (2, *data.resolution)
assert data.pairs.images[[0]].any()
batch = ident3d.Pairs(data, ident3d.Normal(0.1), seed=0).batch(8)
assert (batch.positives.rows != batch.anchors.rows).all()
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_notebooks_show_images_factors_and_counts(tmp_path):
    data = make_dataset(tmp_path / "<b>", rows=20, classes=2)
    text = data._repr_html_()
    picture = base64.b64decode(text.split("base64,")[1].split('"')[0])
    with Image.open(io.BytesIO(picture)) as sheet:
        assert sheet.size == (8 * 12 - 4, 8)
    assert "20 images 8 x 8" in text
    assert "<b>/train" not in text  # names are escaped
    assert text.count("<tr>") == 11
    assert text.count("varies") == 10


def test_a_table_without_pandas_is_refused_in_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"`to_frame` needs pandas: `pip install 'ident3d\[hub"):
        make_dataset(tmp_path).to_frame()


def test_nothing_is_printed_when_the_interpreter_ends(tmp_path):
    """A module's names may be None by then, as they are where dill is imported."""
    make_dataset(tmp_path)
    code = f"""if True:
        import ident3d
        from ident3d.shards import reader
        data = ident3d.load({str(tmp_path / "train")!r})
        data.images[[0]]
        for name in [name for name in vars(reader) if not name.startswith("__")]:
            setattr(reader, name, None)
    """
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stderr == ""


def test_files_are_closed_with_the_images(tmp_path):
    images = make_dataset(tmp_path).images
    gc.collect()  # what earlier tests left behind
    before = len(os.listdir("/proc/self/fd"))
    images[:]
    assert len(os.listdir("/proc/self/fd")) == before + 3
    del images
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before
