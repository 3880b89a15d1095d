"""Conditionals p(z+ | z): where a positive lies, given its anchor.

`sample` draws one positive for each anchor, exactly, float64. `log_density` is known up to a term
that depends on the anchor alone; it is -inf outside the space. Text forms, both ways:

    normal:0.1   laplace:0.05   gennorm:3:0.05   vmf:10   anisotropic:5,5,25   fixed
    x=normal:0.1,hue=fixed   x=normal:0.1,others=laplace:0.05
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..errors import choose
from ..factors import FACTORS, Factor, columns
from ..spaces import UNIT_BOX, Space, Sphere, Unbounded, as_pairs, as_points, log_inside, number
from ._directional import fisher_bingham, shell, von_mises_fisher
from ._truncated import truncated_normal
from .coordinatewise import GenNorm, Laplace, Normal, check_positive

OTHERS = "others"  # the name, in a product's text form, for every factor not named


class Conditional(Protocol):
    """What every conditional here offers."""

    def sample(
        self, anchors: np.ndarray, rng: np.random.Generator, space: Space = UNIT_BOX
    ) -> np.ndarray:
        """Draw one positive for each anchor, shape (n, d), float64."""

    def log_density(
        self, positives: np.ndarray, anchors: np.ndarray, space: Space = UNIT_BOX
    ) -> np.ndarray:
        """Log-density of each positive given its anchor, shape (n,), up to a term in the anchor."""

    def check(self, dim: int) -> None:
        """Raise ValueError unless the conditional fits latents of `dim` dimensions."""


@dataclass(frozen=True)
class VMF:
    """Von Mises-Fisher on the sphere, density proportional to exp(concentration z'z+)."""

    concentration: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.concentration) and self.concentration >= 0):
            raise ValueError(f"`concentration` must be at least 0, got {self.concentration}.")

    def __str__(self) -> str:
        return f"vmf:{number(self.concentration)}"

    def sample(
        self, anchors: np.ndarray, rng: np.random.Generator, space: Space = UNIT_BOX
    ) -> np.ndarray:
        """Draw one positive for each anchor; the space must be the sphere."""
        self._only_sphere(space)
        return von_mises_fisher(as_points(anchors, space, "anchors"), self.concentration, rng)

    def log_density(
        self, positives: np.ndarray, anchors: np.ndarray, space: Space = UNIT_BOX
    ) -> np.ndarray:
        """Log-density up to a constant; the space must be the sphere."""
        self._only_sphere(space)
        positives, anchors = as_pairs(positives, anchors, space)
        heights = np.einsum("ij,ij->i", positives, anchors)
        return log_inside(self.concentration * heights, positives, space)

    def check(self, dim: int) -> None:
        """Fits spheres, so two dimensions or more."""
        if dim < 2:
            raise ValueError(
                f"{self} lives on a sphere, so it needs 2 dimensions or more, not {dim}."
            )

    def _only_sphere(self, space: Space) -> None:
        if not isinstance(space, Sphere):
            raise ValueError(f"{self} lives on the sphere, not on {space}; use normal there.")


@dataclass(frozen=True)
class Anisotropic:
    """Density proportional to exp(-(z+ - z)' L (z+ - z)), L = diag(concentrations).

    On a box this is a truncated normal with standard deviations 1 / sqrt(2 L); on the sphere a
    Fisher-Bingham distribution, drawn exactly. `method="shell"` is the released approximation on
    the sphere: N(z, 1 / L), kept when its norm is within 0.1 of 1, then projected.
    """

    concentrations: tuple[float, ...]
    method: str = "exact"

    def __post_init__(self) -> None:
        object.__setattr__(self, "concentrations", tuple(map(float, self.concentrations)))
        if not self.concentrations:
            raise ValueError("`concentrations` must hold one number for each dimension, got none.")
        for value in self.concentrations:
            check_positive(value, "concentrations")
        choose({"exact": 0, "shell": 0}, self.method, "method")

    def __str__(self) -> str:
        name = "anisotropic" if self.method == "exact" else "anisotropic-shell"
        return f"{name}:{','.join(map(number, self.concentrations))}"

    def sample(
        self, anchors: np.ndarray, rng: np.random.Generator, space: Space = UNIT_BOX
    ) -> np.ndarray:
        """Draw one positive for each anchor."""
        self._check_space(space)
        anchors = as_points(anchors, space, "anchors")
        self.check(anchors.shape[1])
        precision = np.array(self.concentrations)
        if isinstance(space, Sphere):
            draw = fisher_bingham if self.method == "exact" else shell
            return draw(anchors, precision, rng)
        scale = np.sqrt(0.5 / precision)
        if isinstance(space, Unbounded):
            return anchors + scale * rng.standard_normal(anchors.shape)
        low, high = (space.low - anchors) / scale, (space.high - anchors) / scale
        drawn = anchors + scale * truncated_normal(low, high, rng)
        return drawn.clip(space.low, space.high)  # rounding may leave the box by one digit

    def log_density(
        self, positives: np.ndarray, anchors: np.ndarray, space: Space = UNIT_BOX
    ) -> np.ndarray:
        """Log-density up to a term in the anchor; the shell method has none."""
        self._check_space(space)
        if self.method == "shell":
            raise ValueError(f"{self} has no closed density; use anisotropic, which is exact.")
        positives, anchors = as_pairs(positives, anchors, space)
        self.check(anchors.shape[1])
        distances = np.square(positives - anchors) @ np.array(self.concentrations)
        return log_inside(-distances, positives, space)

    def check(self, dim: int) -> None:
        """Needs one concentration for each dimension."""
        if len(self.concentrations) != dim:
            raise ValueError(
                f"`concentrations` must hold one number for each of the {dim} dimensions, "
                f"got {len(self.concentrations)}."
            )

    def _check_space(self, space: Space) -> None:
        if self.method == "shell" and not isinstance(space, Sphere):
            raise ValueError(f"{self} lives on the sphere, not on {space}; use anisotropic there.")


