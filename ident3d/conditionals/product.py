"""Factors, or groups of them, that each have a conditional of their own."""

from collections.abc import Mapping, Sequence

import numpy as np

from ..factors import FACTORS, Factor, columns
from ..spaces import UNIT_BOX, Space, Sphere
from .conditional import Conditional
from .fixed import Fixed

OTHERS = "others"  # the name, in a product's text form, for every factor not named
UNNAMED = Fixed()


class Product(Conditional):
    """Each factor or group its own conditional, on a box or unbounded space.

    A factor's own name wins over its group. What is not named stays where it is, unless `others`
    says what moves it.

        Product({"position": Normal(0.1), "object_hue": Fixed()}, others=Laplace(0.05))
    """

    def __init__(
        self,
        parts: Mapping[str, Conditional],
        others: Conditional = UNNAMED,
        factors: Sequence[Factor] = FACTORS,
    ) -> None:
        self.parts = dict(parts)
        self.others = others
        self.factors = tuple(factors)
        self._members = self._assign()  # each conditional and its columns
        for part, selected in self._members:
            if isinstance(part, Product) or part.why_not(UNIT_BOX, density=False):
                raise ValueError(f"A product cannot hold {part}; use normal, laplace or gennorm.")
            part.check(len(selected))

    def __str__(self) -> str:
        named = self.parts | ({} if self.others == UNNAMED else {OTHERS: self.others})
        return ",".join(f"{name}={part}" for name, part in named.items())

    def __repr__(self) -> str:
        return f"Product({self})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Product) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[tuple[str, ...], tuple[Factor, ...]]:
        """What moves each factor: in whatever order and by whatever names it was written."""
        movers = {column: str(part) for part, selected in self._members for column in selected}
        return tuple(movers[column] for column in sorted(movers)), self.factors

    def check(self, dim: int) -> None:
        """Raise ValueError unless there are as many dimensions as factors."""
        if dim != len(self.factors):
            raise ValueError(
                f"{self} is written for {len(self.factors)} factors, not for {dim} dimensions."
            )

    def why_not(self, space: Space, density: bool) -> str | None:
        """Say that a sphere has none; whether there is a density, the parts know."""
        if not isinstance(space, Sphere):
            return None
        return f"{self} treats factors apart, which a sphere does not; use a box."

    def _sample(self, anchors: np.ndarray, rng: np.random.Generator, space: Space) -> np.ndarray:
        positives = np.empty_like(anchors)
        for part, selected in self._members:
            positives[:, selected] = part.sample(anchors[:, selected], rng, space)
        return positives

    def _log_density(self, positives: np.ndarray, anchors: np.ndarray, space: Space) -> np.ndarray:
        parts = [
            part.log_density(positives[:, selected], anchors[:, selected], space)
            for part, selected in self._members
        ]
        return np.sum(parts, axis=0)

    def _assign(self) -> list[tuple[Conditional, list[int]]]:
        """Give every factor to the most specific name that covers it."""
        reach = {name: columns([name], self.factors) for name in self.parts}
        names = {factor.name for factor in self.factors}
        owner = dict.fromkeys(range(len(self.factors)), OTHERS)
        # Wide groups first, single factors last: what comes later overwrites.
        for name in sorted(reach, key=lambda name: (name in names, -len(reach[name]))):
            owner |= dict.fromkeys(reach[name], name)
        named = self.parts | {OTHERS: self.others}
        owners = dict.fromkeys(owner.values())
        return [(named[name], [i for i in owner if owner[i] == name]) for name in owners]
