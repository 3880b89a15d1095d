"""Rendering on many machines with Ray: one task per file, on a file system that all of them see."""

import time
from collections.abc import Iterator
from typing import Any

from ident3d.errors import DataError
from ident3d.shards import ShardBusy

from .blender import Gpu, Renderer, find_gpus
from .devices import choose_cards
from .plan import Plan, Unit
from .report import Report
from .scene import scene_state

RETRIES = 2  # of a task whose machine or Blender died

_renderers: dict[Any, Renderer] = {}  # one Blender per Ray process, kept between tasks


def render_on_cluster(plan: Plan, units: list[Unit], address: str, device: str) -> None:
    """Render files as Ray tasks and wait for all of them.

    Args:
        plan: What to render.
        units: The files of this share.
        address: A Ray cluster's address; `auto` finds the running one, `local` starts one here.
        device: `cpu`, or the kind of card every task asks Ray for one of.
    """
    ray = _connect(address)
    gpus = 0 if device in ("auto", "cpu") else 1
    task = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=RETRIES)(render_unit)
    left = [unit for unit in units if not plan.done(unit)]
    sizes = {task.remote(plan, unit, device): unit.stop - unit.start for unit in left}
    total = sum(unit.stop - unit.start for unit in units)
    with Report(total, total - sum(sizes.values()), f"Ray ({address})") as report:
        for reference in _as_completed(ray, list(sizes)):
            try:
                ray.get(reference)
            except ray.exceptions.RayError as error:
                reason = str(error).strip().splitlines()[-1]
                raise DataError(
                    f"A task failed for good ({reason}). What was rendered is kept."
                ) from error
            report.advance(sizes[reference])
    ray.shutdown()


def render_unit(plan: Plan, unit: Unit, device: str) -> None:
    """Render one file where this is called; resumes what a dead task has left."""
    while not plan.done(unit):
        try:
            with plan.open(unit) as writer:
                renderer = _renderer(plan, device)
                for position in writer.missing():
                    state = scene_state(writer.latents[position], plan.content.hue)
                    writer.put(position, renderer.render(state))
                writer.finish()
        except ShardBusy:  # another run has it: wait for it, or for its end
            time.sleep(1)


def _renderer(plan: Plan, device: str) -> Renderer:
    content = plan.content
    key = (content.quality, content.resolution, device)
    if key not in _renderers:
        _renderers.clear()
        _renderers[key] = Renderer(content.quality, content.resolution, 1, _card(device))
    return _renderers[key]


def _card(device: str) -> Gpu | None:
    """Take the one card that Ray has left visible to this process."""
    if device in ("auto", "cpu"):
        return None
    return choose_cards(device, find_gpus(), lambda card: None)[0]


def _connect(address: str) -> Any:
    try:
        import ray
    except ImportError as error:
        raise ImportError("`--ray` needs Ray: `pip install 'ident3d[ray]'`.") from error
    where = {} if address == "local" else {"address": address}
    try:
        ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR", **where)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise DataError(f"No Ray cluster at {address!r}: {error}") from error
    return ray


def _as_completed(ray: Any, references: list[Any]) -> Iterator[Any]:
    while references:
        (ready,), references = ray.wait(references, num_returns=1)
        yield ready
