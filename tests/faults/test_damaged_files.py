"""Bits flipped, tails torn, files swapped: no wrong row is served, and all can be mended."""

import contextlib
import hashlib
import json
import os
import resource
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import h5py
import numpy as np
import pytest
from ident3d.render.plan import make_plan

from ident3d.dataset import load
from ident3d.errors import DataError
from ident3d.exchange import export_webdataset
from ident3d.files import canonical_sha256
from ident3d.index import Index
from ident3d.published import export_published
from ident3d.rows import row_latents
from ident3d.shards import Description, write_manifest
from ident3d.shards.contents import read_shard_columns
from ident3d.shards.verify import problems
from tests.faults.injecting import flip, in_child, is_one_sentence, killed_at, steps_of
from tests.faults.ledger import injected
from tests.faults.writers import LEGACY, SPEC, Painter, digests, render, whole
from tests.support.helpers import make_dataset, painted, shard_writer

RECORD = 8 + 32 + 8 * 8 * 3  # position, seal, pixels
HEADER = 18 + 32 + 32


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


writer = partial(shard_writer, count=4)


def image(position):
    """No zero in it, which a torn tail could pass for."""
    return np.full((8, 8, 3), position + 1, np.uint8)


def half_done(folder, count=3):
    with writer(folder) as shard:
        for position in range(count):
            shard.put(position, image(position))
    return folder / "train/.work/shard-00000.journal"


def finish(folder):
    """Store what is missing, and tell the fingerprint and how many images it took."""
    with writer(folder) as shard:
        missing = shard.missing()
        for position in missing:
            shard.put(position, image(position))
        shard.finish()
    write_manifest(folder, "train", Description(seed=0))
    data = load(folder)
    assert list(problems(data)) == []
    return data.fingerprint, len(missing)


@pytest.fixture(scope="module")
def right(tmp_path_factory):
    return finish(tmp_path_factory.mktemp("right"))[0]


# Journals -----------------------------------------------------------------------------------------


def journal_bits():
    """Every bit of a position and of the header's start, and some of everything else."""
    positions = range((HEADER + RECORD) * 8, (HEADER + RECORD + 8) * 8)
    anywhere = np.random.default_rng(0).choice((HEADER + 3 * RECORD) * 8, 100, replace=False)
    return [*positions, *range(0, HEADER * 8, 16), *anywhere.tolist()]


def test_a_flipped_bit_of_a_journal_costs_one_image_at_most(tmp_path, right):
    bits = journal_bits()
    for bit in bits:
        journal = half_done(tmp_path / str(bit))
        flip(journal, bit)
        fingerprint, rendered = finish(tmp_path / str(bit))
        assert (fingerprint, rendered) in {(right, 1), (right, 2)}, bit
        shutil.rmtree(tmp_path / str(bit))
    injected("a flipped bit", "the image is made again, the others are kept", len(bits))


def test_an_image_on_another_rows_place_is_not_taken(tmp_path, right):
    """A record that says another position, as whole as any other."""
    for position, other in ((0, 1), (1, 0), (2, 3), (0, 3), (1, 4), (2, -1)):
        folder = tmp_path / f"{position}-{other}"
        journal = half_done(folder)
        content = bytearray(journal.read_bytes())
        start = HEADER + position * RECORD
        content[start : start + 8] = int(other).to_bytes(8, "little", signed=True)
        journal.write_bytes(content)
        assert finish(folder) == (right, 2)
        injected("a flipped bit", "the image is made again, the others are kept")


