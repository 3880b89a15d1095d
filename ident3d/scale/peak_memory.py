"""How much memory a process had at its peak."""

import sys


def peak_memory(children: bool = False) -> float:
    """Return the most bytes that this process had at a time, or any that it started and ended."""
    import resource  # which Windows has not

    who = resource.RUSAGE_CHILDREN if children else resource.RUSAGE_SELF
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes
    return float(resource.getrusage(who).ru_maxrss * unit)
