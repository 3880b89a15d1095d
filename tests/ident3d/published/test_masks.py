"""KITTI Masks: made files of the published format, through the reader and back."""

import os
import pickle

import numpy as np
import pytest
import scipy.ndimage
from ident3d.benchmark.sequences.walkers import make_sequences

from ident3d.cli import main
from ident3d.dataset import load
from ident3d.errors import DataError
from ident3d.factors import to_scene
from ident3d.files import sha256
from ident3d.published import export_published, import_published
from ident3d.published.catalogue import CATALOGUE
from ident3d.published.masks import FILE, LATENTS, MADE_BY, MASK_FACTORS, MASKS, measure
from ident3d.shards.verify import problems
from tests.support.published_sets import call_released

SEQUENCES = make_sequences(4, 7)


def published(**changes):
    latents = [measure(masks).astype(np.float32) for masks in SEQUENCES]
    return {MASKS: SEQUENCES, LATENTS: latents} | changes


def write(folder, content, protocol=3):
    folder.mkdir(exist_ok=True)
    (folder / FILE).write_bytes(pickle.dumps(content, protocol))
    return folder / FILE


@pytest.mark.parametrize("protocol", range(6))
def test_a_published_file_becomes_frames_of_sequences(tmp_path, monkeypatch, protocol):
    call_released(monkeypatch, "kitti-masks", sum(map(len, SEQUENCES)), 64)
    (split,) = import_published(write(tmp_path / "in", published(), protocol), tmp_path / "out")
    data = load(tmp_path / "out" / "train")
    assert split.title == data.settings["published"] == "KITTI Masks"
    assert data.settings["zenodo_record"] == CATALOGUE["kitti-masks"].record == 3931823
    images = data.images[:]
    np.testing.assert_array_equal(images[..., 0] == 255, np.concatenate(SEQUENCES))
    assert set(np.unique(images)) == {0, 255} and (images[..., :1] == images).all()
    assert [int((data.sequences == n).sum()) for n in range(4)] == [len(s) for s in SEQUENCES]
    np.testing.assert_allclose(
        to_scene(data.latents, MASK_FACTORS), np.concatenate(published()[LATENTS]), atol=1e-3
    )
    assert list(problems(data)) == []


def test_masks_of_another_number_are_not_called_published(tmp_path):
    import_published(write(tmp_path / "in", published()), tmp_path / "out")
    assert load(tmp_path / "out" / "train").settings == {"layout": "KITTI Masks"}


def test_latents_are_those_that_scipy_measures():
    for mask, found in zip(SEQUENCES[0], measure(SEQUENCES[0]), strict=True):
        np.testing.assert_allclose(found[:2], scipy.ndimage.center_of_mass(mask))
        assert found[2] == mask.sum()


def test_lists_of_masks_and_arrays_of_objects_are_read_too(tmp_path):
    objects = np.empty(4, object)
    objects[:] = [list(masks) for masks in SEQUENCES]
    rows = [[[float(v) for v in row] for row in part] for part in published()[LATENTS]]
    as_bytes = [masks.astype(np.uint8) for masks in SEQUENCES]
    fingerprints = set()
    for number, changes in enumerate(({}, {MASKS: objects, LATENTS: rows}, {MASKS: as_bytes})):
        out = tmp_path / f"out{number}"
        import_published(write(tmp_path / "in", published(**changes)), out)
        fingerprints.add(load(out / "train").fingerprint)
    assert len(fingerprints) == 1


def test_it_goes_back_into_the_published_file_byte_for_byte(tmp_path):
    made = write(tmp_path / "in", published(**{MADE_BY: "a test"}))
    (split,) = import_published(made, tmp_path / "out", split="test")
    assert "stand-in" in split.title
    data = load(tmp_path / "out" / "test")
    assert data.settings == {"stand_in_for": "KITTI Masks", "made_by": "a test"}
    back = export_published(data.path, tmp_path / "back") / FILE
    with open(back, "rb") as stream:
        again = pickle.load(stream)  # our own
    for name in (MASKS, LATENTS):
        for one, two in zip(again[name], published()[name], strict=True):
            np.testing.assert_array_equal(one, two)
            assert one.dtype == two.dtype
    import_published(back, tmp_path / "again", split="test")
    assert load(tmp_path / "again" / "test").fingerprint == data.fingerprint


def test_an_export_replaces_no_other_file(tmp_path):
    for split, kept in (("train", SEQUENCES), ("test", SEQUENCES[:2])):
        latents = [measure(masks).astype(np.float32) for masks in kept]
        source = write(tmp_path / split, {MASKS: kept, LATENTS: latents})
        import_published(source, tmp_path / "out", split=split)
    path = export_published(tmp_path / "out" / "train", tmp_path / "back") / FILE
    whole, written = path.read_bytes(), path.stat().st_mtime_ns
    export_published(tmp_path / "out" / "train", tmp_path / "back")  # again: nothing to do
    with pytest.raises(DataError, match="holds other data; export to another folder"):
        export_published(tmp_path / "out" / "test", tmp_path / "back")
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (whole, written)