@pytest.mark.parametrize("zeros", [False, True])
def test_torn_tails_of_a_journal(tmp_path, right, zeros):
    length = HEADER + 3 * RECORD
    for cut in [*range(1, 41), *range(41, length, 23), length]:
        folder = tmp_path / str(cut)
        journal = half_done(folder)
        os.truncate(journal, length - cut)
        if zeros:
            os.truncate(journal, length)
        kept = max(0, (length - cut - HEADER) // RECORD)
        if zeros and length - cut < HEADER:  # no telling whose it was
            with pytest.raises(DataError, match="none of its images can be trusted") as caught:
                finish(folder)
            assert is_one_sentence(str(caught.value)) and "settings" not in str(caught.value)
            journal.unlink()
        assert finish(folder) == (right, 4 - kept)
        injected("a torn or zero-filled tail", "what was whole is kept, the rest is made again")
        shutil.rmtree(folder)


def test_a_journal_damaged_after_it_was_opened_is_not_passed_on(tmp_path, right):
    with writer(tmp_path) as shard:
        for position in shard.missing():
            shard.put(position, image(position))
        flip(tmp_path / "train/.work/shard-00000.journal", (HEADER + RECORD + 50) * 8)
        with pytest.raises(DataError, match="was damaged while it was written; run again"):
            shard.finish()
    assert finish(tmp_path) == (right, 1)
    injected("a flipped bit", "the image is made again, the others are kept")


# Finished files -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A render of two shards with pairs, and an index, though so few rows need none."""
    root = tmp_path_factory.mktemp("finished")
    render(root, size=8, shard_size=4)
    data = load(root)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ident3d.index.parts.EXACT_BELOW", 100)
        index = Index.build(row_latents(0, "train", np.arange(1000)))
    index.save(data.path, data.fingerprint)
    return root, whole(root)


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("train/shard-00000.h5", 60),
        ("train/pairs-00001.h5", 40),
        ("dataset.json", 60),
        ("train/index.faiss", 20),
        ("train/index.json", 60),
    ],
)
def test_a_flipped_bit_is_found_by_verify(finished, tmp_path, name, count):
    root, _ = finished
    folder = shutil.copytree(root, tmp_path / "copy")
    size = (folder / name).stat().st_size
    for bit in np.random.default_rng(1).choice(size * 8, count, replace=False).tolist():
        flip(folder / name, bit)
        try:
            found = list(problems(load(folder)))
        except DataError as error:
            found = [str(error)]
        assert len(found) == 1 and is_one_sentence(found[0]), (bit, found)
        flip(folder / name, bit)
    assert list(problems(load(folder))) == []
    injected("a flipped bit", "found by verify", count)


def test_a_flipped_bit_without_a_manifest_serves_no_wrong_row(finished, tmp_path):
    """Nobody vouches for the file: its own digests decide, and HDF5 reads damaged tables."""
    root, (fingerprint, _) = finished
    folder = shutil.copytree(root, tmp_path / "copy")
    shard = folder / "train/shard-00000.h5"
    content, right = shard.read_bytes(), load(root)

    def work():
        render(folder, size=8, shard_size=4)
        data = load(folder)
        assert np.array_equal(data.images[:], right.images[:]) and data.fingerprint == fingerprint

    for bit in np.random.default_rng(2).choice(len(content) * 8, 60, replace=False).tolist():
        (folder / "dataset.json").unlink(missing_ok=True)
        flip(shard, bit)
        code, said = in_child(work)
        assert code == 0 or (code == 3 and "remove it" in said and is_one_sentence(said)), (
            bit,
            said,
        )
        shard.write_bytes(content)
        injected("a flipped bit", "every row is right" if code == 0 else "one sentence: remove it")


def test_a_flipped_bit_of_a_plan_or_note_is_told_or_harmless(tmp_path, finished):
    _, (fingerprint, _) = finished
    begun = tmp_path / "begun"
    with pytest.raises(InterruptedError):  # in the second file
        render(begun, size=8, shard_size=4, pool=Painter(before=stop_at(6)))
    for name, count in (("plan", 60), ("pairs-00000.json", 40)):
        size = (begun / "train/.work" / name).stat().st_size
        for bit in np.random.default_rng(3).choice(size * 8, count, replace=False).tolist():
            folder = shutil.copytree(begun, tmp_path / "copy")
            flip(folder / "train/.work" / name, bit)
            try:
                render(folder, size=8, shard_size=4)
            except DataError as error:
                assert name == "plan" and is_one_sentence(str(error)), (bit, error)
                (folder / "train/.work/plan").unlink()
                render(folder, size=8, shard_size=4)
            assert whole(folder)[0] == fingerprint, bit
            shutil.rmtree(folder)
        injected("a flipped bit", "told in one sentence, or harmless", count)


