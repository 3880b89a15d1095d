"""Where to render: the CPU, or graphics cards that Blender can reach and that do render."""

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

import numpy as np

from ident3d.errors import DataError, choose

from .blender import GPU_TYPES, Gpu, Renderer, find_gpus
from .presets import Quality
from .scene import scene_state
from .workers import Seat

DEVICES = ("auto", "cpu", *(kind.lower() for kind in GPU_TYPES))


def find_seats(device: str, workers: int | None) -> tuple[str, list[Seat]]:
    """Turn `--device` and `--workers` into a name for show and a seat for every worker.

    Raises:
        ValueError: The device asked for is not here; the message lists what is.
        DataError: It is here, but does not render.
    """
    choose(dict.fromkeys(DEVICES), device, "device")
    if workers is not None and workers < 1:
        raise ValueError(f"`workers` must be 1 or more, got {workers}.")
    cards = [] if device == "cpu" else choose_cards(device, _apart(find_gpus), _works)
    return name_seats(cards), assign_seats(cards, workers)


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


def assign_seats(cards: list[Gpu], workers: int | None) -> list[Seat]:
    """Give every worker its place: a card each in turn, or its part of the CPU's cores."""
    if cards:
        return [Seat(gpu=cards[place % len(cards)]) for place in range(workers or len(cards))]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    workers = workers or cores
    return [Seat(threads=max(1, cores // workers))] * workers


def name_seats(cards: list[Gpu]) -> str:
    """Name the device for people."""
    if not cards:
        return "cpu"
    names = ", ".join(card.name for card in cards)
    return f"{cards[0].kind.lower()} ({names})"


def _works(card: Gpu) -> str | None:
    return _apart(_try_out, card)


def _try_out(card: Gpu) -> str | None:
    """Render a few pixels on a card; returns None, or what Blender says."""
    try:
        quality = Quality(1, 0, light_tree=False, prefilter="NONE", denoiser="FAST")
        Renderer(quality, 16, gpu=card).render(scene_state(np.zeros(10)))
    except RuntimeError as error:
        return " ".join(str(error).split())
    return None


def _apart(function: Callable, *arguments: object) -> object:
    """Call a function in a process of its own: a driver that crashes takes only that with it."""
    with ProcessPoolExecutor(1, get_context("spawn")) as executor:
        try:
            return executor.submit(function, *arguments).result()
        except BrokenProcessPool:
            if function is _try_out:
                return "Blender crashed"
            raise DataError("Blender crashed while it looked for devices.") from None
