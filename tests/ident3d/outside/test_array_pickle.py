"""Pickles of arrays: what is read, and that nothing in them ever runs."""

import builtins
import datetime
import os
import pickle
import struct
import sys
from collections import OrderedDict

import numpy as np
import pytest

from ident3d.errors import DataError
from ident3d.outside import array_pickle, parse_pickle

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)
MASK = np.random.default_rng(0).random((3, 4, 5)) > 0.5


class Calls:
    """Pickles as a call of a function."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def refuses(content, match=r"refused: it .*nothing in it was run|is damaged"):
    with pytest.raises(DataError, match=match) as caught:
        parse_pickle(content, "file.pickle")
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "array",
    [
        MASK,
        np.asfortranarray(MASK),
        MASK[:, ::2].T,
        np.zeros((0, 3), np.float32),
        np.array(2.5),
        np.arange(6, dtype=">i4").reshape(2, 3),
        np.linspace(0, 1, 7, dtype="<f8"),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_arrays_come_back_as_numpy_would_read_them(array, protocol):
    content = pickle.dumps({"a": [array, array]}, protocol)
    found = parse_pickle(content, "file")["a"]
    for one in found:
        np.testing.assert_array_equal(one, array)
        assert one.dtype == array.dtype and one.shape == array.shape


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_plain_values_scalars_and_lists_of_arrays(protocol):
    objects = np.empty(2, object)
    objects[:] = [MASK, MASK[:1]]
    plain = {"x": [1, -(2**70), 2.5, True, None, "ü", (3, ())], "s": np.float32(1.5), "o": objects}
    found = parse_pickle(pickle.dumps(plain, protocol), "file")
    assert found["x"] == [1, -(2**70), 2.5, True, None, "ü", [3, []]]
    assert found["s"] == 1.5 and type(found["s"]) is float
    np.testing.assert_array_equal(found["o"][1], MASK[:1])


def test_names_of_numpy_1_and_2_are_the_same():
    content = pickle.dumps(MASK, 2)
    for old, new in ((b"numpy.core.", b"numpy._core."), (b"numpy._core.", b"numpy.core.")):
        renamed = content.replace(old, new)
        np.testing.assert_array_equal(parse_pickle(renamed, "file"), MASK)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "function",
    [
        *(os.system, builtins.eval, builtins.exec, builtins.__import__, builtins.getattr),
        *(builtins.open, sys.exit, print, pickle.loads),
        *(np.load, np.fromfile, np.memmap, np.array, np.frombuffer),
    ],
    ids=lambda f: f.__name__,
)
def test_no_function_is_called(function, protocol, tmp_path, capfd):
    witness = tmp_path / "ran"
    text = f"touch {witness}" if function is os.system else f"open({str(witness)!r}, 'w')"
    for value in (Calls(function, text), {"pedestrians": [MASK, Calls(function, text)]}):
        refuses(pickle.dumps(value, protocol), "it names .*nothing in it was run")
    assert not witness.exists() and capfd.readouterr().out == ""


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "value",
    [
        {1, 2},
        frozenset([1]),
        OrderedDict(a=1),
        datetime.date(2020, 1, 1),
        b"bytes",
        bytearray(b"x"),
        1j,
        np.dtype("f4"),
        np.ndarray,
        {1: "a key that is no text"},
        np.array(["text"]),
        np.array([(1, 2.0)], [("a", "i4"), ("b", "f4")]),
        np.array([1j]),
        np.array(["2020-01-01"], "datetime64[D]"),
        np.array([[MASK, None], [None, MASK]], object),
        np.array([np.dtype("f4")], object),
        np.ma.masked_array([1, 2], [0, 1]),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_anything_else_is_refused(value, protocol):
    refuses(pickle.dumps([value], protocol))


def programme(*parts):
    return b"\x80\x02" + b"".join(parts) + b"."


RECONSTRUCT = b"cnumpy.core.multiarray\n_reconstruct\n"
NDARRAY = b"cnumpy\nndarray\n"
DTYPE = b"cnumpy\ndtype\n"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no pickle at all",
        pickle.dumps(MASK)[:-20],
        b".",
        programme(b"0"),
        programme(b"1"),
        programme(b"e"),
        programme(b"R"),
        programme(b"b"),
        programme(b"h\x05"),
        programme(b"]2"),  # DUP
        programme(b"Pid\n"),  # persistent ids
        programme(b"\x82\x01"),  # extension registry
        programme(b"(ios\nsystem\n"),  # INST
        programme(b"(cos\nsystem\no"),  # OBJ
        programme(NDARRAY, b")\x81"),  # NEWOBJ
        programme(DTYPE, b"X\x02\x00\x00\x00O8", b"\x85R", b"}b"),
        programme(NDARRAY, b"}b"),  # sets the state of a class
        programme(RECONSTRUCT, NDARRAY, b"\x85R", b"I1\nb"),
        programme(b"]", NDARRAY, b"a"),  # a class in a list
        programme(RECONSTRUCT, b"]R"),
        programme(b"X\x09\x00\x00\x00os.system", b"X\x01\x00\x00\x00x", b"\x85R"),
        b"\x80\x05]\x97.",  # a buffer that stands elsewhere
    ],
)
def test_odd_programmes_are_refused(content):
    refuses(content)


def one_number(shape):
    """An array of eight bytes that says it has some shape."""
    array = RECONSTRUCT + NDARRAY + b"K\x00\x85U\x01b\x87R"
    state = b"(K\x01" + pickle.dumps(shape, 2)[2:-1] + DTYPE + b"U\x02f8\x85R\x89U\x0812345678t"
    return programme(array, state, b"b")


def test_bytes_that_a_shape_does_not_have_are_not_asked_for():
    for shape in ((2**39,), (10**9, 10**9), (-1,), (1,) * 20, ("3",)):
        refuses(one_number(shape), "is damaged")
    assert parse_pickle(one_number((1, 1)), "file").tolist() == [
        [struct.unpack("<d", b"12345678")[0]]
    ]
    refuses(programme(b"\x8e" + struct.pack("<Q", 2**60)), "damaged")  # BINBYTES8, cut off
    refuses(programme(b"\x8d" + struct.pack("<Q", 2**63)), "damaged")


def test_a_place_in_the_memo_takes_no_memory():
    content = programme(b"]r" + struct.pack("<I", 2**32 - 1))
    assert parse_pickle(content, "file") == []


def test_what_shares_itself_ends(monkeypatch):
    laughs = []
    for _ in range(7):
        laughs = [laughs] * 30
    refuses(pickle.dumps(laughs), "nests or repeats")
    endless = []
    endless.append(endless)
    refuses(pickle.dumps(endless), "nests or repeats")
    refuses(b"]" * 100_000 + b"a" * 99_999 + b".", "nests or repeats")
    monkeypatch.setattr(array_pickle, "MOST_OPCODES", 1000)
    refuses(b"]" * 2_000 + b".", "more than 1,000 opcodes")
