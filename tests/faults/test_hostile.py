"""Hostile files, one by one: what once was a traceback, a hang or a silent oddity."""

import gzip
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import ident3d
from ident3d import metrics
from ident3d.dataset import load
from ident3d.errors import DataError
from ident3d.outside import parse_json
from ident3d.published.png import decode_png
from tests.faults import hostile
from tests.faults.calling import call, one_sentence, refused
from tests.faults.injectors import JSON_FILES, REFUSED
from tests.faults.ledger import injected
from tests.support.published_sets import tar_bytes, three_d_ident


@pytest.mark.parametrize("into", JSON_FILES)
@pytest.mark.parametrize("name", hostile.JSON)
def test_hostile_json_is_refused_wherever_it_is_read(world, tmp_path, into, name):
    into(hostile.JSON[name], world, tmp_path)
    injected("hostile JSON", REFUSED)


@pytest.mark.parametrize("name", hostile.NPY)
def test_a_hostile_array_is_refused_wherever_it_is_read(world, tmp_path, name):
    path, content = tmp_path / "array.npy", hostile.NPY[name]
    path.write_bytes(content)
    refused("render", tmp_path / "new", "--latents", path)
    refused("benchmark", "score", "--data", world.data, "--embeddings", path)
    source = world.copy("published", tmp_path)
    (source / "3dident" / "train" / "raw_latents.npy").write_bytes(content)
    refused("import", source, tmp_path / "out")
    injected("a hostile .npy file", REFUSED, 3)


@pytest.mark.parametrize("name", hostile.PNG)
def test_a_hostile_image_is_refused(name):
    one_sentence(decode_png, hostile.PNG[name], "5.png", (8, 8, 3))
    injected("a hostile PNG", REFUSED)


def test_every_bit_of_a_png_is_covered():
    content = hostile.PLAIN
    for position in range(len(content)):
        changed = bytearray(content)
        changed[position] ^= 1 << position % 8
        one_sentence(decode_png, bytes(changed), "5.png", (8, 8, 3))
    injected("a hostile PNG", REFUSED, len(content))


def test_a_bomb_of_zeros_is_not_unpacked_to_its_end(tmp_path):
    path = tmp_path / "set.tar.gz"
    with gzip.open(path, "wb", compresslevel=1) as stream:
        stream.write(tar_bytes(three_d_ident()))
        for _ in range(64):  # half a gigabyte after the end of the archive
            stream.write(bytes(1 << 23))
    assert "far more" in refused("import", path, tmp_path / "out")
    injected("a hostile gzip stream", REFUSED)


@pytest.mark.parametrize("text", hostile.ESCAPES)
def test_no_escape_sequence_reaches_the_terminal(world, tmp_path, text):
    for name in (text, f"data{text}"):
        assert call("info", tmp_path / name.replace("\0", "")).code == 1
    path = world.copy("record", tmp_path)
    found = json.loads(path.read_text()) | {"method": text}
    path.write_text(json.dumps(found))
    refused("benchmark", "report", tmp_path / "none")
    call("benchmark", "report", tmp_path, "--out", tmp_path / "site")
    injected("escape sequences in a stranger's text", "shown as text", 3)


def test_a_manifest_without_splits_is_said_so(world, tmp_path):
    from ident3d.files import canonical_sha256

    manifest = {"format": "ident3d", "version": 1, "splits": {}}
    (tmp_path / "dataset.json").write_text(
        json.dumps({**manifest, "sha256": canonical_sha256(manifest)})
    )
    for command in ("verify", "info", "sheet"):
        assert "no split" in refused(command, tmp_path)
    injected("a hostile manifest", REFUSED, 3)


@pytest.mark.parametrize("scale", [1e-300, 1e-155, 1e155, 1e300])
def test_scores_do_not_depend_on_the_scale(scale):
    z = np.random.default_rng(0).normal(size=(50, 3))
    for score in (metrics.linear_r2, metrics.mcc):
        assert score(z, z * scale) == pytest.approx(1)
        assert score(z * scale, z) == pytest.approx(1)
    assert metrics.block_mcc(z, z * scale, [[0, 1], [2]]) == pytest.approx(1)
    injected("numbers at the edge of floats", "the same score", 5)


