"""MCC by chance: what a representation scores that has the factors, but turned at random.

A contrastive loss that does not see rotations leaves one that nothing chose. For factors of equal
variance and no correlation, turned by Q, the correlations are the entries of Q: chance is the best
match in a random orthogonal matrix, and depends on the number of factors alone. The MCC by blocks
of the same Q depends on the sizes of the blocks, too.

python -m ident3d.benchmark.scoring.chance  # computes TABLE and BLOCKS again and prints them
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.linalg import hadamard

from ident3d.conditionals import Anisotropic, parse
from ident3d.metrics import block_mcc, match_columns, mcc

from .matched_metric import blocks_of

DRAWS, SEED = 20_000, 0
TURNS = 50  # of a representation
# factors -> mean and 95th percentile of MCC over random rotations, by the command above
TABLE = {
    2: (0.9001, 0.9993),
    3: (0.8289, 0.9620),
    4: (0.7731, 0.8954),
    5: (0.7295, 0.8357),
    6: (0.6924, 0.7855),
    7: (0.6625, 0.7441),
    8: (0.6358, 0.7097),
    9: (0.6135, 0.6789),
    10: (0.5931, 0.6523),
    11: (0.5755, 0.6300),
    12: (0.5596, 0.6100),
    13: (0.5452, 0.5906),
    14: (0.5319, 0.5748),
    15: (0.5198, 0.5596),
    16: (0.5091, 0.5460),
    17: (0.4989, 0.5335),
    18: (0.4893, 0.5220),
    19: (0.4806, 0.5114),
    20: (0.4722, 0.5021),
}
# sizes of blocks -> the same of the MCC by blocks
BLOCKS = {
    (4, 4): (0.8032, 0.8670),
    (5, 5): (0.7871, 0.8418),
    (2, 3, 3): (0.7359, 0.8058),
}


def simulate(dim: int, draws: int, rng: np.random.Generator) -> np.ndarray:
    """Draw the MCC of random rotations of `dim` factors, (draws,)."""
    found = np.empty(draws)
    for draw in range(draws):
        # QR of a normal matrix is uniform up to signs, which |Q| does not see.
        rotation = np.abs(np.linalg.qr(rng.normal(size=(dim, dim)))[0])
        found[draw] = rotation[match_columns(rotation)].mean()
    return found


def simulate_blocks(sizes: tuple[int, ...], draws: int, rng: np.random.Generator) -> np.ndarray:
    """Draw the MCC by blocks of random rotations, (draws,)."""
    dim, ends = sum(sizes), np.cumsum((0, *sizes))
    blocks = [list(range(*block)) for block in pairwise(ends)]
    design = hadamard(32)[:, 1 : dim + 1].astype(float)  # of mean 0 and no correlation
    found = np.empty(draws)
    for draw in range(draws):
        rotation = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
        found[draw] = block_mcc(design, design @ rotation, blocks)
    return found


def block_chance(settings: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return mean and 95th percentile of the MCC by blocks of a record's settings; None if unknown.

    The settings may be a stranger's.
    """
    texts = settings.get("conditionals")
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        return None
    try:
        read = [parse(text) for text in texts]
        diagonals = [one.concentrations for one in read if isinstance(one, Anisotropic)]
        sizes = tuple(sorted(map(len, blocks_of(diagonals))))
    except ValueError:  # no conditional, or conditionals of unequal numbers of factors
        return None
    if not diagonals or len(diagonals) < len(read):
        return None
    return TABLE.get(len(sizes)) if set(sizes) == {1} else BLOCKS.get(sizes)


def turned_mcc(z: np.ndarray, z_hat: np.ndarray) -> dict[str, float]:
    """Return mean and 95th percentile of the Spearman MCC of a representation turned at random.

    It holds what the representation holds, on axes that nothing chose. Where a model has more
    dimensions than there are factors, and keeps more than the factors, no table has its chance.
    """
    rng, size = np.random.default_rng(SEED), z_hat.shape[1]
    turns = (np.linalg.qr(rng.normal(size=(size, size)))[0] for _ in range(TURNS))
    found = [mcc(z, z_hat @ turn, method="spearman") for turn in turns]
    return {
        "mcc_turned": float(np.mean(found)),
        "mcc_turned_95": float(np.quantile(found, 0.95)),
    }


def _tables() -> str:
    drawn: dict[Any, np.ndarray] = {
        dim: simulate(dim, DRAWS, np.random.default_rng([SEED, dim])) for dim in TABLE
    }
    for sizes in BLOCKS:
        drawn[sizes] = simulate_blocks(sizes, DRAWS, np.random.default_rng([SEED, *sizes]))
    lines = (
        f"    {key}: ({found.mean():.4f}, {np.quantile(found, 0.95):.4f}),"
        for key, found in drawn.items()
    )
    return "\n".join(lines)


if __name__ == "__main__":
    print(_tables())
