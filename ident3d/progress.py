"""Long work as people watch it: bars, lines in a log, and sizes and durations in words."""

import sys
import time

import click
from tqdm import tqdm

LINE_EVERY = 60.0  # seconds between lines in a log


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


class Tracker:
    """Progress of hours of work: a bar on a terminal, elsewhere a line a minute. A context manager.

    `unit` is what is counted, in the singular; `done` is how much was there before.
    """

    def __init__(self, total: int, label: str, unit: str = "row", done: int = 0) -> None:
        self.total, self.label, self.unit, self.done = total, label, unit, done
        self.note = ""  # shown at the end of the bar and of every line, such as the latest loss
        self._before, self._began = done, time.monotonic()
        self._spoke = self._began
        self._bar = progress(total, label, unit, done)

    def __enter__(self) -> "Tracker":
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def advance(self, count: int = 1) -> None:
        """Count what has been done since the last call, by this process or by others."""
        self.done += count
        self._bar.set_postfix_str(self.note, refresh=False)
        self._bar.update(count)
        if self._bar.disable and time.monotonic() - self._spoke >= LINE_EVERY:
            self._spoke = time.monotonic()
            self.say(self.line())

    def say(self, text: str) -> None:
        """Print a line to stderr without tearing the bar."""
        with self._bar.external_write_mode(sys.stderr):
            click.echo(text, err=True)

    def line(self) -> str:
        """Describe the state in a line, the time left included."""
        rate = (self.done - self._before) / max(time.monotonic() - self._began, 1e-9)
        left = f"{duration((self.total - self.done) / rate)} left" if rate else "time left unknown"
        done = f"{self.label}: {self.done:,} of {self.total:,} {self.unit}s"
        return f"{done}, {rate:.3g} {self.unit}s/s, {left}{self.note and ', '}{self.note}"


def duration(seconds: float) -> str:
    """Write a time span as people do: `0.25 s`, `1 min 30 s`, `3 h 20 min`, `4.5 days`."""
    if seconds < 9.95:
        return f"{seconds:.2g} s"
    if seconds >= 48 * 3600:
        return f"{seconds / 86400:.1f} days"
    if seconds < 600:
        large, small, names = *divmod(round(seconds), 60), ("min", "s")
    else:
        large, small, names = *divmod(round(seconds / 60), 60), ("h", "min")
    parts = zip((large, small), names, strict=True)
    return " ".join(f"{count} {name}" for count, name in parts if count)


def size(count: float) -> str:
    """Write a number of bytes as people do: `120 bytes`, `1.5 GB`."""
    for unit in ("bytes", "KB", "MB", "GB"):
        if count < 999.5:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
