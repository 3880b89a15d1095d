"""Pickles that come from strangers: arrays of numbers in plain containers, and nothing runs.

A pickle is a program for a small machine, and Python's own machine imports and calls whatever the
program names. This one only reads it: `pickletools` splits it into opcodes, each opcode that plain
containers and numpy's arrays need is done here, by hand, and any other is refused. Names such as
`numpy.dtype` stand for themselves; nothing is ever looked up, imported or called.
"""

import math
import pickletools
import re
import struct
from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any

import numpy as np

from ..errors import DataError, printable

MOST_OPCODES = 5_000_000
MOST_OBJECTS = 5_000_000  # in what is returned, each counted as often as it is found
MOST_DEPTH = 8  # of containers in each other
_MOST_AXES = 8
_NUMBERS = re.compile(r"[|<>=]?(\?|b1|[iu][1248]|f[248])")
_OBJECTS = re.compile(r"[|<>=]?O[48]?")
_ORDERS = ("=", "<", ">")
_MARK = object()
_BROKEN = (ValueError, IndexError, TypeError, KeyError, OverflowError, struct.error)


class _Name(str):
    """What a pickle names to be called: told from text, which is data."""

    __slots__ = ()


class _DType:
    """A type under construction: its name, and its byte order once that is said."""

    def __init__(self, name: str) -> None:
        self.name, self.order = name, "="

    def resolve(self) -> np.dtype:
        if not _NUMBERS.fullmatch(self.name):
            raise _Refused(f"holds an array of type {self.name!r:.40}")
        if self.order not in _ORDERS:
            raise ValueError("an array has an unknown byte order")
        return np.dtype(f"{self.order}{self.name.lstrip('|<>=')}")


class _Array:
    """An array under construction; `value` is an array of numbers, or objects and their shape."""

    def __init__(self) -> None:
        self.value: np.ndarray | tuple[list, tuple[int, ...]] | None = None


class _Refused(Exception):
    """Why a pickle is not read, as the end of a sentence."""


# What numpy 1 and numpy 2 call the same functions.
_ARRAY = {_Name(f"numpy.{core}.multiarray._reconstruct") for core in ("core", "_core")}
_SCALAR = {_Name(f"numpy.{core}.multiarray.scalar") for core in ("core", "_core")}
_BUFFER = {_Name(f"numpy.{core}.numeric._frombuffer") for core in ("core", "_core")}
_CLASSES = {_Name("numpy.ndarray"), _Name("numpy.dtype")}
_BYTES = {_Name("_codecs.encode"), _Name("__builtin__.bytes"), _Name("builtins.bytes")}
_KNOWN = _ARRAY | _SCALAR | _BUFFER | _CLASSES | _BYTES


def parse_pickle(content: bytes, name: str) -> Any:
    """Read lists, tuples, dicts, text, numbers and arrays from the bytes of a pickle.

    Tuples come as lists, arrays of objects as lists of what they hold.

    Raises:
        DataError: It is damaged, holds anything else, or would call anything.
    """
    try:
        return _Plain().copy(_Machine().run(content))
    except _Refused as error:
        raise DataError(
            f"{name} is refused: it {error}, and only plain containers of numpy arrays are read; "
            "nothing in it was run."
        ) from None
    except _BROKEN as error:
        detail = printable(" ".join(str(error).split()))[:120]
        raise DataError(f"{name} is damaged, or no pickle of arrays ({detail}).") from None