@dataclass(frozen=True)
class Fixed:
    """The positive equals the anchor."""

    def __str__(self) -> str:
        return "fixed"

    def sample(
        self, anchors: np.ndarray, rng: np.random.Generator, space: Space = UNIT_BOX
    ) -> np.ndarray:
        """Return a copy of the anchors."""
        return as_points(anchors, space, "anchors").copy()

    def log_density(
        self, positives: np.ndarray, anchors: np.ndarray, space: Space = UNIT_BOX
    ) -> np.ndarray:
        """Refuse: a point mass has no density."""
        raise ValueError("fixed puts all its mass on the anchor, so it has no density.")

    def check(self, dim: int) -> None:
        """Fits any number of dimensions."""


_FIXED = Fixed()


def _anisotropic(method: str) -> Callable[..., Anisotropic]:
    return lambda *concentrations: Anisotropic(concentrations, method)


class Product:
    """Each factor or group its own conditional, on a box or unbounded space.

    A factor's own name wins over its group. What is not named stays where it is, unless `others`
    says what moves it.

        Product({"position": Normal(0.1), "object_hue": Fixed()}, others=Laplace(0.05))
    """

    def __init__(
        self,
        parts: Mapping[str, Conditional],
        others: Conditional = _FIXED,
        factors: Sequence[Factor] = FACTORS,
    ) -> None:
        self.parts = dict(parts)
        self.others = others
        self.factors = tuple(factors)
        self._columns = self._assign()
        for part, selected in self._members():
            if isinstance(part, VMF | Product) or getattr(part, "method", "exact") == "shell":
                raise ValueError(f"A product cannot hold {part}; use normal, laplace or gennorm.")
            part.check(len(selected))

    def __str__(self) -> str:
        named = self.parts | ({} if self.others == _FIXED else {OTHERS: self.others})
        return ",".join(f"{name}={part}" for name, part in named.items())

    def __repr__(self) -> str:
        return f"Product({self})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Product) and (str(self), self.factors) == (
            str(other),
            other.factors,
        )

    def __hash__(self) -> int:
        return hash((str(self), self.factors))

    def sample(
        self, anchors: np.ndarray, rng: np.random.Generator, space: Space = UNIT_BOX
    ) -> np.ndarray:
        """Draw one positive for each anchor, part by part."""
        self._check_space(space)
        anchors = as_points(anchors, space, "anchors")
        self.check(anchors.shape[1])
        positives = np.empty_like(anchors)
        for part, selected in self._members():
            positives[:, selected] = part.sample(anchors[:, selected], rng, space)
        return positives

    def log_density(
        self, positives: np.ndarray, anchors: np.ndarray, space: Space = UNIT_BOX
    ) -> np.ndarray:
        """Sum of the parts' log-densities; none exists when a part is fixed."""
        self._check_space(space)
        positives, anchors = as_pairs(positives, anchors, space)
        self.check(anchors.shape[1])
        return sum(
            part.log_density(positives[:, selected], anchors[:, selected], space)
            for part, selected in self._members()
        )

    def check(self, dim: int) -> None:
        """Needs as many dimensions as there are factors."""
        if dim != len(self.factors):
            raise ValueError(
                f"{self} is written for {len(self.factors)} factors, not for {dim} dimensions."
            )

    def _members(self) -> list[tuple[Conditional, list[int]]]:
        named = self.parts | {OTHERS: self.others}
        return [(named[name], selected) for name, selected in self._columns.items()]

    def _assign(self) -> dict[str, list[int]]:
        """Give every factor to the most specific name that covers it."""
        reach = {name: columns([name], self.factors) for name in self.parts}
        owner = {}
        names = {factor.name for factor in self.factors}
        # Wide groups first, single factors last: what comes later overwrites.
        for name in sorted(reach, key=lambda name: (name in names, -len(reach[name]))):
            owner |= dict.fromkeys(reach[name], name)
        everyone = {i: owner.get(i, OTHERS) for i in range(len(self.factors))}
        return {name: [i for i in everyone if everyone[i] == name] for name in everyone.values()}

    def _check_space(self, space: Space) -> None:
        if isinstance(space, Sphere):
            raise ValueError(f"{self} treats factors apart, which a sphere does not; use a box.")


_FORMS: dict[str, tuple[Callable[..., Conditional], str, int | None]] = {
    "normal": (Normal, "normal:SCALE", 1),
    "laplace": (Laplace, "laplace:SCALE", 1),
    "gennorm": (GenNorm, "gennorm:EXPONENT:SCALE", 2),
    "vmf": (VMF, "vmf:CONCENTRATION", 1),
    "fixed": (Fixed, "fixed", 0),
    "anisotropic": (_anisotropic("exact"), "anisotropic:L1,L2,...", None),
    "anisotropic-shell": (_anisotropic("shell"), "anisotropic-shell:L1,L2,...", None),
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
        parts[name] = _parse_one(value)
    return Product(parts, parts.pop(OTHERS, _FIXED), factors)


def _parse_one(text: str) -> Conditional:
    name, _, rest = text.partition(":")
    build, form, count = choose(_FORMS, name.strip(), "conditional")
    words = rest.replace(",", ":").split(":") if rest else []
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        numbers = None
    if numbers is None or len(numbers) != (count if count is not None else max(len(words), 1)):
        raise ValueError(f"`conditional` {name} is written `{form}`, got {text!r}.")
    return build(*numbers)