def test_scores_of_ordinary_values_are_as_before():
    rng = np.random.default_rng(0)
    z, noise = rng.normal(size=(2, 200, 4))
    explained = metrics.linear_r2(z, z + noise, held_out=False)
    assert explained == pytest.approx(0.5, abs=0.1)
    assert metrics.linear_r2(z * 3.7, (z + noise) * 0.013, held_out=False) == pytest.approx(
        explained
    )


@pytest.mark.parametrize("kind", [complex, str, object, "M8[s]"])
@pytest.mark.parametrize("score", [metrics.linear_r2, metrics.mcc, metrics.mcc_matrix])
def test_only_real_numbers_are_scored(kind, score):
    z = np.random.default_rng(0).normal(size=(50, 3))
    wrong = z.astype(int).astype(kind) if kind == "M8[s]" else z.astype(kind)
    assert "real numbers" in one_sentence(score, z, wrong)
    assert "real numbers" in one_sentence(score, wrong, z)
    injected("arrays that are not real numbers", REFUSED, 2)


@pytest.mark.parametrize("n", [1.5, 0, -1, "2", None, 2.0, np.float64(3)])
def test_counts_are_whole_numbers(world, n):
    pairs = ident3d.Pairs(load(world.data), "normal:0.3", seed=0)
    assert "`n` must be" in one_sentence(pairs.batch, n)
    assert "`batch_size` must be" in one_sentence(pairs.epochs, n)
    assert len(pairs.batch(np.int64(2)).anchors.rows) == 2
    injected("arrays that are not real numbers", REFUSED, 2)


def test_the_only_value_allowed_is_named_alone(world):
    from ident3d.errors import whole

    assert one_sentence(whole, 2, "k", 1, 1, "the rows there are").startswith("`k` must be 1, ")
    data = ident3d.sample()
    sentence = one_sentence(
        lambda: ident3d.Pairs(data, "normal:0.3", seed=0, method="weighted", k=10**6)
    )
    assert f"`k` must be between 1 and {len(data) - 1}, " in sentence


def test_equal_keys_are_found_in_linear_time():
    """Ten times the text takes about ten times as long, not a hundred times."""
    import time

    def seconds(keys):
        text = "{" + ",".join(f'"key{n % (keys - 1)}":1' for n in range(keys)) + "}"
        began = time.process_time()
        with pytest.raises(ValueError, match="stands twice"):
            parse_json(text)
        return time.process_time() - began

    assert min(seconds(100_000) for _ in range(3)) < 40 * max(seconds(10_000) for _ in range(3))
    injected("hostile JSON", REFUSED, 6)


LIMITED = """
import resource, sys
from ident3d.cli import main
import ident3d.commands.audit_command
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + int(sys.argv[1]), used + int(sys.argv[1])))
main(sys.argv[2:])
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ("audit", "--rows", 5_000_000, "--conditional", "normal:0.1"),
        ("audit", "--rows", 2_000, "--pairs", 9_000_000, "--conditional", "normal:0.1"),
    ],
)
def test_too_little_memory_is_one_sentence(arguments):
    command = [sys.executable, "-c", LIMITED, str(100 << 20), *map(str, arguments)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("Error: There is not enough memory")
    injected("a limit on memory", "one sentence, exit 1")


def test_a_shard_that_is_not_there_is_one_sentence(world, tmp_path):
    data = world.copy("data", tmp_path)
    (data / "train" / "shard-00001.h5").unlink()
    for command in (("info",), ("sheet", "--out", tmp_path / "s.png"), ("index",)):
        assert "missing" in refused(command[0], data, *command[1:])
    with pytest.raises(DataError, match="missing"):
        _ = load(data).latents
