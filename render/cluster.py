"""Rendering on many machines with Ray: one task per file, on a file system that all of them see."""

import time
from functools import lru_cache, partial

from ident3d.errors import DataError
from ident3d.files import Busy
from ident3d.progress import Tracker
from ident3d.scale.ray_tasks import connect, run_tasks

from .blender import Renderer, find_gpus
from .devices import choose_cards
from .plan import Plan, ShardTask
from .spec import RenderSettings


def render_on_cluster(plan: Plan, tasks: list[ShardTask], address: str, device: str) -> None:
    """Render files as Ray tasks and wait for all of them.

    `tasks` are the files of this share; `address` is as `ray_tasks.connect` takes it; `device` is
    `cpu`, or the kind of card every task asks Ray for one of.
    """
    ray = connect(address)
    gpus = 0 if device in ("auto", "cpu") else 1
    total, done = plan.count(tasks)
    left = [task for task in tasks if not plan.done(task)]
    render = partial(render_shard, plan, device)
    with Tracker(total, f"render on Ray ({address})", "image", done) as tracker:
        for task, failed in run_tasks(ray, render, left, gpus):
            if failed:
                raise failed
            tracker.advance(task.rows)
    ray.shutdown()


def render_shard(plan: Plan, device: str, task: ShardTask) -> None:
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
        except Busy:  # another run has it
            time.sleep(1)
        except FileNotFoundError:  # another run tidied up after the last file, or all was removed
            if not plan.done(task):
                raise DataError(f"{plan.folder} was removed while it was rendered.") from None


@lru_cache(maxsize=1)
def _renderer(settings: RenderSettings, device: str) -> Renderer:
    """Keep one Blender per Ray process from task to task; Ray leaves it one card, if any."""
    if device in ("auto", "cpu"):
        return settings.renderer(1, None)
    return settings.renderer(1, choose_cards(device, find_gpus(), lambda card: None)[0])
