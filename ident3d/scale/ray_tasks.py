"""Tasks on a Ray cluster: one call for each piece of work, done again where a machine is lost."""

import logging
import os
import re
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ..errors import DataError

RETRIES = 4  # of a task whose process or machine died; what it had stored is not lost


def connect(address: str) -> Any:
    """Return `ray`, connected: `auto` to the cluster that runs, `local` to one on this machine."""
    try:
        import ray
    except ImportError as error:
        raise ImportError("`--ray` needs Ray: `pip install 'ident3d[ray]'`.") from error
    try:
        _call_at(address)
        ray.init(
            None if address == "local" else address,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (OSError, ValueError, RuntimeError) as error:
        raise DataError(f"No Ray cluster at {address!r}: {error}") from error
    return ray


def _call_at(address: str) -> None:
    """Fail at once where nobody listens: Ray itself tries for minutes."""
    if found := re.fullmatch(r"(?:ray://)?([^:/]+):(\d+)", address):
        socket.create_connection((found[1], int(found[2])), timeout=10).close()


def run_tasks(
    ray: Any, function: Callable[[Any], Any], pieces: Sequence[Any], gpus: float
) -> Iterator[tuple[Any, Any]]:
    """Call `function(piece)` for every piece, and yield each piece with what came of it.

    That is the value, or a `DataError` where a task failed for good. A task whose process or
    machine dies is called again, elsewhere if need be: `function` must go on with what is there.
    The cluster's processes run it in the folder that this process is in. Each piece is a task of
    one core and of `gpus` cards, 0.5 is half of one.
    """
    task = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=RETRIES)(_call)
    # Sent once, however many tasks there are.
    shared = ray.put((os.getcwd(), function))
    running = {task.remote(shared, piece): piece for piece in pieces}
    while running:
        (ended,), _ = ray.wait(list(running))
        piece = running.pop(ended)
        try:
            yield piece, ray.get(ended)
        except ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()[-1]
            yield piece, DataError(f"A task failed for good ({reason}). What was done is kept.")


def _call(shared: tuple[str, Callable[[Any], Any]], piece: Any) -> Any:
    folder, function = shared
    if not Path(folder).is_dir():
        raise DataError(f"{os.uname().nodename} does not see {folder}; start where all do.")
    os.chdir(folder)  # what paths are relative to
    return function(piece)
