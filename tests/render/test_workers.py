import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from ident3d.render.presets import Quality
from ident3d.render.spec import RenderSettings
from ident3d.render.workers import ImageTask, WorkerPool, WorkerSlot

from ident3d.errors import DataError
from ident3d.rows import row_latents

pytestmark = pytest.mark.slow

QUICK = Quality(1, 0, light_tree=False, prefilter="NONE", denoiser="FAST")
SETTINGS = RenderSettings(QUICK, 16, "injective")
LATENTS = row_latents(0, "train", np.arange(12))


def tasks(count=12):
    return [ImageTask(row, LATENTS[row], row) for row in range(count)]


def render_all(pool, count=12):
    return {task.key: image for task, image in pool.run(tasks(count))}


def test_death_and_restart_change_nothing():
    said = []
    with WorkerPool(SETTINGS, [WorkerSlot(threads=1)] * 2, said.append, restart_after=5) as pool:
        first = pool.pids()
        images = render_all(pool)
        assert sorted(images) == list(range(12))
        assert said == []
        assert pool.pids() != first  # 12 images by two workers that leave after five
        killed = {}
        for number, (task, image) in enumerate(pool.run(tasks())):
            killed[task.key] = image
            if number in (2, 5):
                os.kill(pool.pids()[0], signal.SIGKILL)
        again = {key: (images[key] == killed[key]).all() for key in images}
    assert all(again.values())
    assert all("its worker died of SIGKILL; trying again" in line for line in said)
    assert len(said) <= 2  # each death is held against the row being rendered, not the one after it


def test_a_row_that_always_fails_stops_the_run_with_its_latents():
    said = []
    pool = WorkerPool(
        RenderSettings(QUICK, 16, "no such hue"), [WorkerSlot(threads=1)], said.append
    )
    with pool, pytest.raises(DataError, match="Row 0 failed 3 times") as caught:
        render_all(pool, 1)
    assert f"{LATENTS[0][0]:.9g}, {LATENTS[0][1]:.9g}" in str(caught.value)
    assert len(said) == 2


def test_a_parent_with_blender_loaded_has_working_children(tmp_path):
    """Blender puts a second `bpy` on the path, and children inherit the path."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
        "if __name__ == '__main__':\n"
        "    from ident3d.render.blender import load_bpy\n"
        "    load_bpy()\n"
        "    from tests.render.test_workers import SETTINGS, WorkerPool, WorkerSlot, render_all\n"
        "    with WorkerPool(SETTINGS, [WorkerSlot(threads=1)], print) as pool:\n"
        "        print(len(render_all(pool, 2)))\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300)
    assert done.stdout == "2\n", done.stderr


def test_no_blender_is_one_sentence(monkeypatch, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['bpy'] = None")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    pool = WorkerPool(SETTINGS, [WorkerSlot(threads=1)], print)
    with pool, pytest.raises(ImportError, match=r"needs Blender's `bpy` module.*ident3d doctor"):
        render_all(pool, 1)
