"""Servers that misbehave: a file under its final name is whole, whatever they do."""

import hashlib
from dataclasses import replace

import pytest

from ident3d.errors import DataError
from ident3d.published import transfer
from ident3d.published.catalogue import CATALOGUE
from ident3d.published.downloading import download
from tests.faults.calling import refused
from tests.faults.ledger import injected
from tests.support.server import DATA, Behaviour, serving

SMALL = DATA[:60_000]


@pytest.fixture
def known(monkeypatch):
    """Two data sets of one file: of one the MD5 is known, of the other it is not."""
    monkeypatch.setattr(transfer, "_TIMEOUT", 5)
    for name, md5 in (("small", hashlib.md5(SMALL).hexdigest()), ("unknown", None)):
        published = replace(CATALOGUE["3dident"], record=1, archives={"train": ("small.tar", md5)})
        monkeypatch.setitem(CATALOGUE, name, published)


def get(name, out, behaviour):
    """Download; returns what lies under the final name, if anything does."""
    with serving(behaviour) as url:
        try:
            download(name, out, url=url, pause=0.001)
        except DataError as error:
            assert "\n" not in str(error)
    path = out / "small.tar"
    return path.read_bytes() if path.exists() else None


@pytest.mark.parametrize("most", [0, 1, 30_000, 59_999])
@pytest.mark.parametrize("ranges", [True, False])
def test_a_file_of_unknown_length_that_is_cut_off_never_gets_its_name(
    tmp_path, known, most, ranges
):
    faults = {"most": most, "ranges": ranges, "length": False}
    assert get("unknown", tmp_path, Behaviour(data=SMALL, **faults)) is None
    assert (tmp_path / "small.tar.unverified").exists()
    injected("an HTTP fault", "not under its final name")


def test_a_file_of_unknown_length_and_known_md5_gets_its_name(tmp_path, known):
    assert get("small", tmp_path, Behaviour(data=SMALL, length=False)) == SMALL
    injected("an HTTP fault", "whole")


def test_a_file_in_chunks_is_known_to_be_whole(tmp_path, known):
    assert get("unknown", tmp_path, Behaviour(data=SMALL, chunked=True)) == SMALL
    assert (
        get("unknown", tmp_path / "cut", Behaviour(data=SMALL, chunked=True, most=99, ranges=False))
        is None
    )
    injected("an HTTP fault", "whole or not under its final name", 2)


@pytest.mark.parametrize("part", [1_000, 7_777, 59_999])
@pytest.mark.parametrize("total", [True, False])
def test_parts_smaller_than_asked_for_add_up(tmp_path, known, part, total):
    (tmp_path / "small.tar.part").write_bytes(SMALL[:20_000])
    behaviour = Behaviour(data=SMALL, part=part, total=total)
    assert get("unknown", tmp_path, behaviour) == SMALL
    injected("an HTTP fault", "whole")


@pytest.mark.parametrize("total", [True, False])
def test_a_part_with_an_unmet_length_is_not_the_end(tmp_path, known, total):
    (tmp_path / "small.tar.part").write_bytes(SMALL[:20_000])
    behaviour = Behaviour(data=SMALL, most=10_000, total=total)
    assert get("unknown", tmp_path, behaviour) == SMALL
    assert len(behaviour.requests) >= 4
    injected("an HTTP fault", "whole")


@pytest.mark.parametrize(
    "address",
    [
        *("http://host:port/", "http://host:-1/", "http://host:99999999/", "http://[::1/"),
        *("http://a b/", "http://a\tb/", "http://\x1b[31m/", "http://a..b/", "http://é.de/"),
        *("http:///path", "https://", "http://" + "a" * 70 + ".de/", "javascript:alert(1)"),
        *("file:///etc/passwd", "ftp://host/", "//host/", "http://", "http://:80/", " http://a/"),
    ],
)
def test_a_malformed_address_is_not_tried_again(tmp_path, known, monkeypatch, address):
    monkeypatch.setattr(transfer.time, "sleep", lambda seconds: pytest.fail("tried again"))
    refused("download", "small", tmp_path / "out", "--url", address)
    assert not (tmp_path / "out").exists()
    injected("a malformed address", "refused at once")


@pytest.mark.parametrize(
    "address", ["http://host:port/", "file:///etc/passwd", "http://a b/\x01", "http://a..b/"]
)
def test_nor_is_one_that_a_server_leads_to(tmp_path, known, monkeypatch, address):
    monkeypatch.setattr(transfer.time, "sleep", lambda seconds: pytest.fail("tried again"))
    with serving(Behaviour(redirect=address)) as url:
        refused("download", "small", tmp_path, "--url", url)
    assert not (tmp_path / "small.tar").exists()
    injected("a malformed address", "refused at once")
