"""Rendering on many machines with Ray: one task per file, on a file system that all of them see."""

import logging
import time
from functools import lru_cache
from typing import Any

from ident3d.errors import DataError
from ident3d.files import Busy
from ident3d.progress import Tracker

from .blender import Renderer, find_gpus
from .devices import choose_cards
from .plan import Plan, ShardTask
from .spec import RenderSettings

RETRIES = 2  # of a task whose machine or Blender died


def render_on_cluster(plan: Plan, tasks: list[ShardTask], address: str, device: str) -> None:
    """Render files as Ray tasks and wait for all of them.

    Args:
        plan: What to render.
        tasks: The files of this share.
        address: A Ray cluster's address; `auto` finds the running one, `local` starts one here.
        device: `cpu`, or the kind of card every task asks Ray for one of.
    """
    ray = _connect(address)
    gpus = 0 if device in ("auto", "cpu") else 1
    render = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=RETRIES)(render_shard)
    total, done = plan.count(tasks)
    rows = {render.remote(plan, task, device): task.rows for task in tasks if not plan.done(task)}
    with Tracker(total, f"render on Ray ({address})", "image", done) as tracker:
        running = list(rows)
        while running:
            (ended,), running = ray.wait(running)
            try:
                ray.get(ended)
            except ray.exceptions.RayError as error:
                reason = str(error).strip().splitlines()[-1]
                raise DataError(
                    f"A task failed for good ({reason}). What was rendered is kept."
                ) from error
            tracker.advance(rows[ended])
    ray.shutdown()


def render_shard(plan: Plan, task: ShardTask, device: str) -> None:
    """Render one file where this is called; resumes what a dead task has left."""
    settings = plan.spec.render_settings()
    while not plan.done(task):
        try:
            with plan.open(task) as writer:
                renderer = _renderer(settings, device)
                for position in writer.missing():
                    state = settings.state(writer.latents[position])
                    writer.put(position, renderer.render(state))
                writer.finish()
        except (Busy, FileNotFoundError):  # another run has it, or tidies up after the last one
            time.sleep(1)


@lru_cache(maxsize=1)
def _renderer(settings: RenderSettings, device: str) -> Renderer:
    """Keep one Blender per Ray process from task to task; Ray leaves it one card, if any."""
    if device in ("auto", "cpu"):
        return settings.renderer(1, None)
    return settings.renderer(1, choose_cards(device, find_gpus(), lambda card: None)[0])


def _connect(address: str) -> Any:
    try:
        import ray
    except ImportError as error:
        raise ImportError("`--ray` needs Ray: `pip install 'ident3d[ray]'`.") from error
    try:
        ray.init(
            None if address == "local" else address,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise DataError(f"No Ray cluster at {address!r}: {error}") from error
    return ray
