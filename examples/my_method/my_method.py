"""An example of a method from outside: linear slow features of the pixels.

It looks for the directions in which a pair differs least compared with the whole data: the
simplest thing that learns from positive pairs, in numpy alone. Copy it and put yours in its place.

    ident3d benchmark run my_method:SlowFeatures --tier tiny --data DATA
"""

import numpy as np
from ident3d.benchmark.methods import Task
from scipy.linalg import eigh

SIDE = 8  # images are averaged to SIDE x SIDE first


class SlowFeatures:
    """Linear slow feature analysis."""

    name = "Linear slow features"

    def fit(self, task: Task) -> "LinearEncoder":
        """Learn from the pairs that the task serves."""
        spread, noise, mean, count = 0.0, 0.0, 0.0, 0
        for anchors, positives in task.batches():
            x, y = pixels(anchors), pixels(positives)
            spread = spread + x.T @ x
            noise = noise + (x - y).T @ (x - y)
            mean, count = mean + x.sum(0), count + len(x)
        mean = mean / count
        covariance = spread / count - np.outer(mean, mean)
        ridge = 1e-4 * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
        # The smallest generalised eigenvalues: little noise, much spread.
        _, directions = eigh(noise / count + ridge, covariance + ridge)
        return LinearEncoder(mean, directions[:, : task.dim])


class LinearEncoder:
    """Averaged pixels, centred, times a matrix."""

    def __init__(self, mean: np.ndarray, directions: np.ndarray) -> None:
        self.mean, self.directions = mean, directions

    def __call__(self, images: np.ndarray) -> np.ndarray:
        """Embed uint8 images (n, H, W, 3)."""
        return (pixels(images) - self.mean) @ self.directions


def pixels(images: np.ndarray) -> np.ndarray:
    """Average images to SIDE x SIDE and flatten them, (n, 3 SIDE²), in [0, 1]."""
    n, height, width, _ = images.shape
    fold = (n, SIDE, height // SIDE, SIDE, width // SIDE, 3)
    return images.reshape(fold).mean((2, 4)).reshape(n, -1) / 255
