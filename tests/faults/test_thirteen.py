"""The thirteen ways in which 0.1.0 broke, each as a user meets it: by commands and public names.

None of this looks inside the package, so the file runs as it is on the main of before the fixes,
where every test fails; `python -m tests.faults.before COMMIT` does that, and the table of it is in
docs/reliability.md. Each promise's many other faults are in this folder's other files.
"""

import contextlib
import hashlib
import io
import json
import os
import re
import resource
import shutil
import struct
import subprocess
import sys
import time
import zlib
from functools import partial

import h5py
import numpy as np
import pytest
from PIL import Image

import ident3d
from ident3d.shards import Description, ShardWriter
from tests.support.helpers import make_dataset, painted, painted_row
from tests.support.published_sets import three_d_ident, write_folder
from tests.support.server import Behaviour, serving

COMMAND = [sys.executable, "-c", "from ident3d.cli import main; main()"]
RENDER = ("--resolution", 16, "--preset", "draft", "--samples", 1, "--workers", 1)
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
# For limits and lost rights, which stop coverage from writing its own file as well.
UNMEASURED = {name: v for name, v in ENVIRONMENT.items() if not name.startswith("COVERAGE_")}


def start(*arguments, env=ENVIRONMENT, **how):
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, **how,
    )  # fmt: skip


def end(process):
    """Wait for a command; give its exit code and what it said."""
    for _ in range(900):  # a minute and a half, not counting time in which all of this is paused
        with contextlib.suppress(subprocess.TimeoutExpired):
            out, err = process.communicate(timeout=0.1)
            break
    else:
        process.kill()
        process.communicate()
        pytest.fail("it hangs")
    assert "Traceback" not in err, err
    assert process.returncode in (0, 1, 2), (process.returncode, err)
    return process.returncode, out + err


def call(*arguments, **how):
    return end(start(*arguments, **how))


def done(*arguments):
    code, said = call(*arguments)
    assert code == 0, said
    return said


def refused(*arguments, **how):
    """The one sentence of a command that must be refused."""
    code, said = call(*arguments, **how)
    assert code in (1, 2), said
    sentence = said.strip().splitlines()[-1]
    assert sentence.startswith("Error: "), said
    return sentence


