"""What the scene is made of and lit by, in numbers; `blender.py` puts them into Blender.

The values are the released scene's. Names of shaders and of their settings are Blender's own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import radians
from typing import Any

import numpy as np

from .scene import TEAPOT_SIZE, Vector
from .teapot import Mesh


@dataclass(frozen=True)
class Coat:
    """A layer that reflects the more, the flatter light meets it (Fresnel's law)."""

    shader: str
    distribution: str  # of the surface's facets
    roughness: float
    ior: float  # index of refraction
    color: Vector | None = None  # linear RGB; None: the object's own


@dataclass(frozen=True)
class Material:
    """A matt base in the object's colour under coats, the innermost first."""

    roughness: float
    coats: tuple[Coat, ...]


@dataclass(frozen=True)
class Light:
    """A light. It shines straight down, unless the scene's state turns it."""

    kind: str
    settings: Mapping[str, Any]
    place: Vector = (0.0, 0.0, 0.0)


RUBBER = Material(
    roughness=0.0,
    coats=(
        Coat("ShaderNodeBsdfSheen", "ASHIKHMIN", roughness=0.6, ior=1.4),
        Coat("ShaderNodeBsdfGlossy", "BECKMANN", 0.35**0.5, ior=1.2, color=(0.8, 0.8, 0.8)),
    ),
)
MATERIALS = {"teapot": RUBBER, "ground": RUBBER}

LIGHTS = {
    "sun": Light("SUN", {"energy": 0.5, "angle": 0.199337}),
    "key": Light("AREA", {"energy": 39.2699, "shape": "SQUARE", "size": 1.0}, (0.0, 0.0, 7.0)),
    "spotlight": Light(
        "SPOT",
        {"energy": 3000, "shadow_soft_size": 0.5, "spot_size": radians(35), "spot_blend": 0.1},
    ),
}

_CORNERS = 750.0 * np.array([(-1, -1, 0), (1, -1, 0), (1, 1, 0), (-1, 1, 0)])
GROUND = Mesh(_CORNERS, [(0, 1, 2, 3)], smooth=False)
GROUND_PLACE = (0.0, 0.0, -TEAPOT_SIZE)
