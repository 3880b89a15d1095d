"""Downloads from a local server that drops connections, ignores ranges and sends wrong bytes."""

import hashlib
import json
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from ident3d.cli import cli
from ident3d.errors import DataError
from ident3d.published import downloading
from ident3d.published.catalogue import CATALOGUE, PublishedSet
from ident3d.published.downloading import download, publisher_sums
from tests.support.server import DATA, Behaviour, serving

MD5 = hashlib.md5(DATA).hexdigest()


@pytest.fixture
def known(monkeypatch):
    """A data set of one file, whose MD5 is known from a third party."""
    small = replace(CATALOGUE["3dident"], record=1, archives={"train": ("small.tar", MD5)})
    monkeypatch.setitem(CATALOGUE, "small", small)


def get(out, url):
    (fetched,) = download("small", out, url=url, pause=0.01)
    return fetched


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    "faults",
    [
        {},
        {"most": 70_000},
        {"most": 70_000, "etag": None},
        {"most": 70_000, "etag": 'W/"weak"'},
        {"statuses": [503, 429, 500]},
        {"shift": -1000, "most": 170_000},
    ],
    ids=str,
)
def test_a_file_arrives_whole_through_faults(tmp_path, known, faults):
    with serving(Behaviour(**faults)) as url:
        fetched = get(tmp_path, url)
    assert fetched.right
    assert fetched.path.read_bytes() == DATA
    assert names(tmp_path) == ["small.tar"]


def test_it_asks_only_for_the_rest(tmp_path, known):
    (tmp_path / "small.tar.part").write_bytes(DATA[:123_456])
    with serving(server := Behaviour()) as url:
        assert get(tmp_path, url).path.read_bytes() == DATA
    assert server.requests[0]["Range"] == "bytes=123456-"


def test_a_server_without_ranges_is_read_from_the_start(tmp_path, known):
    (tmp_path / "small.tar.part").write_bytes(b"?" * 5000)
    with serving(Behaviour(ranges=False)) as url:
        assert get(tmp_path, url).path.read_bytes() == DATA


def test_a_file_that_changed_meanwhile_is_read_from_the_start(tmp_path, known):
    (tmp_path / "small.tar.part").write_bytes(b"?" * 5000)
    (tmp_path / "small.tar.part.etag").write_text('"v0"')
    with serving(Behaviour()) as url:
        assert get(tmp_path, url).path.read_bytes() == DATA


@pytest.mark.parametrize("excess", [0, 10])
def test_a_part_that_is_whole_or_too_long(tmp_path, known, excess):
    (tmp_path / "small.tar.part").write_bytes(DATA + b"?" * excess)
    with serving(Behaviour()) as url:
        assert get(tmp_path, url).path.read_bytes() == DATA


def test_it_gives_up_and_keeps_what_came(tmp_path, known):
    with (
        serving(server := Behaviour(ranges=False, most=70_000)) as url,
        pytest.raises(DataError, match=r"70,000 bytes are kept, run the command again"),
    ):
        get(tmp_path, url)
    assert len(server.requests) == 7
    assert (tmp_path / "small.tar.part").read_bytes() == DATA[:70_000]
    assert not (tmp_path / "small.tar").exists()


def test_a_refusal_is_final(tmp_path, known):
    with (
        serving(server := Behaviour(statuses=[404, 404])) as url,
        pytest.raises(DataError, match="answers 404 Not Found"),
    ):
        get(tmp_path, url)
    assert len(server.requests) == 1


def test_nobody_at_home_is_one_sentence(tmp_path, known):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        with pytest.raises(DataError, match=r"broke off 6 times in a row .*refused"):
            get(tmp_path, f"http://127.0.0.1:{port}/")


@pytest.mark.parametrize("url", ["file:///etc/", "ftp://host/", "/etc/", "https://", "x"])
def test_other_addresses_are_refused(tmp_path, known, url):
    with pytest.raises(ValueError, match="http or https address"):
        get(tmp_path / "out", url)
    assert names(tmp_path) == []