def test_a_flipped_bit_in_the_name_of_a_digest_does_not_turn_it_off(tmp_path, finished):
    """Records of an earlier version had none: a damaged name must not pass for one of those."""
    root, _ = finished
    folder = shutil.copytree(root, tmp_path / "copy")
    begun = tmp_path / "begun"
    with pytest.raises(InterruptedError):
        render(begun, size=8, shard_size=4, pool=Painter(before=stop_at(6)))
    for path, name, check in (
        (folder / "train/index.json", b"seal", lambda: list(problems(load(folder)))),
        (folder / "train/index.json", b"seal", lambda: Index.load(load(folder))),
        (begun / "train/.work/plan", b"sha256", lambda: make_plan(begun, SPEC, 8, 4, "c")),
    ):
        start = path.read_bytes().rindex(b'"%s": ' % name) * 8
        for bit in range(start, start + 8 * (len(name) + 2)):
            flip(path, bit)
            try:
                told = check()
            except DataError as error:
                told = [str(error)]
            assert isinstance(told, list) and "damaged" in told[0], (path.name, bit, told)
            flip(path, bit)
        injected("a flipped bit", "found by verify", 8 * (len(name) + 2))


def stop_at(number):
    def before(image):
        if image == number:
            raise InterruptedError

    return before


def swap(one, two):
    one.rename(one.with_suffix(".tmp"))
    two.rename(one)
    one.with_suffix(".tmp").rename(two)


def zero(path, start=0.5, share=0.25):
    content = bytearray(path.read_bytes())
    first, length = int(len(content) * start), int(len(content) * share)
    content[first : first + length] = bytes(length)
    path.write_bytes(content)


NOT_ITS_NAME = {
    "zeroed in the middle": lambda f, o: zero(f / "shard-00000.h5"),
    "zero-filled tail": lambda f, o: zero(f / "shard-00000.h5", 0.8, 0.2),
    "pairs with a zero-filled tail": lambda f, o: zero(f / "pairs-00001.h5", 0.9, 0.1),
    "all zeros": lambda f, o: zero(f / "shard-00000.h5", 0, 1),
    "truncated": lambda f, o: os.truncate(f / "shard-00000.h5", 3000),
    "truncated by a byte": lambda f, o: os.truncate(
        f / "shard-00000.h5", (f / "shard-00000.h5").stat().st_size - 1
    ),
    "empty": lambda f, o: os.truncate(f / "pairs-00000.h5", 0),
    "swapped": lambda f, o: swap(f / "shard-00000.h5", f / "shard-00001.h5"),
    "swapped pairs": lambda f, o: swap(f / "pairs-00000.h5", f / "pairs-00001.h5"),
    "anchors as pairs": lambda f, o: swap(f / "shard-00000.h5", f / "pairs-00000.h5"),
    "a copy of another": lambda f, o: shutil.copy(f / "shard-00001.h5", f / "shard-00000.h5"),
    "of another seed": lambda f, o: shutil.copy(o / "train/shard-00000.h5", f / "shard-00000.h5"),
    "text": lambda f, o: (f / "shard-00001.h5").write_text("not HDF5"),
    "a pipe": lambda f, o: ((f / "shard-00001.h5").unlink(), os.mkfifo(f / "shard-00001.h5")),
    "a folder": lambda f, o: ((f / "shard-00001.h5").unlink(), (f / "shard-00001.h5").mkdir()),
}


