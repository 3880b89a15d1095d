"""Where the images of a read-out come from, and their classes and factors, if they have any.

    train, test = read_source(settings.data)
    train.images[[5, 3]]      # uint8 (2, H, W, 3); train.classes, train.latents, train.factors

`SOURCES` names them: digits that come with a package, splits in ident3d's format (rendered, or
imported such as Causal3DIdent), and by torchvision's readers CIFAR10 and folders like ImageNet's.
An `ImageSet` has what `ident3d.Pairs` needs of a data set, so that pairs come by the same road.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch.nn import functional

from ident3d.dataset import Dataset, load
from ident3d.errors import DataError, choose
from ident3d.factors import Factor, varying
from ident3d.files import canonical_sha256, sha256
from ident3d.loaders import as_tensor

from .coloured_digits import coloured_digits
from .readout_settings import ReadoutData

HELD_OUT_SHARE = 0.3  # of the rows, where one split is divided into two
LARGER = 256 / 224  # photographs are resized to this, and their middle is cut out, as usual


@dataclass(frozen=True)
class ImageSet:
    """Images to train on, or to score; without classes or factors where there are none."""

    name: str
    split: str
    images: Any  # array-like, uint8 (n, H, W, 3)
    fingerprint: str
    classes: np.ndarray | None = None  # int64 (n,)
    latents: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    factors: tuple[Factor, ...] = ()
    path: Path | None = None  # of an index: none is kept
    pairs: None = None  # no rendered positives

    def __post_init__(self) -> None:
        """Give rows without factors a latent of no columns: pairs count rows by their latents."""
        if not self.factors:
            object.__setattr__(self, "latents", np.zeros((len(self.images), 0), np.float32))

    def __len__(self) -> int:
        return len(self.latents)

    def described(self) -> dict[str, Any]:
        """Return what a record says of it."""
        return {
            **{"name": self.name, "split": self.split, "rows": len(self)},
            **{"fingerprint": self.fingerprint, "resolution": self.images.shape[1]},
        }


Both = tuple[ImageSet, ImageSet]  # to train on, to score


def read_source(data: ReadoutData) -> Both:
    """Return the images that settings name; raises DataError where they are not there."""
    return choose(SOURCES, data.source, "source")(data)


def _digits(data: ReadoutData) -> Both:
    images, classes = coloured_digits()
    whole = ImageSet("coloured digits", "all", images, sha256(images.tobytes()), classes)
    return _divided(whole)


def _split(data: ReadoutData) -> Both:
    folder = Path(data.folder)
    test = _of_dataset(load(folder / data.test), data.side)
    if data.train == data.test:
        return _divided(test)
    return _of_dataset(load(folder / data.train), data.side), test


def _of_dataset(found: Dataset, side: int) -> ImageSet:
    """Return a split with its images averaged to `side` and the factors that vary."""
    images, kept = found.images[np.arange(len(found))], varying(found.latents)
    if side < images.shape[1]:
        small = functional.adaptive_avg_pool2d(as_tensor(images).float(), side).round().byte()
        images = small.permute(0, 2, 3, 1).numpy()
    return ImageSet(
        found.path.resolve().parent.name,
        found.split,
        images,
        found.fingerprint,
        found.classes,
        found.latents[:, kept],
        tuple(factor for factor, keep in zip(found.factors, kept, strict=True) if keep),
    )


def _divided(whole: ImageSet) -> Both:
    """Divide a split at random, the same way every time: the last rows are scored."""
    order = np.random.default_rng(0).permutation(len(whole))
    cut = round(len(whole) * (1 - HELD_OUT_SHARE))
    parts = [
        replace(
            whole,
            split=f"{whole.split}, {words}",
            images=whole.images[rows],
            classes=None if whole.classes is None else whole.classes[rows],
            latents=whole.latents[rows],
        )
        for words, rows in (("to train on", order[:cut]), ("to score", order[cut:]))
    ]
    return parts[0], parts[1]


def _cifar10(data: ReadoutData) -> Both:
    """Read CIFAR10 by torchvision, which reads no file whose MD5 is not the published one."""
    from torchvision.datasets import CIFAR10

    found = []
    for split in ("train", "test"):
        try:
            part = CIFAR10(data.folder, train=split == "train", download=False)
        except RuntimeError as error:
            raise DataError(
                f"{data.folder} holds no whole CIFAR10; "
                f"torchvision.datasets.CIFAR10({data.folder!r}, download=True) fetches it."
            ) from error
        classes = np.array(part.targets, np.int64)
        found.append(ImageSet("CIFAR10", split, part.data, sha256(part.data.tobytes()), classes))
    return found[0], found[1]


class Photographs:
    """Image files as an array: read, resized and cut to a square when rows are asked for."""

    def __init__(self, files: list[str], side: int) -> None:
        self.files, self.shape = files, (len(files), side, side, 3)

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        """Read rows, given by number, in their order."""
        from torchvision.datasets.folder import pil_loader
        from torchvision.transforms import CenterCrop, Compose, Resize

        side = self.shape[1]
        cut = Compose([Resize(round(side * LARGER)), CenterCrop(side)])
        return np.stack([np.asarray(cut(pil_loader(self.files[row]))) for row in rows])


def _photographs(data: ReadoutData) -> Both:
    """Read folders of classes, `train/CLASS/FILE` and `val/CLASS/FILE`, as ImageNet has them."""
    from torchvision.datasets import ImageFolder

    found = []
    for split in ("train", "val"):
        try:
            part = ImageFolder(Path(data.folder) / split)
        except FileNotFoundError as error:
            raise DataError(
                f"{data.folder}/{split} must hold a folder of images for each class, as ImageNet "
                "does; name the folder above by --data."
            ) from error
        files, classes = (list(column) for column in zip(*part.samples, strict=True))
        names = [str(Path(file).relative_to(data.folder)) for file in files]
        # Of names and classes: to hash a hundred gigabytes would take longer than a trial run.
        fingerprint = canonical_sha256({"files": names, "classes": part.classes})
        images = Photographs(files, data.side)
        found.append(ImageSet("photographs", split, images, fingerprint, np.array(classes)))
    return found[0], found[1]


SOURCES: dict[str, Callable[[ReadoutData], Both]] = {
    "digits": _digits,
    "split": _split,
    "cifar10": _cifar10,
    "photographs": _photographs,
}
