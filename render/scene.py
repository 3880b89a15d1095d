"""The 3DIdent scene in numbers: what stands still, and what a row of latents sets.

Nothing here knows Blender; `blender.py` puts these numbers into it.
"""

import colorsys
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ident3d.errors import choose
from ident3d.factors import FACTORS, to_scene

from .teapot import Mesh, teapot

Vector = tuple[float, float, float]
Box = tuple[int, int, int, int]  # left, top, right, bottom, in pixels

TEAPOT_SCALE = 1.5
TEAPOT_SIZE = 4.442117  # the scaled teapot's largest dimension

CAMERA_PLACE = (8.0, 0.0, 8.0)  # looks at the origin
CAMERA_UP = (0.0, 0.0, 1.0)
LENS, SENSOR = 35.0, 50.0  # mm
SPOTLIGHT_RADIUS = 4.0
SPOTLIGHT_HEIGHT = 6.0 + TEAPOT_SIZE

OBJECT_SATURATION = 1.0
SPOTLIGHT_SATURATION = 0.8
GROUND_SATURATION = 0.6


@dataclass(frozen=True)
class SceneMesh:
    """A mesh that can stand in the scene; `materials.MATERIALS` tells what it is made of."""

    build: Callable[[], Mesh]
    scale: float


MESHES = {"teapot": SceneMesh(teapot, TEAPOT_SCALE)}


@dataclass(frozen=True)
class SceneState:
    """Everything that differs from one image to the next. Colours are linear RGB."""

    object_place: Vector
    object_turn: Vector  # Euler angles, order XYZ
    spotlight_place: Vector  # it always points at the object's place
    object_color: Vector
    spotlight_color: Vector
    ground_color: Vector
    mesh: str = "teapot"  # the object's, of `MESHES`


def scene_state(latents: np.ndarray, hue: str = "injective") -> SceneState:
    """Compute the scene of one row of unit latents, shape (10,)."""
    color = choose(HUES, hue, "hue")
    values = to_scene(np.asarray(latents, dtype=np.float64)[None])[0].tolist()
    named = dict(zip((factor.name for factor in FACTORS), values, strict=True))
    angle = named["spotlight_angle"]
    return SceneState(
        object_place=(named["x"], named["y"], named["z"] + TEAPOT_SIZE / 2),
        object_turn=(named["alpha"], named["beta"], named["gamma"]),
        spotlight_place=(
            SPOTLIGHT_RADIUS * math.sin(angle),
            SPOTLIGHT_RADIUS * math.cos(angle),
            SPOTLIGHT_HEIGHT,
        ),
        object_color=color(named["object_hue"], OBJECT_SATURATION),
        spotlight_color=color(named["spotlight_hue"], SPOTLIGHT_SATURATION),
        ground_color=color(named["background_hue"], GROUND_SATURATION),
    )


def injective_color(angle: float, saturation: float) -> Vector:
    """Turn an angle on the colour circle into RGB: continuous, and no two angles alike."""
    return colorsys.hsv_to_rgb(angle / (2 * math.pi) % 1.0, saturation, 1.0)


def published_color(angle: float, saturation: float) -> Vector:
    """Turn an angle into the RGB of the released generator, defect included.

    It hands negative hues to `colorsys`, which truncates towards zero where the formula needs
    the floor. What comes out lies outside [0, 1]; Blender takes the negative parts for zero.
    """
    red, green, blue = colorsys.hsv_to_rgb(angle / (2 * math.pi), saturation, 1.0)
    return max(red, 0.0), max(green, 0.0), max(blue, 0.0)


HUES: dict[str, Callable[[float, float], Vector]] = {
    "injective": injective_color,
    "published": published_color,
}


def look_at(place: Vector, target: Vector, up: Vector) -> np.ndarray:
    """Build the rotation, shape (3, 3), that points -z from `place` to `target` and y towards up.

    Columns are the axes of the camera or light in the world.
    """
    backward = np.subtract(place, target)
    backward = backward / np.linalg.norm(backward)
    right = np.cross(up, backward)
    right = right / np.linalg.norm(right)
    return np.stack([right, np.cross(backward, right), backward], axis=1)


def turn(angles: Vector) -> np.ndarray:
    """Build the rotation, shape (3, 3), of Euler angles in the order XYZ."""
    (sx, sy, sz), (cx, cy, cz) = np.sin(angles), np.cos(angles)
    about_x = np.array([[1, 0, 0], [0, cx, -sx], [0, sx, cx]])
    about_y = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
    about_z = np.array([[cz, -sz, 0], [sz, cz, 0], [0, 0, 1]])
    return about_z @ about_y @ about_x


def object_box(state: SceneState, resolution: int, margin: int = 0) -> Box:
    """Find the pixels that the object may touch, and `margin` pixels around them."""
    mesh = MESHES[state.mesh]
    points = mesh.scale * mesh.build().vertices @ turn(state.object_turn).T + state.object_place
    seen = (points - CAMERA_PLACE) @ look_at(CAMERA_PLACE, (0, 0, 0), CAMERA_UP)
    right, up = (LENS / SENSOR * seen[:, :2] / -seen[:, 2:]).T  # from -0.5 to 0.5
    pixels = resolution * np.stack([0.5 + right, 0.5 - up], axis=1)
    reach = 2 + margin  # the pixel filter and the denoiser smear the outline a little
    low = np.floor(pixels.min(axis=0)).astype(int) - reach
    high = np.ceil(pixels.max(axis=0)).astype(int) + reach
    left, top, right, bottom = np.clip([*low, *high], 0, resolution).tolist()
    return left, top, right, bottom