def seal(folder, change):
    """Change a manifest as a stranger might, with the digest that belongs to it."""
    path = folder / "dataset.json"
    manifest = json.loads(path.read_text())
    del manifest["sha256"]
    change(manifest)
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    manifest["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    path.write_text(json.dumps(manifest))


@pytest.fixture(scope="module")
def rendered(tmp_path_factory):
    """Two shards of three rows, by Blender."""
    out = tmp_path_factory.mktemp("rendered") / "data"
    done("render", out, "--size", 6, "--shard-size", 3, *RENDER)
    return out


@pytest.fixture
def data(rendered, tmp_path):
    return shutil.copytree(rendered, tmp_path / "data")


def render(out, size=6):
    return call("render", out, "--size", size, "--shard-size", 3, *RENDER)


def fingerprint(folder):
    return ident3d.load(folder / "train").fingerprint


# 1 ------------------------------------------------------------------------------------------------


def test_1_a_flipped_bit_in_a_journal_puts_no_image_on_another_row(tmp_path):
    right, rows = make_dataset(tmp_path / "right", rows=4, shard_size=4), np.arange(4)
    path = tmp_path / "data/train/shard-00000.h5"
    description = Description(seed=0, settings={"hue": "injective"})
    with ShardWriter(path, rows, right.latents, (8, 8, 3), description) as writer:
        for row in (1, 2, 3):
            writer.put(row, painted(row))
    journal = path.parent / ".work/shard-00000.journal"
    content = bytearray(journal.read_bytes())
    first = re.search(rb"\x01\0{7}(?=.{192,240}\x02\0{7}.{192,240}\x03\0{7})", content, re.DOTALL)
    content[first.start()] = 0  # the image of row 1 says row 0
    journal.write_bytes(content)
    made = make_dataset(tmp_path / "data", rows=4, shard_size=4)
    assert painted_row(made.images[:]).tolist() == [0, 1, 2, 3]


# 2 ------------------------------------------------------------------------------------------------


def zeroed(folder):
    path = folder / "shard-00000.h5"
    content = bytearray(path.read_bytes())
    pixels = 3 * 16 * 16 * 3
    with h5py.File(path) as file:
        at = file["images"].id.get_offset()
    content[at : at + pixels // 2] = bytes(pixels // 2)
    path.write_bytes(content)


def swapped(folder):
    (folder / "shard-00000.h5").rename(folder / "x")
    (folder / "shard-00001.h5").rename(folder / "shard-00000.h5")
    (folder / "x").rename(folder / "shard-00001.h5")


def copied(folder):
    shutil.copy(folder / "shard-00001.h5", folder / "shard-00000.h5")


@pytest.mark.parametrize("damage", [zeroed, swapped, copied])
def test_2_a_file_is_not_adopted_for_its_name(data, damage):
    damage(data / "train")
    (data / "dataset.json").unlink()
    code, said = render(data)
    assert code == 1 and "shard-0000" in said, said


def test_2_a_truncated_shard_is_not_called_finished(data):
    shard = data / "train/shard-00001.h5"
    os.truncate(shard, shard.stat().st_size // 2)
    code, said = render(data)
    assert code == 1 and "finished" not in said and "remove" in said, said


# 3 ------------------------------------------------------------------------------------------------


def test_3_what_was_made_in_two_steps_has_the_fingerprint_of_one(rendered, tmp_path):
    assert render(tmp_path / "grown", 3)[0] == render(tmp_path / "grown", 6)[0] == 0
    assert fingerprint(tmp_path / "grown") == fingerprint(rendered)


# 4, 5 ---------------------------------------------------------------------------------------------


def limited(what, most):
    return {"preexec_fn": partial(resource.setrlimit, what, (most, most)), "env": UNMEASURED}


def test_4_a_full_disk_is_one_sentence_while_a_shard_is_written(tmp_path):
    source = write_folder(tmp_path / "raw", three_d_ident(40))
    done("import", source, tmp_path / "right")
    largest = (tmp_path / "right/train/shard-00000.h5").stat().st_size
    for share in (0.5, 0.9, 0.99):
        limit = limited(resource.RLIMIT_FSIZE, int(largest * share))
        refused("import", source, tmp_path / str(share), **limit)
        done("import", source, tmp_path / str(share))
        assert fingerprint(tmp_path / str(share)) == fingerprint(tmp_path / "right")


def test_5_more_shards_than_files_may_be_open_are_not_damage(tmp_path):
    path = make_dataset(tmp_path / "data", rows=80, shard_size=1).path
    said = call("sheet", path, "--out", tmp_path / "s.png", **limited(resource.RLIMIT_NOFILE, 48))
    assert said[0] == 0, said


AS_NOBODY = """
import os, sys, ident3d
data = ident3d.load(sys.argv[1])
data.images[:2]
if os.getuid() == 0:
    os.setuid(65534)
data.images[:]
"""


def test_5_no_permission_is_not_damage(tmp_path):
    path = make_dataset(tmp_path / "data", rows=4, shard_size=1).path
    (path / "shard-00003.h5").chmod(0)
    for folder in (tmp_path.parent.parent, tmp_path.parent, tmp_path):
        folder.chmod(0o755)  # pytest's folders are for their owner alone
    ended = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, path], capture_output=True, text=True, env=UNMEASURED
    )
    sentence = ended.stderr.splitlines()[-1]
    assert "Permission denied" in sentence and "damaged" not in sentence, sentence


# 6 ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", [False, True])
def test_6_a_download_that_was_cut_off_does_not_get_its_name(tmp_path, part):
    behaviour = Behaviour(data=bytes(60_000), most=20_000, length=False)
    if part:  # the rest of a file, whose length is stated and not met
        (tmp_path / "m3di.tar.gz.part").write_bytes(bytes(10_000))
        behaviour = Behaviour(data=bytes(60_000), most=20_000, total=False)
    with serving(behaviour) as url:
        call("download", "multimodal3dident", tmp_path, "--url", url)
    path = tmp_path / "m3di.tar.gz"
    assert not path.exists() or path.stat().st_size == 60_000


# 7 ------------------------------------------------------------------------------------------------


ENDLESS = '{"format": "ident3d", "version": 1e999, "splits": {}, "sha256": "x"}'


@pytest.mark.parametrize("text", ["[" * 100_000, ENDLESS], ids=["deep", "1e999"])
def test_7_a_manifest_of_nonsense_is_one_sentence(tmp_path, text):
    (tmp_path / "dataset.json").write_text(text)
    refused("info", tmp_path)


def test_7_a_number_without_measure_in_a_manifest_is_one_sentence(tmp_path):
    make_dataset(tmp_path)
    seal(tmp_path, lambda manifest: manifest["splits"]["train"]["shards"][0].update(rows=10**30))
    refused("info", tmp_path)


def test_7_an_unclosed_bracket_in_an_array_is_one_sentence(tmp_path):
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (12, 10"
    path = tmp_path / "a.npy"
    path.write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + bytes(480))
    refused("render", tmp_path / "out", "--latents", path)
    refused("benchmark", "score", "--data", make_dataset(tmp_path / "d").path, "--embeddings", path)


def test_7_a_damaged_shard_under_sheet_is_one_sentence(tmp_path):
    data = make_dataset(tmp_path / "data", rows=6, shard_size=6)
    path = data.path / "shard-00000.h5"
    content = path.read_bytes()
    for at in range(100, 2000, 300):
        path.write_bytes(content[:at] + bytes([content[at] ^ 255]) + content[at + 1 :])
        call("sheet", data.path, "--out", tmp_path / "sheet.png")


def a_record(folder, rows=60):
    """Score an embedding; gives its record."""
    data = make_dataset(folder / "scored", rows=rows, shard_size=rows)
    np.save(folder / "mine.npy", data.latents @ np.random.default_rng(0).normal(size=(10, 10)))
    out = folder / "results"
    done("benchmark", "score", "--data", data.path, "--embeddings", folder / "mine.npy",
         "--out", out)  # fmt: skip
    return next(path for path in out.rglob("*.json") if "scores" in path.read_text())


def test_7_a_record_with_absurd_scores_does_not_stop_the_report(tmp_path):
    path = a_record(tmp_path)
    record = json.loads(path.read_text())
    record["scores"]["r2"] = 1e308
    for seed in (1, 2):
        path.with_name(f"other{seed}.json").write_text(json.dumps(record | {"seed": seed}))
    done("benchmark", "report", path.parent, "--out", tmp_path / "site")
    assert (tmp_path / "site/index.html").exists()


# 8 ------------------------------------------------------------------------------------------------


def declared(file):
    for name, tail, kind in (
        *(("rows", (), "i8"), ("latents", (10,), "f4"), ("images", (8, 8, 3), "u1")),
        ("digests", (32,), "u1"),
    ):
        if name in file:
            del file[name]
            file.create_dataset(name, (10**9, *tail), kind)
    return 10**9


def not_numbers(file):
    del file["rows"]
    file["rows"] = np.array([0.0, np.nan, 2.0])
    return 3


def never_written(file):
    del file["images"]
    file.create_dataset("images", (3, 8, 8, 3), "u1")
    return 3


@pytest.mark.parametrize("change", [declared, not_numbers, never_written])
def test_8_verify_refuses_what_a_file_declares_and_does_not_hold(tmp_path, change):
    data = make_dataset(tmp_path, rows=3, shard_size=3)
    path = data.path / "shard-00000.h5"
    with h5py.File(path, "a") as file:
        rows = change(file)
    content = path.read_bytes()
    entry = {"rows": rows, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    seal(tmp_path, lambda manifest: manifest["splits"]["train"]["shards"][0].update(entry))
    code, said = call("verify", tmp_path, **limited(resource.RLIMIT_AS, 6 << 30))
    assert code == 1 and "memory" not in said, said


# 9 ------------------------------------------------------------------------------------------------


def test_9_a_folder_removed_while_it_is_rendered_is_told(data):
    process = start("render", data, "--size", 9, "--shard-size", 3, *RENDER)
    assert process.stderr.readline().startswith("Rendering 3 images")  # Blender starts
    while data.exists():
        shutil.rmtree(data, ignore_errors=True)  # into which a file may come meanwhile
    code, said = end(process)
    assert code == 1 and "was removed while" in said, (code, said)


# 10 -----------------------------------------------------------------------------------------------


def test_10_equal_keys_do_not_take_minutes(tmp_path):
    text = "{" + ",".join(f'"key{n}": 1' for n in range(100_000)) + ', "key99999": 2}'
    (tmp_path / "record.json").write_text(text)
    call("benchmark", "report", tmp_path, "--out", tmp_path / "site")


def test_10_a_size_of_10_to_the_12_does_not_hang(tmp_path):
    refused("render", tmp_path / "out", "--size", 10**12, "--shard-size", 3, *RENDER)


def test_10_a_pipe_for_a_manifest_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "dataset.json")
    refused("info", tmp_path)


def test_10_a_malformed_address_is_not_tried_again(tmp_path):
    began = time.monotonic()
    refused("download", "3dident", tmp_path, "--url", "http://host:port/")
    assert time.monotonic() - began < 15  # six attempts wait for a minute


# 11 -----------------------------------------------------------------------------------------------


def test_11_no_escape_sequence_reaches_the_terminal(tmp_path):
    make_dataset(tmp_path)
    evil = "\x1b]0;title\x07\x1b[2J"
    seal(tmp_path, lambda all: all["splits"]["train"]["description"]["settings"].update(hue=evil))
    _, said = call("info", tmp_path)
    assert "\x1b" not in said and "\x07" not in said


# 12 -----------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")  # which would fail it before its score is seen
@pytest.mark.parametrize("scale", [1e155, 1e-300])
def test_12_scores_do_not_depend_on_the_scale(scale):
    z = np.random.default_rng(0).normal(size=(50, 3))
    assert ident3d.metrics.linear_r2(z, z * scale) == pytest.approx(1)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [complex, str])
