import json
import os
import subprocess
import sys

import h5py
import numpy as np
import pytest
from PIL import Image

from ident3d.cli import COMMANDS
from tests.support.commands import printed_by
from tests.support.helpers import make_dataset


def run(*arguments, **options):
    command = [sys.executable, "-c", "from ident3d.cli import main; main()", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def test_help_names_every_command_and_imports_nothing_heavy():
    shown = printed_by("--help")
    assert all(name in shown for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name):
    done = run(name, "--help")
    assert done.returncode == 0, done.stderr
    assert "Usage: ident3d" in done.stdout


def test_a_warning_is_one_line(tmp_path):
    data = make_dataset(tmp_path / "data", 200)
    np.save(tmp_path / "same.npy", np.zeros((len(data), 10)))
    where = ["--data", data.path, "--embeddings", tmp_path / "same.npy"]
    lines = run("benchmark", "score", *where).stderr.splitlines()
    assert lines and all(line.startswith("Warning: `z_hat` never changes in ") for line in lines)


def test_what_a_terminal_cannot_write_is_replaced():
    environment = os.environ | {"PYTHONIOENCODING": "latin-1"}
    done = run("benchmark", "list", "table1", env=environment, encoding="latin-1")
    assert done.returncode == 0, done.stderr
    assert " ? " in done.stdout and "table1/12" in done.stdout


def test_info_and_verify_need_no_path():
    info = json.loads(run("info", "--json").stdout)
    assert info[0]["resolution"] == [64, 64, 3]
    assert info[0]["command"].startswith("ident3d render")
    assert run("verify").returncode == 0


def test_info_tells_what_a_data_set_holds(tmp_path):
    make_dataset(tmp_path, pairs="normal:0.1")
    text = run("info", tmp_path).stdout
    assert "20 images, 8 x 8" in text
    assert "exact pairs: normal:0.1" in text
    assert "object_hue" in text


@pytest.mark.parametrize("part", ["images", "latents"])
def test_verify_names_the_shard_and_exits_with_1(tmp_path, part):
    data = make_dataset(tmp_path)
    with h5py.File(data.path / "shard-00001.h5", "a") as file:
        file[part][2] = 0
    done = run("verify", tmp_path)
    assert done.returncode == 1
    assert "shard-00001.h5" in done.stderr
    assert "Traceback" not in done.stderr
    assert json.loads(run("verify", tmp_path, "--json").stdout)[0]["problems"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["info", "nowhere"], 1, "nowhere does not exist"),
        (["sheet", "--count", "0"], 2, "not in the range"),
        (["sheet", ".", "--render"], 2, "takes no PATH"),
        (["frobnicate"], 2, "No such command"),
        (["verify", "--frob"], 2, "No such option"),
    ],
)
def test_errors_are_one_sentence(arguments, code, words, tmp_path):
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == code
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_sheets_are_pictures(tmp_path):
    data = make_dataset(tmp_path / "set", rows=30)
    run("sheet", tmp_path / "set", "--count", 9, "--out", tmp_path / "contact.png")
    assert size(tmp_path / "contact.png") == (3 * 12 - 4, 3 * 12 - 4)
    run("sheet", data.path, "--traverse", "--steps", 5, "--out", tmp_path / "traverse.png")
    assert size(tmp_path / "traverse.png") == (10 * 12 - 4, 2 * 18 + 5 * 12 - 4)


def size(path):
    with Image.open(path) as image:
        return image.size
