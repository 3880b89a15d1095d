"""How long work takes on many nodes: a few lines of arithmetic, checked against a simulation.

Work is a list of pieces (files, runs). A node takes the next piece whenever it has none, so the end
is found by doing just that with numbers. Two more things decide: the disk that all nodes share
takes so many bytes a second from all of them together, and a node that is lost comes back.
"""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

SLOW_SHARE, SLOW_FACTOR = 0.05, 2.0  # a bad day: one node in twenty is half as fast
UNEVEN = 1.25  # pieces are the limit where their ends take this much longer than even work would


@dataclass(frozen=True)
class Work:
    """Pieces of work, none of which waits for another."""

    pieces: Sequence[float]  # seconds of each on one node, in the order in which they are begun
    moved: float  # bytes between all nodes and the shared disk


@dataclass(frozen=True)
class Site:
    """Where the work is done."""

    start: float  # seconds until a node begins, also after it was lost
    disk: float  # bytes a second that the shared disk moves for all nodes together
    lost_per_day: float = 0.0  # of each node; it comes back and goes on with what it had


@dataclass(frozen=True)
class Forecast:
    """What is to be expected of a number of nodes."""

    nodes: int
    seconds: float
    seconds_if_slow: float  # where some nodes are slow, by SLOW_SHARE and SLOW_FACTOR
    busy: float  # share of the nodes' time that is spent on pieces
    bytes_per_second: float  # between all nodes and the shared disk
    limit: str  # what more of would help: nodes, pieces, disk, or a shorter start


def forecast(work: Work, site: Site, nodes: int) -> Forecast:
    """Tell time and traffic of some work on a number of nodes."""
    even = sum(work.pieces) / nodes
    alike = makespan(work.pieces, [1.0] * nodes)
    moving = work.moved / site.disk
    seconds = _with_losses(max(alike, moving), site)
    return Forecast(
        nodes=nodes,
        seconds=seconds,
        seconds_if_slow=_with_losses(max(makespan(work.pieces, _speeds(nodes)), moving), site),
        busy=even / seconds,
        bytes_per_second=work.moved / seconds,
        limit=_limit(even, alike, moving, site.start),
    )


def makespan(pieces: Iterable[float], speeds: Sequence[float]) -> float:
    """Return when the last piece ends if whoever is free takes the next one."""
    free = [(0.0, number) for number in range(len(speeds))]
    end = 0.0
    for seconds in pieces:
        now, number = free[0]
        heapq.heapreplace(free, (now + seconds / speeds[number], number))
        end = max(end, now + seconds / speeds[number])
    return end


def nodes_that_fill(work: Work, site: Site) -> int:
    """Return from how many nodes on the shared disk is the limit."""
    return max(1, round(sum(work.pieces) / (work.moved / site.disk))) if work.moved else 0


def _with_losses(seconds: float, site: Site) -> float:
    """Add the start, and what losses cost: journals and checkpoints leave it at a start each."""
    return site.start + seconds * (1 + site.lost_per_day / 86400 * site.start)


def _speeds(nodes: int) -> list[float]:
    """Return the nodes' speeds on a bad day, the slow ones spread among the others."""
    slow = round(SLOW_SHARE * nodes) or 1
    every = max(1, nodes // slow)
    speeds = [1.0] * nodes
    for number in range(0, nodes, every)[:slow]:
        speeds[number] = 1 / SLOW_FACTOR
    return speeds


def _limit(even: float, alike: float, moving: float, start: float) -> str:
    if moving > alike:
        return "disk"
    if start > alike:
        return "start"
    return "pieces" if alike > UNEVEN * even else "nodes"
