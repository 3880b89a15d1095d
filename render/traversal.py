"""The paper's figure 2: one column per factor, each image exactly on the line."""

import numpy as np
from PIL import Image

from ident3d.factors import FACTORS
from ident3d.progress import progress
from ident3d.sheets import picture

from .blender import Renderer
from .presets import quality
from .scene import scene_state

# Where the other factors stand: the teapot low and turned to show spout and handle, and hues
# that tell teapot, spotlight and ground apart.
MIDDLE = {
    "z": -0.6,
    "alpha": 0.1,
    "gamma": -0.45,
    "spotlight_angle": 0.35,
    "object_hue": 0.75,
    "spotlight_hue": 0.15,
    "background_hue": -0.8,
}


def traversal(steps: int) -> np.ndarray:
    """Unit latents, shape (10, steps, 10): column k moves factor k from -1 to 1 and no other."""
    middle = [MIDDLE.get(factor.name, 0.0) for factor in FACTORS]
    latents = np.tile(np.array(middle), (len(FACTORS), steps, 1))
    for column in range(len(FACTORS)):
        latents[column, :, column] = np.linspace(-1, 1, steps)
    return latents


def render_traversal(steps: int, resolution: int) -> Image.Image:
    """Render a traversal of every factor and lay it out as one labelled picture."""
    renderer = Renderer(quality("standard", resolution), resolution)
    latents = traversal(steps)
    grid = np.empty((len(FACTORS), steps, resolution, resolution, 3), np.uint8)
    with progress(len(FACTORS) * steps, "render", unit="image") as bar:
        for place in np.ndindex(len(FACTORS), steps):
            grid[place] = renderer.render(scene_state(latents[place]))
            bar.update()
    return picture(grid, [factor.name for factor in FACTORS])
