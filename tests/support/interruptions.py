"""Runs that are killed at some step, and threads that work at the same time."""

import threading
from contextlib import contextmanager

import pytest


class Killed(Exception):
    pass


def cut_off(batches, kill_at):
    """Batches that end in a kill."""

    def source(first):
        for step, batch in enumerate(batches(first), first):
            if step == kill_at:
                raise Killed
            yield batch

    return source


@contextmanager
def killed(monkeypatch, owner, name, kill_at):
    """Do what follows with batches that end in a kill: those that `owner.name` makes."""
    make = getattr(owner, name)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(owner, name, lambda *arguments: cut_off(make(*arguments), kill_at))
        yield


def in_threads(work, count):
    """Do `work(0)`, `work(1)`, ... in threads, and wait for all of them."""
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
