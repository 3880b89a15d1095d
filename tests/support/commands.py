"""Command lines: parsed by the real parsers without being run, or run and watched."""

import shlex
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import click

from ident3d.cli import cli

LIGHT = """import sys
from ident3d.cli import main
try: main(sys.argv[1:])
except SystemExit: pass
heavy = {'torch', 'bpy', 'faiss', 'numpy', 'scipy', 'h5py'} & set(sys.modules)
assert not heavy, heavy
"""


def printed_by(*arguments):
    """What a command prints that must answer at once: it may import nothing heavy."""
    command = [sys.executable, "-c", LIGHT, *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def parse(line):
    """Raise click's own error where `ident3d` would not understand the line."""
    program, *words = shlex.split(line, comments=True)
    assert program == "ident3d", line
    command, context, name = cli, None, program
    # The files that a line names need not be there.
    with patch.object(click.Path, "convert", lambda self, value, *_: Path(value)):
        try:
            while isinstance(command, click.Group):
                context = command.make_context(name, words, parent=context)
                left = [*context._protected_args, *context.args]
                name, command, words = command.resolve_command(context, left)
            command.make_context(name, words, parent=context)
        except click.exceptions.Exit:  # --help and --version have done their work
            pass


def all_commands(group=cli, path=("ident3d",)):
    """Every group and command as (its words, the click command)."""
    yield path, group
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        if isinstance(command, click.Group):
            yield from all_commands(command, (*path, name))
        else:
            yield (*path, name), command
