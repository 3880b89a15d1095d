"""Where to render: the CPU, or graphics cards that Blender can reach and that do render."""

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import TypeVar

import numpy as np

from ident3d.errors import DataError, choose, whole

from .blender import GPU_TYPES, Gpu, Renderer, find_gpus
from .presets import Quality
from .scene import scene_state
from .workers import WorkerSlot

T = TypeVar("T")
MOST_WORKERS = 1024  # a mistyped number must not start a million processes
DEVICES = ("auto", "cpu", *(kind.lower() for kind in GPU_TYPES))


def find_slots(device: str, workers: int | None) -> tuple[str, list[WorkerSlot]]:
    """Turn `--device` and `--workers` into a name for show and a slot for every worker.

    Raises:
        ValueError: The device asked for is not here; the message lists what is.
        DataError: It is here, but does not render.
    """
    choose(dict.fromkeys(DEVICES), device, "device")
    if workers is not None:
        whole(workers, "workers", 1, MOST_WORKERS)
    cards = [] if device == "cpu" else choose_cards(device, _apart(find_gpus), _problem)
    return name_device(cards), assign_slots(cards, workers)


def choose_cards(device: str, cards: list[Gpu], works: Callable[[Gpu], str | None]) -> list[Gpu]:
    """Pick the cards to use; none means the CPU.

    Args:
        device: A device's name, or `auto` for the best that works.
        cards: What Blender found.
        works: Tries a card out; returns None, or the reason why it does not render.
    """
    kinds = list(dict.fromkeys(card.kind for card in cards))
    if device == "auto":
        for kind in sorted(kinds, key=GPU_TYPES.index):
            if working := [c for c in cards if c.kind == kind and works(c) is None]:
                return working
        return []
    mine = [card for card in cards if card.kind == device.upper()]
    if not mine:
        there = ", ".join(["cpu", *sorted({kind.lower() for kind in kinds})])
        raise ValueError(
            f"`device` {device} is not on this machine; Blender finds: {there}. "
            "`ident3d doctor` says more."
        )
    for card in mine:
        if reason := works(card):
            raise DataError(
                f"`device` {device}: {card.name} is here but does not render: {reason}. "
                "`--device auto` takes what works."
            )
    return mine


def assign_slots(cards: list[Gpu], workers: int | None) -> list[WorkerSlot]:
    """Give every worker its slot: a card each in turn, or its part of the CPU's cores."""
    if cards:
        return [WorkerSlot(gpu=cards[n % len(cards)]) for n in range(workers or len(cards))]
    cores = count_cores()
    workers = workers or cores
    return [WorkerSlot(threads=max(1, cores // workers))] * workers


def count_cores() -> int:
    """Count the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def name_device(cards: list[Gpu]) -> str:
    """Name the device for people."""
    if not cards:
        return "cpu"
    names = ", ".join(card.name for card in cards)
    return f"{cards[0].kind.lower()} ({names})"


def _problem(card: Gpu) -> str | None:
    try:
        return _apart(_try_out, card)
    except DataError:
        return "Blender crashed"


def _try_out(card: Gpu) -> str | None:
    """Render a few pixels on a card; returns None, or what Blender says."""
    try:
        quality = Quality(1, 0, light_tree=False, prefilter="NONE", denoiser="FAST")
        Renderer(quality, 16, gpu=card).render(scene_state(np.zeros(10)))
    except RuntimeError as error:
        return " ".join(str(error).split())
    return None


def _apart(function: Callable[..., T], *arguments: object) -> T:
    """Call a function in a process of its own: a driver that crashes takes only that with it."""
    with ProcessPoolExecutor(1, get_context("spawn")) as executor:
        try:
            return executor.submit(function, *arguments).result()
        except BrokenProcessPool:
            raise DataError("Blender crashed; `--device cpu` uses no graphics card.") from None
