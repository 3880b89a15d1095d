"""Hostile content: texts, headers and images that no honest program writes, and random damage."""

import io
import json
import pickle
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

from tests.support.published_sets import npy, png

DEEP = 100_000

JSON = {
    "nested lists": b"[" * DEEP,
    "nested and closed": b"[" * DEEP + b"]" * DEEP,
    "nested tables": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "nested inside": b'{"format": "ident3d", "version": 1, "splits": ' + b"[" * DEEP + b"}",
    "1e999": b'{"format": "ident3d", "version": 1e999, "splits": {}}',
    "10^30": b'{"format": "ident3d", "version": 1' + b"0" * 30 + b"}",
    "an endless integer": b'{"version": ' + b"9" * 1_000_000 + b"}",
    "an endless fraction": b'{"version": 0.' + b"9" * 100_000 + b"}",
    "NaN": b'{"kind": "ident3d-result", "version": NaN}',
    "infinity": b"[Infinity, -Infinity]",
    "a key twice": b'{"version": 1, "version": 2}',
    "a key very often": b"{" + b",".join(b'"a":1' for _ in range(100_000)) + b"}",
    "many keys": b"{" + b",".join(b'"%d":1' % n for n in range(100_000)) + b"}",
    "not UTF-8": b'{"a": "\xff\xfe"}',
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "half a character": b'{"a": "\\ud800"}',
    "control characters": b'{"a": "\x00\x1b"}',
    "nothing": b"",
    "blanks": b" " * 10_000,
    "zeros": bytes(5_000),
    "null": b"null",
    "true": b"true",
    "a number": b"7",
    "a text": b'"ident3d"',
    "an empty list": b"[]",
    "an empty table": b"{}",
    "cut": b'{"format": "ident3d", "version": 1, "spl',
    "more after the end": b'{"a": 1} {"b": 2}',
    "a comment": b'{"a": 1} // yes',
    "single quotes": b"{'a': 1}",
    "a comma too many": b'{"a": 1,}',
    "HTML": b"<html><body>404</body></html>",
    "a byte order mark": b"\xef\xbb\xbf{}",
}


def npy_with(header: bytes, body: bytes = bytes(480), version: bytes = b"\1\0") -> bytes:
    """A .npy file with any header."""
    size = struct.pack("<H" if version == b"\1\0" else "<I", len(header))
    return b"\x93NUMPY" + version + size + header + body


def npy_of(shape: str, dtype: str = "<f4", order: str = "False") -> bytes:
    return npy_with(
        f"{{'descr': '{dtype}', 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()
    )


OBJECTS = io.BytesIO()
np.save(OBJECTS, np.array([[{"a": 1}] * 10] * 12, dtype=object), allow_pickle=True)

NPY = {
    "an unclosed bracket": npy_with(b"{'descr': '<f4', 'fortran_order': False, 'shape': (12, 10"),
    "unclosed brackets": npy_with(b"{" * 500),
    "an unclosed text": npy_with(b"{'descr': '<f4"),
    "nested brackets": npy_with(b"(" * 9_000 + b")" * 900),
    "a header longer than the file": npy_with(b"{'descr'")[:-480].replace(b"\x08\0", b"\xff\xff"),
    "a header of gigabytes": b"\x93NUMPY\2\0\xff\xff\xff\xff" + bytes(100),
    "an expression": npy_with(b"__import__('os').system('touch pwned')"),
    "10^18 rows": npy_of("(1000000000000000000, 10)"),
    "10^9 rows": npy_of("(1000000000, 10)"),
    "rows below 0": npy_of("(-12, 10)"),
    "a fraction of a row": npy_of("(12.5, 10)"),
    "a text for rows": npy_of("('12', 10)"),
    "many dimensions": npy_of("(" + "1, " * 200 + ")"),
    "no dimension": npy_of("()"),
    "one dimension": npy_of("(120,)"),
    "three dimensions": npy_of("(12, 10, 1)"),
    "no rows": npy_of("(0, 10)"),
    "objects": OBJECTS.getvalue(),
    "a named object type": npy_of("(12, 10)", "|O"),
    "text": npy(np.full((12, 10), "0.5")),
    "bytes": npy(np.full((12, 10), b"0.5")),
    "complex numbers": npy(np.zeros((12, 10), complex)),
    "dates": npy(np.zeros((12, 10), "M8[s]")),
    "true and false": npy(np.zeros((12, 10), bool)),
    "columns with names": npy(np.zeros(12, [("a", "<f4")])),
    "a type that is none": npy_of("(12, 10)", "<q9"),
    "NaN": npy(np.full((12, 10), np.nan, np.float32)),
    "infinity": npy(np.full((12, 10), np.inf, np.float32)),
    "huge values": npy(np.full((12, 10), 1e200)),
    "cut by a byte": npy(np.zeros((12, 10), np.float32))[:-1],
    "cut in its header": npy(np.zeros((12, 10), np.float32))[:40],
    "cut in its name": b"\x93NUM",
    "a version of tomorrow": npy_with(b"{}", version=b"\x09\0"),
    "an archive of arrays": b"PK\x03\x04" + bytes(600),
    "nothing": b"",
    "text instead": b"1 2 3\n",
}


