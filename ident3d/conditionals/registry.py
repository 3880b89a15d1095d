"""All conditionals by their text form, which `str` writes and `parse` reads.

    normal:0.1   laplace:0.05   gennorm:3:0.05   vmf:10   anisotropic:5,5,25   fixed   time:5
    x=normal:0.1,hue=fixed   x=normal:0.1,others=laplace:0.05

A new conditional is one file, and a line in `FORMS`.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..errors import choose
from ..factors import FACTORS, Factor
from .anisotropic import Anisotropic
from .by_time import ByTime
from .conditional import Conditional
from .coordinatewise import GenNorm, Laplace, Normal
from .fixed import Fixed
from .product import OTHERS, UNNAMED, Product
from .von_mises_fisher import VMF


class Form(NamedTuple):
    """How a conditional is written."""

    build: Callable[..., Conditional]  # from the numbers of the text
    text: str
    numbers: int | None  # how many; None for one or more


FORMS = {
    "normal": Form(Normal, "normal:SCALE", 1),
    "laplace": Form(Laplace, "laplace:SCALE", 1),
    "gennorm": Form(GenNorm, "gennorm:EXPONENT:SCALE", 2),
    "vmf": Form(VMF, "vmf:CONCENTRATION", 1),
    "fixed": Form(Fixed, "fixed", 0),
    "time": Form(ByTime, "time:FRAMES", 1),
    "anisotropic": Form(lambda *L: Anisotropic(L), "anisotropic:L1,L2,...", None),
    "anisotropic-shell": Form(
        lambda *L: Anisotropic(L, "shell"), "anisotropic-shell:L1,L2,...", None
    ),
}


def parse(text: str, factors: Sequence[Factor] = FACTORS) -> Conditional:
    """Read a conditional's text form; `str(conditional)` writes it back."""
    if "=" not in text:
        return _parse_one(text.strip())
    parts: dict[str, Conditional] = {}
    # A comma parts two factors only where a `name=` follows: anisotropic:5,5,25 has its own.
    for piece in re.split(r",(?=[^,=]*=)", text):
        name, _, value = (word.strip() for word in piece.partition("="))
        if name in parts:
            raise ValueError(f"`conditional` names {name!r} twice in {text!r}.")
        if name in FORMS:
            raise ValueError(
                f"`conditional` has {name}={value} where a factor's name should stand; "
                f"write {FORMS[name].text}, or FACTOR={FORMS[name].text} for one factor."
            )
        parts[name] = _parse_one(value)
    return Product(parts, parts.pop(OTHERS, UNNAMED), factors)


def _parse_one(text: str) -> Conditional:
    name, _, rest = text.partition(":")
    form = choose(FORMS, name.strip(), "conditional")
    words = rest.replace(",", ":").split(":") if rest else []
    try:
        numbers = [float(word) for word in words]
        right = len(numbers) == form.numbers if form.numbers is not None else bool(numbers)
    except ValueError:
        right = False
    if not right:
        raise ValueError(f"`conditional` {name} is written `{form.text}`, got {text!r}.")
    return form.build(*numbers)
