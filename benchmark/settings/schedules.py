"""Learning rates over time, as factors: functions of the share of training that is done."""

import math
from collections.abc import Callable


def _one_cycle(done: float) -> float:
    """Rise over the first tenth, then fall along a half cosine, to nothing."""
    rise = 0.1
    if done < rise:
        return 0.04 + 0.96 * (1 - math.cos(math.pi * done / rise)) / 2
    return (1 + math.cos(math.pi * (done - rise) / (1 - rise))) / 2


SCHEDULES: dict[str, Callable[[float], float]] = {
    "constant": lambda done: 1.0,
    "one-cycle": _one_cycle,
}
