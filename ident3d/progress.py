"""One way to show long work: a bar with rate and time left, or nothing when nobody watches."""

import sys

from tqdm import tqdm


def progress(total: int | None, label: str, unit: str = "row", initial: int = 0) -> tqdm:
    """Open a progress bar on stderr; invisible when stderr is not a terminal."""
    return tqdm(
        total=total,
        initial=initial,
        desc=label,
        unit=f" {unit}s",
        disable=not sys.stderr.isatty(),
        dynamic_ncols=True,
        smoothing=0.1,
    )