class _Machine:
    """The stack and the memo of a pickle's machine."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self, content: bytes) -> Any:
        for number, (opcode, argument, _) in enumerate(pickletools.genops(BytesIO(content))):
            if number >= MOST_OPCODES:
                raise _Refused(f"has more than {MOST_OPCODES:,} opcodes")
            if opcode.name == "STOP":
                return self.stack.pop()
            if opcode.name in _PUSHED:
                self.stack.append(argument)
            elif make := _MADE.get(opcode.name):
                self.stack.append(make())
            elif step := _STEPS.get(opcode.name):
                step(self, argument)
            else:
                raise _Refused(f"uses the opcode {opcode.name}")
        raise ValueError("it has no end")

    def marked(self) -> list[Any]:
        """Take what stands above the last mark."""
        for place in reversed(range(len(self.stack))):
            if self.stack[place] is _MARK:
                taken = self.take(len(self.stack) - place)
                return taken[1:]
        raise ValueError("it has no mark")

    def take(self, count: int) -> list[Any]:
        """Take the last few."""
        if not 0 <= count <= len(self.stack):
            raise ValueError("its stack is empty")
        taken = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        return taken

    def name(self, module: str, attribute: str) -> None:
        name = _Name(f"{module}.{attribute}")
        if name not in _KNOWN:
            raise _Refused(f"names {printable(name)[:80]}")
        self.stack.append(name)

    def reduce(self) -> None:
        called, arguments = self.take(2)
        if not isinstance(called, _Name) or not isinstance(arguments, tuple):
            raise _Refused("calls what is no function")
        self.stack.append(_called(called, arguments))

    def build(self) -> None:
        (state,) = self.take(1)
        built = self.stack[-1]
        if isinstance(built, _DType):
            built.order = _text(state[1]).replace("|", "=")
        elif isinstance(built, _Array):
            _, shape, dtype, fortran, data = state
            built.value = _array(data, dtype, shape, "F" if fortran else "C")
        else:
            raise _Refused(f"sets the state of a {type(built).__name__.lstrip('_')}")


def _called(name: _Name, arguments: tuple) -> Any:
    """Do what numpy, or the codec by which old protocols write bytes, would do."""
    if name in _ARRAY:
        return _Array()  # its state follows
    if name in _BUFFER:
        data, dtype, shape, order = arguments
        array = _Array()
        array.value = _array(data, dtype, shape, _text(order))
        return array
    if name in _SCALAR:
        dtype, data = arguments
        return _numbers(data, dtype, (), "C").item()
    if name == _Name("numpy.dtype"):
        return _DType(_text(arguments[0]))
    if name in _BYTES and len(arguments) in (0, 2):
        return _text(arguments[0]).encode("latin1") if arguments else b""
    raise _Refused(f"calls {name}")


def _array(data: Any, dtype: Any, shape: Any, order: str) -> Any:
    if isinstance(dtype, _DType) and _OBJECTS.fullmatch(dtype.name) and isinstance(data, list):
        return data, _shape(shape)
    return _numbers(data, dtype, shape, order)


def _numbers(data: Any, dtype: Any, shape: Any, order: str) -> np.ndarray:
    """View bytes as numbers; as many bytes as the shape asks for, so no memory is asked for."""
    if not isinstance(dtype, _DType) or not isinstance(data, bytes | bytearray | str):
        raise _Refused("holds an array that is not of numbers")
    found, lengths = dtype.resolve(), _shape(shape)
    content = _text(data).encode("latin1") if isinstance(data, str) else bytes(data)
    if len(content) != math.prod(lengths) * found.itemsize:
        raise ValueError("an array has other bytes than its shape asks for")
    numbers = np.frombuffer(content, found)
    return numbers.reshape(lengths, order="F") if order == "F" else numbers.reshape(lengths)


def _shape(shape: Any) -> tuple[int, ...]:
    known = isinstance(shape, tuple) and len(shape) <= _MOST_AXES
    if not known or not all(type(length) is int and 0 <= length < 1 << 40 for length in shape):
        raise ValueError("an array has no shape")
    return shape


def _text(value: Any) -> str:
    if not isinstance(value, str) or isinstance(value, _Name):
        raise ValueError("text was expected")
    return value


class _Plain:
    """Copies what was read, arrays finished; counts, so that sharing cannot make it endless."""

    def __init__(self) -> None:
        self.count = 0

    def copy(self, value: Any, depth: int = 0) -> Any:
        self.count += 1
        if self.count > MOST_OBJECTS or depth > MOST_DEPTH:
            raise _Refused(f"nests or repeats more than {MOST_OBJECTS:,} objects {MOST_DEPTH} deep")
        if isinstance(value, _Array):
            if isinstance(value.value, np.ndarray):
                return value.value
            objects, shape = value.value or ([], ())
            if len(shape) != 1 or shape != (len(objects),):
                raise _Refused("holds an array of objects that is no list")
            return self._all(objects, depth)
        if isinstance(value, list | tuple):
            return self._all(value, depth)
        if isinstance(value, dict):
            if not all(type(key) is str for key in value):
                raise _Refused("holds a dict with keys that are no text")
            return {key: self.copy(item, depth + 1) for key, item in value.items()}
        if value is None or type(value) in (str, int, float, bool):
            return value
        raise _Refused(f"holds a {type(value).__name__.lstrip('_')}")

    def _all(self, values: Sequence[Any], depth: int) -> list[Any]:
        return [self.copy(item, depth + 1) for item in values]


def _append(machine: _Machine, items: list[Any]) -> None:
    target = machine.stack[-1]
    if type(target) is not list:
        raise _Refused("appends to what is no list")
    target.extend(items)


def _set(machine: _Machine, items: list[Any]) -> None:
    target = machine.stack[-1]
    if type(target) is not dict:
        raise _Refused("sets items of what is no dict")
    target.update(_dict(items))


def _dict(items: list[Any]) -> dict[Any, Any]:
    return dict(zip(items[::2], items[1::2], strict=True))


_INTS = ("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT")
_STRINGS = ("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE")
_RAW = ("BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8")
_PUSHED = frozenset((*_INTS, *_STRINGS, *_RAW))

Step = Callable[[_Machine, Any], object]
_MADE: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_TUPLE": tuple,
    "MARK": lambda: _MARK,
}
_STEPS: dict[str, Step] = {
    "PROTO": lambda machine, _: None,
    "FRAME": lambda machine, _: None,
    "POP": lambda machine, _: machine.take(1),
    "POP_MARK": lambda machine, _: machine.marked(),
    "LIST": lambda machine, _: machine.stack.append(machine.marked()),
    "DICT": lambda machine, _: machine.stack.append(_dict(machine.marked())),
    "TUPLE": lambda machine, _: machine.stack.append(tuple(machine.marked())),
    "TUPLE1": lambda machine, _: machine.stack.append(tuple(machine.take(1))),
    "TUPLE2": lambda machine, _: machine.stack.append(tuple(machine.take(2))),
    "TUPLE3": lambda machine, _: machine.stack.append(tuple(machine.take(3))),
    "APPEND": lambda machine, _: _append(machine, machine.take(1)),
    "APPENDS": lambda machine, _: _append(machine, machine.marked()),
    "SETITEM": lambda machine, _: _set(machine, machine.take(2)),
    "SETITEMS": lambda machine, _: _set(machine, machine.marked()),
    "PUT": lambda machine, place: machine.memo.__setitem__(place, machine.stack[-1]),
    "MEMOIZE": lambda machine, _: machine.memo.__setitem__(len(machine.memo), machine.stack[-1]),
    "GET": lambda machine, place: machine.stack.append(machine.memo[place]),
    "GLOBAL": lambda machine, words: machine.name(*words.split(" ", 1)),
    "STACK_GLOBAL": lambda machine, _: machine.name(*map(_text, machine.take(2))),
    "REDUCE": lambda machine, _: machine.reduce(),
    "BUILD": lambda machine, _: machine.build(),
}
_STEPS |= {f"{size}{kind}": _STEPS[kind] for kind in ("PUT", "GET") for size in ("BIN", "LONG_BIN")}