class Bomb:
    """Pickled, it makes a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


def bomb(path: Path) -> bytes:
    return pickle.dumps(Bomb(path))


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def deep_png() -> bytes:
    """16 bits a channel, which Pillow would halve in silence."""
    header = struct.pack(">IIBBBBB", 8, 8, 16, 2, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\0" + bytes(8 * 3 * 2) for _ in range(8)))
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def other_mode(mode: str) -> bytes:
    stream = io.BytesIO()
    Image.new(mode, (8, 8)).save(stream, "PNG")
    return stream.getvalue()


PLAIN = png(np.zeros((8, 8, 3), np.uint8))
IHDR_END = 33
PNG = {
    "16 bits": deep_png(),
    "damage in IEND's checksum": PLAIN[:-1] + bytes([PLAIN[-1] ^ 1]),
    "damage in IEND's name": PLAIN[:-6] + b"X" + PLAIN[-5:],
    "no IEND": PLAIN[:-12],
    "nothing but a header": PLAIN[:IHDR_END],
    "a chunk of gigabytes": PLAIN[:IHDR_END] + b"\xff\xff\xff\xffIDAT" + PLAIN[IHDR_END + 8 :],
    "a short IHDR": PLAIN[:8] + chunk(b"IHDR", PLAIN[16:24]) + PLAIN[IHDR_END:],
    "IDAT that does not unpack": PLAIN[:IHDR_END] + chunk(b"IDAT", b"xxxx") + PLAIN[-12:],
    "a short gAMA": PLAIN[:IHDR_END] + chunk(b"gAMA", b"x") + PLAIN[IHDR_END:],
    "a text that unpacks to gigabytes": PLAIN[:IHDR_END]
    + chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(1 << 24)))
    + PLAIN[IHDR_END:],
    "grey": other_mode("L"),
    "a palette": other_mode("P"),
    "one bit": other_mode("1"),
    "16 bits of grey": other_mode("I;16"),
    "transparency": other_mode("RGBA"),
    "GIF": b"GIF89a" + bytes(100),
    "nothing": b"",
    "60,000 pixels": PLAIN[:16] + struct.pack(">II", 60_000, 60_000) + PLAIN[24:],
    "no pixels": PLAIN[:16] + struct.pack(">II", 0, 8) + PLAIN[24:],
}

ESCAPES = (
    "\x1b[31mred",
    "\x1b]0;title\x07",
    "\x1b[2J\x1b[H",
    "a\rb",
    "\x9b1m",
    "\u202eevil",
    "\x00",
)


def flip(content: bytes, rng: np.random.Generator) -> bytes:
    """Change one bit, anywhere."""
    changed = bytearray(content)
    changed[int(rng.integers(len(changed)))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def cut(content: bytes, rng: np.random.Generator) -> bytes:
    """Keep a beginning, at least a byte less than all."""
    return content[: int(rng.integers(len(content)))]


def damage(content: bytes, rng: np.random.Generator) -> bytes:
    """Flip a bit, cut, overwrite or insert a few random bytes."""
    kind = rng.integers(4)
    if kind < 2:
        return (flip, cut)[kind](content, rng)
    at, noise = int(rng.integers(len(content))), rng.bytes(int(rng.integers(1, 9)))
    return content[:at] + noise + content[at + len(noise) * int(kind == 2) :]


def nearly_json(content: bytes, rng: np.random.Generator) -> bytes:
    """Valid JSON with one value, anywhere in it, replaced by a hostile one."""
    record = json.loads(content)
    places = list(_places(record))
    holder, key = places[int(rng.integers(len(places)))]
    holder[key] = VALUES[int(rng.integers(len(VALUES)))]
    return json.dumps(record).encode()


VALUES = (
    *(None, True, -1, 0, 0.5, 2**40, 10**18, -(2**63), 1e300, -1e-300, "", "x", "../../etc/passwd"),
    *("/etc/passwd", "a" * 5000, "\x1b[31m", "\u202e", [], {}, [[]], {"a": {}}, [1, 2, 3]),
)


def _places(record):
    keys = record if isinstance(record, dict) else range(len(record))
    for key in keys:
        yield record, key
        if isinstance(record[key], dict | list):
            yield from _places(record[key])