def test_a_sequence_number_that_is_changed_is_found(tmp_path):
    import h5py

    import_published(write(tmp_path / "in", published()), tmp_path / "out")
    shard = tmp_path / "out" / "train" / "shard-00000.h5"
    with h5py.File(shard, "r+") as file:
        file["sequences"][3] = 2
    (tmp_path / "out" / "dataset.json").unlink()
    with pytest.raises(DataError, match=r"not what was written|other sequences"):
        import_published(tmp_path / "in" / FILE, tmp_path / "out")


def test_other_formats_have_no_column_for_sequences(tmp_path):
    import_published(write(tmp_path / "in", published()), tmp_path / "out")
    for layout in ("parquet", "webdataset"):
        with pytest.raises(SystemExit) as left:
            main(["export", str(tmp_path / "out"), str(tmp_path / layout), "--format", layout])
        assert left.value.code == 2


class Payload:
    def __init__(self, witness):
        self.witness = witness

    def __reduce__(self):
        return os.system, (f"touch {self.witness}",)


def test_a_payload_is_refused_and_does_not_run(tmp_path, capsys):
    witness = tmp_path / "ran"
    for changes in ({MASKS: Payload(witness)}, {MADE_BY: Payload(witness)}):
        source = write(tmp_path / "in", published(**changes))
        with pytest.raises(SystemExit) as left:
            main(["import", str(source), str(tmp_path / "out")])
        assert left.value.code == 1
        assert "nothing in it was run" in capsys.readouterr().err
    assert not witness.exists() and not (tmp_path / "out" / "dataset.json").exists()


EMPTY = [*SEQUENCES[:3], np.zeros((2, 64, 64), bool)]


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ([1, 2], "must be a dict"),
        ({MASKS: SEQUENCES}, "must be a dict"),
        (published(extra=[1]), "must be a dict"),
        (published(**{MASKS: SEQUENCES[:3]}), "as many sequences"),
        (published(**{MASKS: []}), "as many sequences"),
        (published(**{MASKS: {"a": 1}}), "as many sequences"),
        (published(**{MASKS: [1, 2, 3, 4]}), "some in each"),
        (published(**{MASKS: [*SEQUENCES[:3], []]}), "some in each"),
        (published(**{MASKS: [s[:, :32] for s in SEQUENCES]}), "64 x 64"),
        (published(**{MASKS: [s[0] for s in SEQUENCES]}), "64 x 64"),
        (published(**{MASKS: [[1, 2]] * 4}), "64 x 64"),
        (published(**{MASKS: [s * 2.0 for s in SEQUENCES]}), "true and false"),
        (published(**{MASKS: [s * np.uint8(255) for s in SEQUENCES]}), "true and false"),
        (
            published(
                **{MASKS: EMPTY, LATENTS: [measure(s) for s in SEQUENCES[:3]] + [np.zeros((2, 3))]}
            ),
            "is empty",
        ),
        (published(**{LATENTS: [s[:-1] for s in published()[LATENTS]]}), "more or fewer"),
        (published(**{LATENTS: [s[:, :2] for s in published()[LATENTS]]}), "shape"),
        (published(**{LATENTS: [s + 0.5 for s in published()[LATENTS]]}), "not those of its masks"),
        (published(**{LATENTS: [s * np.nan for s in published()[LATENTS]]}), "not those"),
        (published(**{LATENTS: [["a"] * len(s) for s in SEQUENCES]}), "shape"),
        (published(**{MADE_BY: "two\nlines"}), "line of text"),
    ],
)
def test_what_is_not_of_the_format_is_refused(tmp_path, content, match):
    with pytest.raises(DataError, match=match) as caught:
        import_published(write(tmp_path / "in", content), tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert not list((tmp_path / "out").rglob("*.h5"))


def test_the_walkers_of_a_seed_are_always_the_same():
    assert sha256(np.concatenate(SEQUENCES).tobytes())[:16] == WALKERS
    for masks, again in zip(SEQUENCES, make_sequences(4, 7), strict=True):
        np.testing.assert_array_equal(masks, again)
    assert not np.array_equal(SEQUENCES[0][0], make_sequences(1, 8)[0][0])
    assert all(len(masks) > 1 and (measure(masks)[:, 2] >= 30).all() for masks in SEQUENCES)


WALKERS = "4b4c9da1ea60c0f8"
