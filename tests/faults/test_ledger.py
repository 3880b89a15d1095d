"""The page on reliability is the ledger's: every kind, with enough injections."""

import re

import pytest

from tests.faults.ledger import KINDS, injected
from tests.faults.report import PAGE

LINE = re.compile(
    r"\| (?P<promise>.*?) \| \*\*(?P<kind>.*?)\*\*: .*? \| (?P<count>[\d,]+) \| .* \|"
)


def test_the_page_has_every_kind_of_fault():
    found = [match for line in PAGE.read_text().splitlines() if (match := LINE.fullmatch(line))]
    assert {match["kind"]: match["promise"] for match in found} == {
        kind: promise for kind, (promise, _) in KINDS.items()
    }, "`python -m tests.faults.report` writes the page anew"
    assert len(found) >= 30
    assert sum(int(match["count"].replace(",", "")) for match in found) >= 1_000


def test_a_kind_that_is_not_in_the_table_is_refused():
    with pytest.raises(KeyError):
        injected("a meteorite", "survived")
