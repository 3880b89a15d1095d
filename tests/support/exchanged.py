"""Going out to another format and back."""

import numpy as np
from click.testing import CliRunner

from ident3d.cli import cli
from ident3d.dataset import load
from ident3d.shards.verify import problems

# What data sets differ in, as `make_dataset` takes it.
KINDS = {
    "plain": {},
    "pairs": {"pairs": "normal:0.1"},
    "classes": {"classes": 3},
    "zstd": {"compress": True},
}


def run(*arguments):
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.output


def round_trip(data, folder, layout):
    """Export through the command, import through the command; all must be as it was."""
    run("export", data.path, folder / "out", "--format", layout)
    run("import", folder / "out", folder / "back")
    back = load(folder / "back" / data.split)
    assert list(problems(back)) == []
    assert back.fingerprint == data.fingerprint  # every file, byte by byte
    np.testing.assert_array_equal(back.images[:], data.images[:])
    return folder / "out"