def test_12_only_real_numbers_are_scored(kind):
    z = np.random.default_rng(0).normal(size=(50, 3))
    with pytest.raises(ValueError):
        ident3d.metrics.linear_r2(z, z.astype(kind))


def sixteen_bits():
    """16 bits a channel, which Pillow would halve in silence."""

    def chunk(kind, body):
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    header = struct.pack(">IIBBBBB", 8, 8, 16, 2, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\0" + bytes(8 * 3 * 2) for _ in range(8)))
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    )


def damaged_at_its_end():
    stream = io.BytesIO()
    Image.fromarray(painted(3)).save(stream, "PNG")
    content = bytearray(stream.getvalue())
    content[-1] ^= 1
    return bytes(content)


@pytest.mark.parametrize("image", [sixteen_bits, damaged_at_its_end])
def test_12_an_image_that_is_not_what_it_must_be_is_refused(tmp_path, image):
    files = three_d_ident(12)
    name = next(name for name in files if name.endswith("03.png"))
    source = write_folder(tmp_path / "raw", files | {name: image()})
    assert "03.png" in refused("import", source, tmp_path / "out")


def test_12_a_flipped_bit_in_a_checkpoint_is_not_trained_on(tmp_path):
    run = ("benchmark", "run", "marginal/10", "--tier", "cpu", "--out", tmp_path,
           "--set", "steps=100000", "--set", "checkpoint_seconds=0")  # fmt: skip
    process = start(*run)
    while process.poll() is None and not list(tmp_path.rglob("checkpoint.safetensors")):
        time.sleep(0.05)
    process.kill()
    process.communicate()
    (path,) = tmp_path.rglob("checkpoint.safetensors")
    content = bytearray(path.read_bytes())
    content[-1000] ^= 64
    path.write_bytes(content)
    code, said = call(*run)
    assert code == 1 and "checkpoint.safetensors" in said, said


