"""JSON that comes from strangers: strict, limited, and read in linear time.

Python's own reader recurses into nested brackets, takes NaN, infinity and numbers of any size, and
the last of two equal keys.
"""

import json
import math
import re
from collections import Counter
from itertools import accumulate
from pathlib import Path
from typing import Any

from ..errors import DataError
from ..files import read_plain

MAX_BYTES = 64 << 20  # of one file; a manifest of a hundred thousand shards is smaller
MAX_NESTED = 32  # brackets inside brackets


def read_json(path: Path, limit: int = MAX_BYTES, follow: bool = True) -> Any:
    """Read a JSON file of at most `limit` bytes; raises `DataError` for whatever is no JSON."""
    try:
        return parse_json(read_plain(path, limit, follow))
    except FileNotFoundError:
        raise DataError(f"{path} does not exist; name a JSON file that does.") from None
    except ValueError as error:
        raise DataError(f"{path} is no valid JSON: {error}.") from None


def parse_json(source: str | bytes) -> Any:
    """Parse JSON text: no NaN or infinity, no integer beyond 64 bits, no key twice.

    Raises `ValueError`.
    """
    text = source if isinstance(source, str) else source.decode("utf-8")
    if _nesting(text) > MAX_NESTED:  # before the parser, which recurses
        raise ValueError("nested too deeply")
    return json.loads(
        text,
        parse_constant=_no_constant,
        parse_float=_real,
        parse_int=_integer,
        object_pairs_hook=_unique,
    )


def _nesting(source: str) -> int:
    """Count how deep brackets stand in brackets, in linear time.

    Right as far as the text is JSON, and no parser reads further.
    """
    # Without escapes, every second piece between quotation marks lies outside the strings.
    outside = "".join(source.replace("\\\\", "").replace('\\"', "").split('"')[::2])
    brackets = re.sub(r"[^][{}]+", "", outside)
    return max(accumulate(1 if b in "[{" else -1 for b in brackets), default=0)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _real(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"the number {digits[:20]} is too large")
    return value


def _integer(digits: str) -> int:
    # Reading a long one takes quadratic time, so its length comes first.
    if len(digits) > 20 or not -(2**63) <= int(digits) < 2**64:
        raise ValueError(f"the integer {digits[:20]} does not fit in 64 bits")
    return int(digits)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        twice = next(key for key, count in counts.items() if count > 1)
        raise ValueError(f"the key {twice[:120]!r} stands twice")
    return found
