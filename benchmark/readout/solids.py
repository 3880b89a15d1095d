"""A stand-in for Causal3DIdent, of our own making: seven solids, ten factors, no Blender.

    python -m ident3d.benchmark.readout.solids solids      # 2,800 and 1,400 images, a minute

The classes are seven solids of one to eight cubes, one cube of each darker where there are more, so
that few rotations look alike. Surfaces are drawn as points, near ones over far ones, shaded by a
coloured light that also tints the ground, which is darker than they are. Latents are uniform and
independent of the class; in Causal3DIdent they depend on it. The files are those of the published
layout, and `ident3d import` reads them as it reads the real ones.
"""

import sys
import tempfile
from colorsys import hsv_to_rgb
from functools import lru_cache
from itertools import product
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.spatial.transform import Rotation

from ident3d.factors import to_scene
from ident3d.published import import_published

SOLIDS: dict[str, tuple[tuple[int, ...], ...]] = {
    "cube": ((0, 0, 0),),
    "pair": ((0, 0, 0), (1, 0, 0)),
    "rod": ((0, 0, 0), (1, 0, 0), (2, 0, 0), (3, 0, 0)),
    "tile": ((0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0)),
    "hook": ((0, 0, 0), (1, 0, 0), (2, 0, 0), (2, 1, 0)),
    "corner": ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "block": tuple(product((0, 1), repeat=3)),
}
SIDE, FINE = 32, 2  # pixels of an image; drawn this much finer, then averaged
EDGE = 0.9  # of a cube, where the picture is 6 high at distance AWAY
AWAY = 9.0  # of the camera
POINTS = 22  # along the edge of a face: closer than pixels are
DARK = 0.45  # brightness of the marked cube
HUES = 0.9  # of the colour circle that a hue's range spans: no two ends look alike
ROWS = {"trainset": 400, "testset": 200}  # of each class


@lru_cache
def surface(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return points of a solid about its centre, (n, 3), their normals and brightness."""
    cells = SOLIDS[name]
    grid = (np.arange(POINTS) + 0.5) / POINTS - 0.5
    points, normals, bright = [], [], []
    for number, cell in enumerate(cells):
        for axis, sign in product(range(3), (-1, 1)):
            normal = np.eye(3, dtype=int)[axis] * sign
            if tuple(np.add(cell, normal)) in cells:
                continue  # inside
            face = np.zeros((POINTS**2, 3))
            one, two = (other for other in range(3) if other != axis)
            face[:, one], face[:, two] = (part.ravel() for part in np.meshgrid(grid, grid))
            points.append(np.array(cell) + face + normal / 2)
            normals.append(np.repeat(normal[None], POINTS**2, 0))
            bright.append(np.full(POINTS**2, DARK if number == 0 and cells[1:] else 1.0))
    centre = np.mean(cells, axis=0)
    return (np.concatenate(points) - centre) * EDGE, np.concatenate(normals), np.concatenate(bright)


def draw(name: str, latents: np.ndarray) -> np.ndarray:
    """Draw a solid as unit latents (10,) say, uint8 (SIDE, SIDE, 3)."""
    points, normals, bright = surface(name)
    scene = to_scene(latents[None])[0]
    turn = Rotation.from_euler("xyz", scene[3:6]).as_matrix()
    points, normals = points @ turn.T, normals @ turn.T
    object_rgb, light_rgb, ground_rgb = (_colour(hue) for hue in latents[7:10])
    light = np.array([0.5, np.sin(scene[6]), np.cos(scene[6])])
    shade = (normals @ (light / np.linalg.norm(light))).clip(0)
    # (n, 3): its own colour, and what the coloured light adds
    colours = bright[:, None] * object_rgb * (0.6 + 0.4 * shade[:, None] * light_rgb)
    count = SIDE * FINE
    place = points + scene[:3] * (0.8, 0.35, 0.35)  # the whole range stays in the picture
    zoom = AWAY / (AWAY - place[:, 0]) * count / 6
    column, row = ((count / 2 + side * place[:, k] * zoom) for k, side in ((1, 1), (2, -1)))
    image = _ground(ground_rgb, light_rgb, light, count)
    near = np.argsort(place[:, 0], kind="stable")  # of equal pixels the last, nearest, stays
    seen = (np.minimum(row, column) >= 0) & (np.maximum(row, column) < count)
    inside = near[seen[near]]
    image[row[inside].astype(int), column[inside].astype(int)] = colours[inside]
    small = image.reshape(SIDE, FINE, SIDE, FINE, 3).mean((1, 3))
    return np.rint(255 * small.clip(0, 1)).astype(np.uint8)


def write_published(folder: Path, split: str, rows: int, rng: np.random.Generator) -> None:
    """Write a split in Causal3DIdent's layout, `rows` images of each class."""
    for label, name in enumerate(SOLIDS):
        latents = rng.uniform(-1, 1, (rows, 10)).astype(np.float32)
        images = folder / split / f"images_{label}"
        images.mkdir(parents=True)
        digits = len(str(rows - 1))
        for number, row in enumerate(latents):
            Image.fromarray(draw(name, row)).save(images / f"{number:0{digits}d}.png")
        np.save(folder / split / f"raw_latents_{label}.npy", latents)


def make_solids(out: Path, rows: dict[str, int]) -> None:
    """Make a data set: draw it in the published layout, and import that."""
    with tempfile.TemporaryDirectory() as folder:
        for number, (split, count) in enumerate(rows.items()):
            write_published(Path(folder), split, count, np.random.default_rng([0, number]))
        import_published(folder, out)


def _colour(latent: float) -> np.ndarray:
    """Return the colour that a hue's unit latent stands for."""
    return np.array(hsv_to_rgb(HUES * (latent + 1) / 2, 0.8, 1.0))


def _ground(own: np.ndarray, light_rgb: np.ndarray, light: np.ndarray, count: int) -> np.ndarray:
    """Return the ground, (count, count, 3): brighter, and more of the light's, where it shines."""
    y, z = np.meshgrid(*(np.linspace(-1, 1, count),) * 2)
    lit = np.exp(-((y - 0.8 * light[1]) ** 2 + (z + 0.8 * light[2]) ** 2))[..., None]
    return 0.12 * own + 0.2 * lit * light_rgb  # dark: what stands on it stands out


if __name__ == "__main__":
    make_solids(Path(sys.argv[1]), ROWS)