@pytest.mark.parametrize("manifest", ["kept", "lost"])
@pytest.mark.parametrize("damage", NOT_ITS_NAME)
def test_a_file_that_is_not_what_its_name_says(finished, tmp_path, damage, manifest):
    root, before = finished
    folder, other = shutil.copytree(root, tmp_path / "copy"), tmp_path / "other"
    render(other, replace(SPEC, seed=1), size=8, shard_size=4)
    NOT_ITS_NAME[damage](folder / "train", other)
    if manifest == "kept":
        found = list(problems(load(folder)))
        assert found and all(map(is_one_sentence, found)), found
    else:
        (folder / "dataset.json").unlink()
    for _ in range(4):  # until all is mended by removing what is named
        code, said = in_child(lambda: command(folder))
        if code == 0:
            break
        assert code == 3 and is_one_sentence(said) and "remove it" in said, said
        named = next(path for path in (folder / "train").glob("*.h5") if path.name in said)
        shutil.rmtree(named) if named.is_dir() else named.unlink()
    if code == 0 and manifest == "kept" and list(problems(load(folder))):
        # With a manifest beside it `render` compares all but the pixels; `verify` names the rest.
        (name,) = {problem.split()[0] for problem in problems(load(folder))}
        (folder / "train" / name).unlink()
        command(folder)
    assert whole(folder) == before
    injected("a file that is not what its name says", "named, and mended by removing it")


def command(folder):
    """What `ident3d render` does, from its checks on."""
    make_plan(folder, SPEC, 8, 4, "c").check_finished()
    render(folder, size=8, shard_size=4)


@pytest.mark.parametrize("zeros", [False, True])
def test_a_torn_shard_whose_journal_is_still_there_is_mended(tmp_path, right, zeros):
    for cut in (0, 1, 100, 300, 1000, 2000, 4000):
        folder = tmp_path / str(cut)
        journal = half_done(folder, 4)
        content = journal.read_bytes()
        finish(folder)
        shard = folder / "train/shard-00000.h5"
        (folder / "train/.work").mkdir()
        journal.write_bytes(content)
        size = shard.stat().st_size
        os.truncate(shard, size - cut)
        if zeros:
            os.truncate(shard, size)
        assert finish(folder) == (right, 0)
        injected("a torn or zero-filled tail", "what was whole is kept, the rest is made again")


# Fingerprints -------------------------------------------------------------------------------------


def test_equal_data_has_equal_fingerprints_whatever_happened(tmp_path, finished):
    _, (fingerprint, files) = finished
    render(tmp_path / "grown", size=3, shard_size=4, command="small")
    render(tmp_path / "grown", size=8, shard_size=4, command="large")
    render(tmp_path / "fine", size=8, shard_size=1)
    assert (
        load(tmp_path / "fine").fingerprint == load(tmp_path / "grown").fingerprint == fingerprint
    )
    assert load(tmp_path / "grown").description.command == "large"
    render(tmp_path / "again", size=8, shard_size=4, command="other words")
    assert whole(tmp_path / "again") == (fingerprint, files)  # byte for byte
    assert load(LEGACY / "data/train").fingerprint != fingerprint


def test_a_changed_pixel_latent_row_or_setting_changes_the_fingerprint(tmp_path):
    seen = {make_dataset(tmp_path / "a", rows=3).fingerprint}
    seen.add(make_dataset(tmp_path / "b", rows=3, seed=1).fingerprint)
    seen.add(make_dataset(tmp_path / "c", rows=3, size=9).fingerprint)
    seen.add(make_dataset(tmp_path / "d", rows=3, pairs="normal:0.1").fingerprint)
    seen.add(make_dataset(tmp_path / "e", rows=3, split="test").fingerprint)
    with writer(tmp_path / "f", rows=np.arange(3), latents=row_latents(0, "train", [0, 1, 2])) as w:
        for position in range(3):
            w.put(position, painted(0))
        w.finish()
    write_manifest(tmp_path / "f", "train", Description(seed=0, settings={"hue": "injective"}))
    seen.add(load(tmp_path / "f").fingerprint)
    assert len(seen) == 6