def test_a_third_partys_sum_may_be_wrong(tmp_path, known):
    wrong = DATA[:1000] + b"?" + DATA[1001:]
    with serving(Behaviour(data=wrong)) as url:
        fetched = get(tmp_path, url)
        assert not fetched.right
        assert "third party" in fetched.note
        assert "zenodo.org/records/1" in fetched.note
        assert names(tmp_path) == ["small.tar.unverified"]
        with pytest.raises(DataError, match=r"rename it to small\.tar or remove it"):
            get(tmp_path, url)


def test_the_publishers_own_sum_decides(tmp_path, monkeypatch, known):
    with serving(Behaviour()) as url:
        monkeypatch.setattr(PublishedSet, "url", property(lambda self: url + "/"))
        monkeypatch.setattr(downloading, "publisher_sums", lambda api: {"small.tar": "0" * 32})
        with pytest.raises(DataError, match="the publisher's is 0000"):
            download("small", tmp_path)
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("answer", "sums"),
    [
        (json.dumps({"files": [{"key": "a.tar", "checksum": "md5:12"}]}), {"a.tar": "12"}),
        (json.dumps({"files": [{"key": "a.tar", "checksum": "sha256:12"}]}), {}),
        (json.dumps({"files": [{"name": "a.tar"}]}), {}),
        ("[]", {}),
        ("<html>", {}),
    ],
)
def test_the_publishers_record_is_read_with_care(answer, sums):
    with serving(Behaviour(data=answer.encode())) as url:
        assert publisher_sums(url) == sums
    with serving(Behaviour(statuses=[500])) as url:
        assert publisher_sums(url) == {}


def test_no_room_is_told_before_the_transfer(tmp_path, monkeypatch, known):
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=1000))
    with serving(Behaviour()) as url, pytest.raises(DataError, match="no room for the 300,000"):
        get(tmp_path, url)


def test_names_and_splits_are_suggested(tmp_path):
    with pytest.raises(ValueError, match="Did you mean '3dident'"):
        download("3dindent", tmp_path)
    with pytest.raises(ValueError, match="`split` must be one of train, test"):
        download("3dident", tmp_path, split="val")


def test_a_killed_download_goes_on(tmp_path):
    script = textwrap.dedent("""
        import sys
        from dataclasses import replace
        from ident3d.published import download
        from ident3d.published.catalogue import CATALOGUE
        archives = {"train": ("small.tar", sys.argv[3])}
        CATALOGUE["small"] = replace(CATALOGUE["3dident"], record=1, archives=archives)
        download("small", sys.argv[1], url=sys.argv[2])
    """)
    arguments = [sys.executable, "-c", script, tmp_path, None, MD5]
    part = tmp_path / "small.tar.part"
    with serving(server := Behaviour(delay=0.05)) as url:
        arguments[4] = url
        process = subprocess.Popen(arguments)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not (part.exists() and part.stat().st_size):
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        kept = part.stat().st_size
        assert 0 < kept < len(DATA)
        server.delay = 0
        subprocess.run(arguments, check=True)
    assert server.requests[-1]["Range"] == f"bytes={kept}-"
    assert (tmp_path / "small.tar").read_bytes() == DATA
    assert names(tmp_path) == ["small.tar"]


def test_two_downloads_of_one_file_do_not_mix(tmp_path, known):
    with serving(Behaviour(delay=0.02)) as url:
        first = threading.Thread(target=get, args=(tmp_path, url))
        first.start()
        while not list(tmp_path.glob("*.etag")):
            time.sleep(0.01)
        with pytest.raises(DataError, match=r"Another process works on .*small\.tar"):
            get(tmp_path, url)
        first.join()
    assert (tmp_path / "small.tar").read_bytes() == DATA


def test_the_command_names_the_next_one(tmp_path, known):
    with serving(Behaviour()) as url:
        arguments = ["download", "small", str(tmp_path), "--url", url]
        result = CliRunner().invoke(cli, arguments)
        again = CliRunner().invoke(cli, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    assert f"ident3d import {tmp_path / 'small.tar'}" in result.output
    assert json.loads(again.output)[0]["note"] == "is there already"
    (tmp_path / "small.tar").unlink()
    with serving(Behaviour(data=b"other")) as url:
        result = CliRunner().invoke(cli, ["download", "small", str(tmp_path), "--url", url])
    assert result.exit_code == 1
    assert "third party" in result.output
