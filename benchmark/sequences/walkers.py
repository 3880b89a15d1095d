"""Silhouettes that walk: a stand-in for KITTI Masks, of our own making, in its file format.

A walker is a head, a trunk, two legs and two arms, drawn into 64 x 64 pixels. From frame to frame
its feet move down or up, it moves to a side, and it grows or shrinks, each by a step of its own
from a Laplace distribution: mostly small, sometimes large. Steps that would leave the picture are
turned back. Legs and arms swing on, and every walker has its own proportions; no latent tells
either. The latents are measured in the masks, as the published ones are.

    python -m ident3d.benchmark.sequences.walkers OUT --sequences 300 --seed 0
"""

from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

from ident3d.published.masks import FILE, SIDE, write_masks

LEAST_AREA = 30  # pixels, as published
FRAMES = (8, 60)  # of a sequence, at least and at most
# Vertical and horizontal place of the body's middle in pixels, logarithm of its height in pixels:
# limits, and the scale of the steps between frames, generalized normal of exponent SHAPE: a Laplace
# step has exponent 1, and five of those make one that is hardly sparse any more.
LOW = np.array([18.0, 8.0, np.log(16.0)])
HIGH = np.array([46.0, 56.0, np.log(44.0)])
STEP = np.array([0.08, 0.16, 0.005])
SHAPE = 0.5
SWING = 0.3  # radians that the gait moves on in a frame


@dataclass(frozen=True)
class Body:
    """What a walker keeps for all its frames: shares of its height, and its gait."""

    width: float
    head: float
    stride: float
    phase: float


def make_sequences(count: int, seed: int) -> list[np.ndarray]:
    """Make sequences of masks, bool (T, 64, 64) each; number i depends on (seed, i) alone."""
    return [walk(np.random.default_rng([seed, number])) for number in range(count)]


def walk(rng: np.random.Generator) -> np.ndarray:
    """Make one sequence of masks, bool (T, 64, 64)."""
    frames = int(rng.integers(FRAMES[0], FRAMES[1] + 1))
    body = Body(*rng.uniform((0.22, 0.13, 0.1, 0.0), (0.3, 0.17, 0.3, 2 * np.pi)))
    states = steps(frames, rng)
    masks = [draw(body, state, body.phase + SWING * t) for t, state in enumerate(states)]
    return np.stack([mask for mask in masks if np.count_nonzero(mask) >= LEAST_AREA])


def steps(frames: int, rng: np.random.Generator) -> np.ndarray:
    """Draw the path of a walker, (frames, 3): a uniform start, then sparse steps."""
    sizes = rng.gamma(1 / SHAPE, size=(frames, 3)) ** (1 / SHAPE)  # of generalized normal steps
    moves = STEP * sizes * rng.choice((-1, 1), (frames, 3))
    moves[0] = rng.uniform(LOW, HIGH) - LOW
    return LOW + reflect(np.cumsum(moves, axis=0), HIGH - LOW)


def reflect(values: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Fold values back into [0, length] at either end, as often as it takes."""
    folded = np.mod(values, 2 * length)
    return np.minimum(folded, 2 * length - folded)


def draw(body: Body, state: np.ndarray, phase: float) -> np.ndarray:
    """Draw one frame, bool (64, 64): pixels whose middle lies in a part of the body."""
    vertical, horizontal, height = state[0], state[1], np.exp(state[2])
    rows, columns = np.mgrid[:SIDE, :SIDE]
    y, x = (rows - vertical) / height, (columns - horizontal) / height  # the body spans -0.5..0.5
    swing = body.stride * np.sin(phase)
    head = (y + 0.5 - body.head / 2) ** 2 + x**2 < (body.head / 2) ** 2
    trunk = (np.abs(x) < body.width / 2) & (y > -0.5 + body.head) & (y < 0.08)
    limbs = [_limb(y, x, 0.05, 0.5, side * swing, body.width / 4) for side in (-1, 1)]
    limbs += [_limb(y, x, -0.33, 0.05, side * swing, body.width / 7) for side in (-1, 1)]
    return np.any([head, trunk, *limbs], axis=0)


def _limb(
    y: np.ndarray, x: np.ndarray, top: float, end: float, angle: float, half: float
) -> np.ndarray:
    """Tell the pixels of a limb that hangs from the middle at some angle."""
    along = (y - top) * np.cos(angle) + x * np.sin(angle)
    across = x * np.cos(angle) - (y - top) * np.sin(angle)
    return (along > 0) & (along < end - top) & (np.abs(across) < half)


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--sequences", type=click.IntRange(1, 100_000), default=300, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
def main(out: Path, sequences: int, seed: int) -> None:
    """Write OUT/kitti_peds_v2.pickle, of walkers; `ident3d import` reads it."""
    out.mkdir(parents=True, exist_ok=True)
    made_by = f"ident3d walkers, {sequences} sequences, seed {seed}"
    write_masks(out / FILE, make_sequences(sequences, seed), made_by)
    click.echo(f"{out / FILE}: {made_by}; next: ident3d import {out / FILE} DATA --split train")


if __name__ == "__main__":
    main()