def test_data_of_format_1_keeps_its_fingerprint(tmp_path):
    stated = json.loads((LEGACY / "entry/entry.json").read_text())["records"][0]["data"]
    folder = shutil.copytree(LEGACY / "data", tmp_path / "data")
    data = load(folder / stated["split"])
    assert data.fingerprint == stated["fingerprint"]
    write_manifest(folder, stated["split"], data.description)  # as `render` does when all is there
    assert load(folder / stated["split"]).fingerprint == stated["fingerprint"]
    assert json.loads((folder / "dataset.json").read_text())["version"] == 1


def test_shards_of_format_1_are_not_trusted_without_their_manifest(tmp_path):
    folder = shutil.copytree(LEGACY / "data", tmp_path / "data")
    description = load(folder / "test").description
    (folder / "dataset.json").unlink()
    with pytest.raises(DataError, match="of an earlier version, and no manifest says"):
        write_manifest(folder, "test", description)
    injected("a file that is not what its name says", "refused in one sentence")


# HDF5 from strangers ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["a billion rows", "images never written", "compound rows"])
def test_hdf5_from_strangers_is_refused_by_readers(tmp_path, kind):
    data = make_dataset(tmp_path, rows=3, shard_size=3)
    with h5py.File(data.path / "shard-00000.h5", "a") as file:
        HOSTILE[kind](file)
    for read in (lambda: data.images[:], lambda: data.rows, lambda: data.latents):
        with contextlib.suppress(DataError):
            assert len(read()) == 3
    with pytest.raises(DataError, match=r"never written|not an ident3d shard"):
        read_shard_columns(data.path / "shard-00000.h5")
    injected("a hostile HDF5 file", "refused in one sentence, in little memory")


