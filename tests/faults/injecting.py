"""How storage faults are injected: at every step that a writer takes on the disk, or in a child."""

import contextlib
import os
import re
import signal

from ident3d import files
from ident3d.errors import system_sentence


@contextlib.contextmanager
def watching(watch):
    """Call `watch(action, path)` before every change of the disk."""
    files.watchers.append(watch)
    try:
        yield
    finally:
        files.watchers.remove(watch)


def steps_of(work):
    """Run `work` to its end and list its steps."""
    seen = []
    with watching(lambda action, path: seen.append((action, path.name))):
        work()
    return seen


def at_step(number, act):
    """Make a watcher that acts at the given step, counted from 0."""
    left = [number]

    def watch(action, path):
        left[0] -= 1
        if left[0] == -1:
            act(path)

    return watch


def killed_at(number, work):
    """Run `work` in a child that is killed before its step; tell whether it came so far."""
    with watching(at_step(number, lambda path: os.kill(os.getpid(), signal.SIGKILL))):
        code, said = in_child(work)
    assert code in (0, -signal.SIGKILL), said
    return code != 0


def failing_at(number, code):
    """Let the disk refuse a step with the given error number."""

    def refuse(path):
        raise OSError(code, os.strerror(code), str(path))

    return watching(at_step(number, refuse))


def in_child(work):
    """Run `work` in a child of its own; see `at_once`."""
    return at_once(work)[0]


def at_once(*works, seconds=60):
    """Run works in forked children that start together; return each one's exit code and words.

    The code is below 0 for a signal, and 3 for an exception, which is then what it said.
    """
    gate, opener = os.pipe()
    children = [_start(work, gate, opener, seconds) for work in works]
    os.close(gate)
    os.close(opener)
    return [_end(*child) for child in children]


def _start(work, gate, opener, seconds):
    read, write = os.pipe()
    child = os.fork()
    if child:
        os.close(write)
        return child, read
    code = 3
    try:
        os.close(opener)
        os.read(gate, 1)  # returns when the parent opens the gate
        signal.alarm(seconds)  # a hang is a death
        work()
        code = 0
    except BaseException as error:
        os.write(write, f"{type(error).__name__}: {told(error)}".encode()[:60_000])
    finally:
        os._exit(code)


def _end(child, read):
    with os.fdopen(read, "rb") as stream:
        said = stream.read().decode(errors="replace")
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said


def told(error):
    """Write an error as the command line does."""
    return system_sentence(error) if isinstance(error, OSError) else str(error)


def is_one_sentence(text):
    """Whether an error reads as one sentence with a way out."""
    text = text.strip()
    return bool(re.fullmatch(r"[^\n]+[;:,][^\n]+\.", text)) and "Traceback" not in text


def flip(path, bit):
    """Flip one bit of a file."""
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)
