"""Progress of a run: a bar where someone watches, a line now and then where nobody does."""

import sys
import time
from types import TracebackType

import click

from ident3d.progress import progress

LINE_EVERY = 60.0  # seconds between lines when stderr is not a terminal


class Report:
    """Counts images; a context manager.

    Args:
        total: Images of the whole run.
        done: Images that were there before.
        device: Name of the device, for show.
    """

    def __init__(self, total: int, done: int, device: str) -> None:
        self.total, self.done, self.device = total, done, device
        self._began, self._first = time.monotonic(), done
        self._spoke = self._began
        self._bar = progress(total, f"render on {device}", unit="image", initial=done)

    def __enter__(self) -> "Report":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.close()

    def advance(self, images: int = 1) -> None:
        """Count images that this run, or another one, has finished."""
        self.done += images
        self._bar.update(images)
        if not sys.stderr.isatty() and time.monotonic() - self._spoke >= LINE_EVERY:
            self._spoke = time.monotonic()
            self.say(self.line())

    def say(self, text: str) -> None:
        """Print a line without tearing the bar."""
        with self._bar.external_write_mode(sys.stderr):
            click.echo(text, err=True)

    def line(self) -> str:
        """Describe the state of the run in a line."""
        rate = (self.done - self._first) / max(time.monotonic() - self._began, 1e-9)
        left = f"{duration((self.total - self.done) / rate)} left" if rate else "time left unknown"
        done = f"{self.done:,} of {self.total:,} images"
        return f"{done}, {rate:.2f} images/s, {left}, {self.device}"


def duration(seconds: float) -> str:
    """Write a time span as people do: `3 h 20 min`, `45 s`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    return f"{hours / 24:.1f} days"