def hostile(change):
    """Write a data set whose one shard a stranger made; its digests and manifest are all right."""

    def make(folder):
        data = make_dataset(folder, rows=3, shard_size=3)
        path = data.path / "shard-00000.h5"
        with h5py.File(path, "a") as file:
            rows = change(file) or 3
        manifest = json.loads((folder / "dataset.json").read_text())
        del manifest["sha256"]
        entry = manifest["splits"]["train"]["shards"][0]
        entry |= {"bytes": path.stat().st_size, "rows": rows}
        entry["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
        manifest["sha256"] = canonical_sha256(manifest)
        (folder / "dataset.json").write_text(json.dumps(manifest))

    return make


def replaced(name, values):
    def change(file):
        del file[name]
        file[name] = values

    return change


def declared(name, shape, dtype, rows=3, **layout):
    def change(file):
        del file[name]
        file.create_dataset(name, shape, dtype, **layout)
        return rows

    return change


def all_declared(rows):
    def change(file):
        for name, tail, dtype in (
            ("rows", (), "i8"),
            ("latents", (10,), "f4"),
            ("images", (8, 8, 3), "u1"),
            ("digests", (32,), "u1"),
        ):
            declared(name, (rows, *tail), dtype)(file)
        return rows

    return change


COMPOUND = np.zeros(3, [("a", "f4"), ("b", "i8")])
HOSTILE = {
    "a billion rows": all_declared(10**9),
    "a billion rows in chunks": declared("rows", (10**9,), "i8", 10**9, chunks=(1000,)),
    "a billion images in chunks": declared(
        "images", (10**9, 8, 8, 3), "u1", 10**9, chunks=(1, 8, 8, 3)
    ),
    "images never written": declared("images", (3, 8, 8, 3), "u1"),
    "images never written, in chunks": declared("images", (3, 8, 8, 3), "u1", chunks=(1, 8, 8, 3)),
    "one chunk of all images": declared("images", (3, 8, 8, 3), "u1", chunks=(3, 8, 8, 3)),
    "latents never written": declared("latents", (3, 10), "f4"),
    "compound rows": replaced("rows", COMPOUND),
    "compound latents": replaced("latents", COMPOUND),
    "rows of floats": replaced("rows", np.array([0.0, np.nan, 2.0])),
    "rows of text": replaced("rows", np.array([b"a", b"b", b"c"])),
    "NaN latents": replaced("latents", np.full((3, 10), np.nan, "f4")),
    "double latents": replaced("latents", np.zeros((3, 10))),
    "infinite latents": replaced("latents", np.full((3, 10), np.inf, "f4")),
    "latents out of the box": replaced("latents", np.full((3, 10), 2, "f4")),
    "nine factors": replaced("latents", np.zeros((3, 9), "f4")),
    "other latents": replaced("latents", np.zeros((3, 10), "f4")),
    "float images": replaced("images", np.zeros((3, 8, 8, 3), "f4")),
    "images of another size": replaced("images", np.zeros((3, 8, 9, 3), "u1")),
    "other images": replaced("images", np.zeros((3, 8, 8, 3), "u1")),
    "four images": replaced("images", np.zeros((4, 8, 8, 3), "u1")),
    "two rows": replaced("rows", np.arange(2)),
    "a row twice": replaced("rows", np.array([0, 1, 1])),
    "no latents": lambda file: file.__delitem__("latents"),
    "no images": lambda file: file.__delitem__("images"),
    "digests of another length": replaced("digests", np.zeros((3, 16), "u1")),
    "classes that nobody named": lambda file: file.__setitem__("classes", np.zeros(3, "i8")),
    "a group": lambda file: (file.__delitem__("rows"), file.create_group("rows"))[0],
    "a soft link": lambda file: (
        file.__delitem__("rows"),
        file.__setitem__("rows", h5py.SoftLink("/latents")),
    )[0],
    "a link to another file": lambda file: (
        file.__delitem__("rows"),
        file.__setitem__("rows", h5py.ExternalLink("/etc/passwd", "/rows")),
    )[0],
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hdf5_from_strangers_is_refused(tmp_path, kind):
    hostile(HOSTILE[kind])(tmp_path)

    def work():
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        used = pages * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (used + (256 << 20),) * 2)
        try:
            found = list(problems(load(tmp_path)))
        except DataError as error:  # the manifest itself cannot be true
            found = [str(error)]
        assert found and all(map(is_one_sentence, found)), found

    assert in_child(work) == (0, "")
    injected("a hostile HDF5 file", "refused in one sentence, in little memory")


# Unfinished exports -------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["zeroed", "truncated", "another's"])
@pytest.mark.parametrize("export", [export_published, export_webdataset])
def test_a_file_of_an_unfinished_export_is_not_trusted_for_its_name(tmp_path, export, how):
    data = make_dataset(tmp_path / "data", rows=6)
    export(data.path, tmp_path / "right")
    right, out = digests(tmp_path / "right"), tmp_path / "out"
    for step in range(len(steps_of(lambda: export(data.path, tmp_path / "counted")))):
        assert killed_at(step, lambda: export(data.path, out))
        files = sorted(path for path in out.rglob("*.*") if path.suffix in (".png", ".tar"))
        if len(files) > (how == "another's"):
            if how == "zeroed":
                zero(files[0])
            elif how == "truncated":
                os.truncate(files[0], files[0].stat().st_size // 2)
            else:
                shutil.copy(files[1], files[0])
            tars, pngs = out / "ident3d.json", out / "train/.export.json"
            if (export is export_webdataset and not tars.exists()) or pngs.exists():
                export(data.path, out)
                assert digests(out) == right, step
                injected("a file that is not what its name says", "made again")
        shutil.rmtree(out, ignore_errors=True)
