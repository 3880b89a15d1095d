"""Wrong command lines: each is refused with one sentence and exit code 1 or 2."""

import shlex

import pytest

from tests.faults.calling import refused
from tests.faults.command_lines import LINES
from tests.faults.ledger import injected
from tests.support.helpers import make_dataset


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a data set, a file and an empty folder to be misused."""
    root = tmp_path_factory.mktemp("lines")
    make_dataset(root / "data", rows=30, pairs="normal:0.1")
    (root / "file").write_text("just text")
    (root / "empty").mkdir()
    return root


@pytest.mark.parametrize("line", LINES)
def test_a_wrong_command_line_is_one_sentence(folder, monkeypatch, line):
    monkeypatch.chdir(folder)
    before = sorted(folder.rglob("*"))
    refused(*shlex.split(line))
    assert sorted(folder.rglob("*")) == before, "a refused command left something behind"
    injected("a wrong command line", "one sentence, exit 1 or 2, nothing written")


def test_the_list_is_long_and_has_none_twice():
    assert len(LINES) == len(set(LINES)) >= 200
