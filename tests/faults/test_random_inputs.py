"""Random inputs to every reader of outside content: a value of the right form, or one sentence."""

import io
import json
import math

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ident3d.benchmark.results import Result

from ident3d.conditionals import parse as parse_conditional
from ident3d.errors import DataError, printable
from ident3d.outside import parse_json, parse_npy
from ident3d.published.archive import walk
from ident3d.published.png import decode_png
from ident3d.published.readers import read_csv_latents
from ident3d.published.transfer import check_url
from ident3d.spaces import parse_space
from tests.faults import hostile
from tests.faults.ledger import injected
from tests.support.published_sets import multimodal_table, npy, table_csv
from tests.support.samples import record

REFUSED, RIGHT = "refused in one sentence", "of the right form"
fixed = settings(
    max_examples=100,
    deadline=None,
    derandomize=True,  # the same inputs each time: `make soak` draws others
    database=None,
    suppress_health_check=list(HealthCheck),
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)
EDITS = st.lists(
    st.tuples(st.integers(0, 10**6), st.binary(max_size=6), st.integers(0, 8)), max_size=3
)


def edited(content: bytes, edits) -> bytes:
    """Insert bytes in place of others, some times over."""
    for position, new, gone in edits:
        at = position % (len(content) + 1)
        content = content[:at] + new + content[at + gone :]
    return content


def tried(kind, read, check=lambda found: True):
    """Read: what comes is right, or the refusal one sentence."""
    try:
        found = read()
    except (DataError, ValueError) as error:
        assert str(error).strip() and "\n" not in str(error).strip()
        injected(kind, REFUSED)
    else:
        assert check(found)
        injected(kind, RIGHT)


def finite(value) -> bool:
    if isinstance(value, dict):
        return all(map(finite, value.values()))
    if isinstance(value, list):
        return all(map(finite, value))
    return not isinstance(value, float) or math.isfinite(value)


@fixed
@given(VALUES | st.text(), st.booleans())
def test_json(value, as_text):
    text = value if isinstance(value, str) and as_text else json.dumps(value)
    tried("hostile JSON", lambda: parse_json(text), finite)


@fixed
@given(EDITS)
def test_json_bytes(edits):
    content = edited(b'{"a": [1, 2.5, -3e4, "x\\n"], "b": {"c": null, "d": true}}', edits)
    tried("hostile JSON", lambda: parse_json(content), finite)


FIELDS = sorted(json.loads(record().to_json()))


@fixed
@given(st.sampled_from(FIELDS), VALUES)
def test_records(name, value):
    found = json.loads(record().to_json()) | {name: value}
    tried("a record with absurd numbers", lambda: Result.from_json(found).to_json())


@fixed
@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_headers_of_arrays(header):
    content = hostile.npy_with(header)
    tried(
        "a hostile .npy file", lambda: parse_npy(content, "x.npy"), lambda a: a.dtype.kind in "fiu"
    )


@fixed
@given(EDITS)
def test_arrays(edits):
    content = edited(npy(np.zeros((4, 3), np.float32)), edits)
    tried(
        "a hostile .npy file", lambda: parse_npy(content, "x.npy"), lambda a: a.dtype.kind in "fiu"
    )


@fixed
@given(EDITS.filter(bool))
def test_images(edits):
    content = edited(hostile.PLAIN, edits)

    def same(pixels):
        return pixels.shape == (8, 8, 3) and (not pixels.any() or content[:8] == hostile.PLAIN[:8])

    tried("a hostile PNG", lambda: decode_png(content, "0.png", (8, 8, 3)), same)


@fixed
@given(EDITS)
def test_tables(edits):
    content = edited(table_csv(multimodal_table(5)), edits)
    tried(
        "a hostile CSV",
        lambda: read_csv_latents("m3di/", {"latents_image.csv": content}).latents,
        lambda latents: (np.abs(latents) <= 1).all(),
    )


@fixed
@given(edits=EDITS)
def test_archives(world, tmp_path_factory, edits):
    path = tmp_path_factory.getbasetemp() / "random.tar"
    path.write_bytes(edited(world.tar.read_bytes(), edits))
    names = lambda: [member.name for member in walk(path) if member.read() is not None]  # noqa: E731
    tried("a hostile tar", names, lambda found: not any(".." in name for name in found))


@fixed
@given(st.text(max_size=30) | st.from_regex(r"https?://[a-z.:0-9\[\]]{0,20}/?", fullmatch=True))
def test_addresses(url):
    tried("a malformed address", lambda: check_url(url), lambda _: url.startswith("http"))


GRAMMAR = st.text("abnormlpfixedvgt:=,.0123456789-+einyz ", max_size=30)


@fixed
@given(GRAMMAR)
def test_conditionals_and_spaces(text):
    tried("a wrong command line", lambda: parse_conditional(text), lambda found: str(found))
    tried("a wrong command line", lambda: parse_space(text), lambda found: str(found))


@fixed
@given(st.text())
def test_text_for_a_terminal(text):
    shown = printable(text)
    assert shown.isprintable()
    assert shown.encode() and shown == printable(shown) if shown else not text
    injected("escape sequences in a stranger's text", "shown as text")


@fixed
@given(st.binary(max_size=300))
def test_archives_of_anything(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "anything.tar"
    path.write_bytes(content)
    tried("a hostile tar", lambda: list(walk(path)), lambda found: True)
    assert io.BytesIO(content).read() == path.read_bytes()