def test_12_a_data_set_without_splits_is_told(tmp_path):
    make_dataset(tmp_path)
    seal(tmp_path, lambda manifest: manifest["splits"].clear())
    assert "no split" in refused("verify", tmp_path)


def test_12_a_batch_of_one_and_a_half_is_refused():
    pairs = ident3d.Pairs(ident3d.sample(), ident3d.Normal(0.3), seed=0)
    with pytest.raises(ValueError, match="n"):
        pairs.batch(1.5)


# 13 -----------------------------------------------------------------------------------------------


def test_13_pack_on_a_full_disk_leaves_nothing_half_made(tmp_path):
    record, out = a_record(tmp_path), tmp_path / "entry"
    limit = limited(resource.RLIMIT_FSIZE, 1000)
    assert "File too large" in refused("benchmark", "pack", record, "--out", out, **limit)
    done("benchmark", "pack", record, "--out", out)


def test_13_three_exports_at_once_all_end_well(tmp_path):
    path = make_dataset(tmp_path / "data", rows=200, shard_size=100).path
    ended = [
        end(process) for process in [start("export", path, tmp_path / "out") for _ in range(3)]
    ]
    assert [code for code, _ in ended] == [0, 0, 0], ended


def test_13_a_little_too_little_space_is_not_told_as_none(tmp_path, monkeypatch, capsys):
    from ident3d.cli import main

    source = write_folder(tmp_path / "raw", three_d_ident(12))
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=100))
    with pytest.raises(SystemExit):
        main(["import", str(source), str(tmp_path / "out")])
    said = capsys.readouterr().err
    assert "its disk has" in said and "0.0 GB" not in said, said


def test_13_the_only_value_allowed_is_named_alone(tmp_path):
    data = make_dataset(tmp_path, rows=2)
    with pytest.raises(ValueError, match="`k`") as caught:
        ident3d.Pairs(data, ident3d.Normal(0.3), seed=0, method="weighted", k=5)
    assert "between 1 and 1" not in str(caught.value)


def test_13_a_journal_cut_in_its_header_is_not_blamed_on_settings(tmp_path):
    path = tmp_path / "data/train/shard-00000.h5"
    latents = make_dataset(tmp_path / "right", rows=4, shard_size=4).latents
    description = Description(seed=0, settings={"hue": "injective"})
    with ShardWriter(path, np.arange(4), latents, (8, 8, 3), description) as writer:
        writer.put(0, painted(0))
    os.truncate(path.parent / ".work/shard-00000.journal", 10)
    made = make_dataset(tmp_path / "data", rows=4, shard_size=4)
    assert painted_row(made.images[:]).tolist() == [0, 1, 2, 3]
