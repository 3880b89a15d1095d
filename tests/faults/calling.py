"""Calling commands in this process, and what every refusal must be."""

import contextlib
import io
import time
from dataclasses import dataclass

from ident3d.cli import main
from ident3d.errors import DataError

LONGEST = 10.0  # seconds of this process's own work before a command counts as hanging


@dataclass(frozen=True)
class Called:
    """What a command did. Any exception but its exit passes on: that is a traceback."""

    code: int
    out: str
    err: str

    @property
    def sentence(self) -> str:
        """The one sentence of a refusal; click puts how the command is used before it."""
        lines = [line for line in self.err.splitlines() if line.strip()]
        usage = ("Usage: ", "Try 'ident3d ")
        said = [line for line in lines if not line.startswith(usage)]
        assert len(said) == 1, self.err
        return said[0]


def call(*arguments: object) -> Called:
    """Run `ident3d` with arguments as a shell would, and fast enough not to be called hanging."""
    out, err = io.StringIO(), io.StringIO()
    began = time.process_time()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([str(argument) for argument in arguments])
            code = 0
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    assert time.process_time() - began < LONGEST, f"{arguments} took too long"
    called = Called(code, out.getvalue(), err.getvalue())
    shown = called.out + called.err
    assert all(c.isprintable() or c == "\n" for c in shown), f"control characters: {shown!r}"
    assert "Traceback" not in shown
    return called


def refused(*arguments: object) -> str:
    """Run a command that must be refused; returns its one sentence."""
    called = call(*arguments)
    assert called.code in (1, 2), f"{arguments} ended with {called.code}: {called.out}{called.err}"
    sentence = called.sentence
    assert len(sentence) < 1000 and sentence[-1] in ".!?)'\"", sentence
    return sentence


def one_sentence(act, *arguments: object) -> str:
    """Call a function that must refuse in a sentence; returns that."""
    try:
        act(*arguments)
    except (DataError, ValueError) as error:
        text = str(error)
        assert text and "\n" not in text.strip() and len(text) < 1000, text
        return text
    raise AssertionError(f"{act} accepted {arguments!r:.200}")
