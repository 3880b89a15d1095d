"""Help texts, `--version` and completion: what the command line says of itself."""

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from ident3d.cli import cli
from tests.support.commands import all_commands, parse, printed_by

COMMANDS = {" ".join(path): command for path, command in all_commands()}


def examples(command):
    lines = (command.epilog or "").splitlines()
    return [line.strip() for line in lines if line.startswith("  ident3d ")]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_text_ends_with_examples_that_parse(name):
    found = examples(COMMANDS[name])
    assert found and all(line.startswith(name) for line in found)
    for line in found:
        parse(line)
    shown = CliRunner().invoke(cli, [*name.split()[1:], "--help"]).output
    for line in found:
        assert f"    {line}\n" in shown  # as it is, not wrapped


@pytest.mark.parametrize(
    "line",
    [
        "ident3d frobnicate",
        "ident3d render",
        "ident3d render out --size many",
        "ident3d audit --method best",
        "ident3d benchmark run --frob table1",
    ],
)
def test_the_check_of_examples_can_fail(line):
    with pytest.raises(click.UsageError):
        parse(line)


def test_version_names_what_matters_and_imports_none_of_it():
    lines = printed_by("--version").splitlines()
    assert [line.split()[0] for line in lines] == [
        "ident3d", "Python", "Blender", "torch", "FAISS", "NumPy", "h5py",
    ]  # fmt: skip
    assert all(len(line.split()) > 1 for line in lines)


def test_version_says_what_is_not_installed(monkeypatch):
    from importlib import metadata

    from ident3d.commands.versions import version_text

    real = metadata.version

    def version(name):
        if name in ("torch", "faiss-gpu", "faiss-cpu"):
            raise metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(metadata, "version", version)
    assert "torch not installed\nFAISS not installed" in version_text()


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("ident3d ren", ["render"]),
        ("ident3d i", ["info", "index", "import"]),
        ("ident3d benchmark r", ["run", "report"]),
        ("ident3d --v", ["--version"]),
    ],
)
def test_completion_answers_from_the_tables_alone(typed, offered):
    script = (
        "import sys\n"
        "from ident3d.cli import main\n"
        "try: main([])\n"
        "except SystemExit: pass\n"
        "assert not {'torch', 'faiss', 'h5py'} & set(sys.modules)\n"
    )
    # The shell calls the program with these; docs/install.md has the line that makes it do so.
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    environment = {**os.environ, **words, "_IDENT3D_COMPLETE": "bash_complete"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [f"plain,{name}" for name in offered]


def test_the_documented_line_of_completion_works():
    page = (Path(__file__).parents[2] / "docs" / "install.md").read_text()
    assert 'eval "$(_IDENT3D_COMPLETE=bash_source ident3d)"' in page
    line = 'eval "$(_IDENT3D_COMPLETE=bash_source ident3d)"; complete -p ident3d'
    program = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", line], env={**os.environ, "PATH": program}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "_ident3d_completion" in done.stdout
