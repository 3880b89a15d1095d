import json
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace

import h5py
import numpy as np
import pytest
from ident3d.render.blender import Renderer
from ident3d.render.presets import quality
from ident3d.render.scene import scene_state

from ident3d.dataset import load
from ident3d.rows import row_latents

pytestmark = pytest.mark.slow

QUICK = ["--preset", "draft", "--samples", "1", "--device", "cpu"]
COMMAND = [sys.executable, "-c", "from ident3d.cli import main; main()"]


def start(*arguments):
    text = [*COMMAND, *map(str, arguments)]
    return subprocess.Popen(text, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(*arguments, code=0):
    process = start(*arguments)
    out, err = finish(process)
    assert process.returncode == code, err
    return out + err


def finish(process):
    """Wait for a run; one that hangs is killed, not left behind."""
    try:
        return process.communicate(timeout=500)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise


def render(out, *arguments, code=0):
    return run("render", out, *QUICK, *arguments, code=code)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """200 rows of 64 pixels, rendered in one go."""
    out = tmp_path_factory.mktemp("whole")
    render(out, "--size", 200, "--resolution", 64, "--shard-size", 50)
    return load(out / "train")


def test_rows_latents_and_settings(whole):
    assert np.array_equal(whole.rows, np.arange(200))
    assert np.array_equal(whole.latents, row_latents(0, "train", np.arange(200)))
    assert whole.settings["samples"] == 1
    assert whole.settings["hue"] == "injective"
    assert whole.settings["blender"].startswith("4.5")
    with h5py.File(whole.path / "shard-00002.h5") as file:
        assert file.attrs["settings.resolution"] == 64
        assert file.attrs["factors"][0] == "x"


def stored(folder):
    """Count the images that are safe, in finished shards of 50 and in journals."""
    shards, journals = folder.glob("train/*.h5"), folder.glob("train/.work/*.journal")
    header, record = 82, 40 + 64 * 64 * 3
    stored = sum((journal.stat().st_size - header) // record for journal in journals)
    return 50 * len(list(shards)) + stored


def test_killed_twenty_times(whole, tmp_path):
    """Kill the run, workers and all, at random instants; what is there in the end is the same."""
    chance = random.Random(0)
    arguments = ["render", tmp_path, *QUICK, "--size", 200, "--resolution", 64, "--shard-size", 50]
    safe = 0
    for _ in range(20):
        process = start(*arguments)
        goal = safe + chance.randrange(10)  # a goal of 0 is a kill while Blender starts
        while stored(tmp_path) < goal and process.poll() is None:
            time.sleep(0.005)
        time.sleep(chance.uniform(0, 0.1))
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        assert stored(tmp_path) >= safe  # nothing stored is ever lost
        safe = stored(tmp_path)
    run(*arguments)
    assert "whole" in run("verify", tmp_path)
    resumed = load(tmp_path / "train")
    assert np.array_equal(resumed.rows, whole.rows)
    assert np.array_equal(resumed.latents, whole.latents)
    assert np.array_equal(resumed.images[:], whole.images[:])
    assert not list(tmp_path.rglob("*.journal"))


def test_two_runs_at_once_share_the_work(whole, tmp_path):
    arguments = ["render", tmp_path, *QUICK, "--size", 60, "--resolution", 64, "--workers", 1]
    both = [start(*arguments, "--shard-size", 10) for _ in range(2)]
    outputs = [finish(process) for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    data = load(tmp_path / "train")
    assert np.array_equal(data.rows, np.arange(60))
    assert np.array_equal(data.images[:], whole.images[:60])


def test_growing_keeps_the_old_files(whole, tmp_path):
    settings = ["--resolution", 64, "--shard-size", 8]
    render(tmp_path, "--size", 10, *settings)
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("train/*.h5")}
    render(tmp_path, "--size", 20, *settings)
    after = {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("train/*.h5")}
    assert before.items() <= after.items()
    assert len(after) == 4
    assert np.array_equal(load(tmp_path / "train").images[:], whole.images[:20])
    assert "finished" in render(tmp_path, "--size", 20, *settings)  # nothing left to do
    message = render(tmp_path, "--size", 20, "--hue", "published", *settings, code=2)
    assert "hue injective (now published)" in message


def test_shares_make_the_whole(whole, tmp_path):
    settings = ["--size", 6, "--resolution", 64, "--shard-size", 2, "--workers", 1]
    assert "not yet" in render(tmp_path, *settings, "--shard", "2/2")
    assert "unfinished" in run("info", tmp_path, code=1)
    assert "finished" in render(tmp_path, *settings, "--shard", "1/2")
    assert np.array_equal(load(tmp_path / "train").images[:], whole.images[:6])


def test_pairs_are_rendered_from_their_latents(tmp_path):
    settings = ["--size", 3, "--resolution", 32, "--pairs", "normal:0.1", "--workers", 1]
    render(tmp_path, *settings, "--compress")
    data = load(tmp_path / "train")
    assert data.pairs.conditional == "normal:0.1"
    renderer = Renderer(replace(quality("draft", 32), samples=1), 32, threads=1)
    for images, latents in ((data.images, data.latents), (data.pairs.images, data.pairs.latents)):
        assert np.array_equal(images[:], [renderer.render(scene_state(row)) for row in latents])
    assert (data.latents != data.pairs.latents).all()


def test_given_latents_and_held_factors(tmp_path):
    given = np.array([[0.5] * 10, [-0.25] * 10])
    np.save(tmp_path / "rows.npy", given)
    size = ["--resolution", 16, "--workers", 1]
    render(tmp_path / "given", "--latents", tmp_path / "rows.npy", *size)
    data = load(tmp_path / "given")
    assert np.array_equal(data.latents, given.astype(np.float32))
    assert data.seed is None
    render(tmp_path / "held", "--size", 2, "--factors", "position", "--hold", "gamma=0.5", *size)
    latents = load(tmp_path / "held").latents
    assert (latents[:, 3:] == [0, 0, 0.5, 0, 0, 0, 0]).all()


def test_estimate_writes_nothing(tmp_path):
    out = render(tmp_path / "new", "--size", 5000, "--resolution", 32, "--estimate", "--json")
    found = json.loads(out[out.index("{") :])
    assert found["images"] == 5000
    assert found["seconds"] == pytest.approx(5000 / found["images_per_second"])
    assert found["disk_bytes"] == 5000 * (32 * 32 * 3 + 48)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "rule"),
    [
        ([], 2, "`size` is missing"),
        (["--size", 0], 2, "`size` must be between 1 and"),
        (["--size", 5, "--samples", 0], 2, "`samples` must be between 1 and"),
        (["--size", 5, "--resolution", 3], 2, "`resolution` must be between 8 and 8192"),
        (["--size", 5, "--hold", "x"], 2, "`hold` must read factor=value"),
        (["--size", 5, "--shard", "3/2"], 2, "I from 1 to N"),
        (["--size", 5, "--pairs", "normal:x"], 2, "normal"),
        (["--size", 5, "--split", "a/b"], 2, "`split`"),
        (["--size", 5, "--slurm", 2, "--shard-size", 0], 2, "`shard_size` must be between 1 and"),
        (["--size", -5, "--slurm", 2], 2, "`size` must be between 1 and"),
        (["--size", 5, "--slurm", 2, "--split", "a/b"], 2, "`split`"),
        (["--latents", __file__], 1, "not an array of numbers"),
    ],
)
def test_wrong_use_is_one_sentence(tmp_path, arguments, code, rule):
    message = render(tmp_path / "new", *arguments, code=code)
    assert rule in message
    assert "Traceback" not in message
    assert not (tmp_path / "new").exists()


def test_memory_does_not_grow():
    """The worker's resident memory over 500 renders stays within 10 % of that after 50."""
    code = """
import numpy as np
import psutil
from ident3d.render.blender import Renderer
from ident3d.render.presets import Quality
from ident3d.render.scene import scene_state
from ident3d.rows import row_latents
renderer = Renderer(Quality(1, 2, True, "NONE", "FAST"), 64, threads=1)
for count, latents in enumerate(row_latents(0, "train", np.arange(501))):
    if count in (50, 500):
        print(psutil.Process().memory_info().rss)
    renderer.render(scene_state(latents))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    early, late = map(int, done.stdout.split())
    assert late < 1.1 * early


def test_ray_renders_the_same(whole, tmp_path):
    settings = ["--size", 6, "--resolution", 64, "--shard-size", 3]
    render(tmp_path, *settings, "--ray", "local")
    assert np.array_equal(load(tmp_path / "train").images[:], whole.images[:6])
