import os
import signal

import numpy as np
import pytest
from ident3d.render.presets import Quality
from ident3d.render.workers import Look, Pool, Seat, Task

from ident3d.errors import DataError
from ident3d.rows import row_latents

pytestmark = pytest.mark.slow

QUICK = Quality(1, 0, light_tree=False, prefilter="NONE", denoiser="FAST")
LOOK = Look(QUICK, 16, "injective")
LATENTS = row_latents(0, "train", np.arange(12))


def tasks(count=12):
    return [Task(row, LATENTS[row], row) for row in range(count)]


def render_all(pool, count=12):
    return {task.key: image for task, image in pool.run(tasks(count))}


def test_death_and_restart_change_nothing():
    said = []
    with Pool(LOOK, [Seat(threads=1)] * 2, said.append, restart_after=5) as pool:
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


def test_a_row_that_always_fails_stops_the_run_with_its_latents():
    said = []
    pool = Pool(Look(QUICK, 16, "no such hue"), [Seat(threads=1)], said.append)
    with pool, pytest.raises(DataError, match="Row 0 failed 3 times") as caught:
        render_all(pool, 1)
    assert f"{LATENTS[0][0]:.9g}, {LATENTS[0][1]:.9g}" in str(caught.value)
    assert len(said) == 2
