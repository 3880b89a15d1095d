"""Newell's teapot as a mesh: Bezier patches evaluated, welded, and placed for the scene."""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

# Ten segments a side give the released mesh's largest dimension to its last digit (4.4421, where
# the true surface has 4.4448) and its vertex count but for one: it was made with ten.
SEGMENTS = 10

TURN = -np.pi / 4  # about z
SCALE = 0.634686
FLOOR = -0.90669  # z of the bottom; the body's axis stays on x = y = 0


@dataclass(frozen=True)
class Mesh:
    """Vertices, shape (n, 3), and faces as tuples of three or four vertex numbers.

    Faces run counter-clockwise seen from outside.
    """

    vertices: np.ndarray
    faces: list[tuple[int, ...]]
    smooth: bool = True  # shade it as the round thing it stands for


@cache
def teapot(segments: int = SEGMENTS) -> Mesh:
    """Build the teapot: `segments` quads along each side of each of the 32 patches."""
    points = _evaluate(_control_points(), segments)  # (patch, u, v, xyz)
    vertices, grid = _weld(points)
    return Mesh(_place(vertices), _faces(grid))


def _control_points() -> np.ndarray:
    """Read the patches, shape (32, 4, 4, 3)."""
    stored = json.loads(files("ident3d.assets").joinpath("teapot.json").read_text())
    return np.array(stored["vertices"])[np.array(stored["patches"])].reshape(-1, 4, 4, 3)


def _evaluate(control: np.ndarray, segments: int) -> np.ndarray:
    t = np.linspace(0, 1, segments + 1)
    basis = np.stack([(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3], axis=1)
    return np.einsum("ui,vj,kijc->kuvc", basis, basis, control)


def _weld(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Merge equal points of neighbouring patches; the grid comes back as vertex numbers."""
    flat = points.reshape(-1, 3)
    keys = np.round(flat * 1e6).astype(np.int64)
    _, first, number = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    return flat[first], number.reshape(points.shape[:3])


def _faces(grid: np.ndarray) -> list[tuple[int, ...]]:
    """Cut the grid into quads; where a patch's side is a point (lid, bottom), into triangles."""
    corners = (grid[:, :-1, :-1], grid[:, :-1, 1:], grid[:, 1:, 1:], grid[:, 1:, :-1])
    quads = np.stack(corners, axis=-1).reshape(-1, 4)
    return [tuple(dict.fromkeys(quad)) for quad in quads.tolist()]


def _place(vertices: np.ndarray) -> np.ndarray:
    sine, cosine = np.sin(TURN), np.cos(TURN)
    rotation = np.array([[cosine, -sine, 0], [sine, cosine, 0], [0, 0, 1]])
    placed = SCALE * vertices @ rotation.T
    placed[:, 2] += FLOOR - placed[:, 2].min()
    return placed
