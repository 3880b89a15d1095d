"""Linear read-outs: was a view augmented, of which class is an image, where are its factors?

An augmentation is read out alone: of the images of a set exactly half go through it, with the draws
that SimCLR's training has, and nothing else is done to any. So chance is 1/2. Two things bound
what can be read: a draw near "nothing changed" is hardly seen; and since draws lie on both sides of
it (brighter, darker), a feature that is proportional to the amount tells nothing linearly.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ident3d.augment import COLOUR_CHANGES, grey, jitter, to_float
from ident3d.errors import DataError
from ident3d.loaders import as_tensor
from ident3d.rows import evenly

from ..data.synthetic import stream
from ..scoring.probes import kernel_ridge
from .image_sources import ImageSet

AUGMENTATIONS = ("grayscale", *COLOUR_CHANGES)
FEATURES = ("backbone", "projected")
PENALTIES = (1e-3, 1e-1, 10.0)  # inverse ones, of which held-out fitted rows choose
BATCH = 500  # images embedded at a time
READOUT = 31  # what tells the draws of a read-out from others of a seed

Embed = Callable[[Tensor], dict[str, np.ndarray]]  # images (n, 3, H, W) -> features by name


@dataclass(frozen=True)
class Fit:
    """What is fitted on, and what is scored."""

    train: ImageSet
    test: ImageSet
    fitted: int  # rows, at most, evenly spaced
    scored: int

    def images(self) -> Iterator[tuple[ImageSet, np.ndarray, Tensor]]:
        """Yield both sets, their rows and images as floats in [0, 1], (n, 3, H, W)."""
        for part, most in ((self.train, self.fitted), (self.test, self.scored)):
            rows = evenly(len(part), most)
            yield part, rows, to_float(as_tensor(part.images[rows]))


def readout_scores(fit: Fit, embed: Embed, seed: int, strength: float) -> dict[str, object]:
    """Return accuracies by `NAME_FEATURES`, such as `hue_backbone`, with chance beside them.

    Where images have factors, also the kernel-ridge R2 of each, as von Kügelgen et al. 2021 do.
    """
    read = {}
    for number, name in enumerate(AUGMENTATIONS):
        generator = int(stream(seed, READOUT, number).integers(2**62))
        read[name] = _augmentation(fit, embed, name, generator, strength)
    read["augmentations"] = {
        kind: float(np.mean([values[kind] for values in read.values()])) for kind in read["hue"]
    }
    found: dict[str, object] = {"chance_augmentations": 0.5}
    plain = [(part, rows, embed(images)) for part, rows, images in fit.images()]
    (train, fitted, known_rows), (test, scored, new_rows) = plain
    if train.classes is not None and test.classes is not None:
        classes = train.classes[fitted], test.classes[scored]
        found["chance_class"] = float(np.bincount(classes[1]).max() / len(scored))
        read["class"] = accuracies(known_rows, classes[0], new_rows, classes[1])
    for name, values in read.items():
        found |= {f"{name}_{kind}": value for kind, value in values.items()}
    if test.factors:
        for kind, rows in new_rows.items():
            scores = kernel_ridge(test.latents[scored], rows)
            found[f"kernel_r2_{kind}"] = scores["kernel_r2"]
            names = [factor.name for factor in test.factors]
            values = np.asarray(scores["kernel_r2_per_factor"]).tolist()
            found[f"kernel_r2_per_factor_{kind}"] = dict(zip(names, values, strict=True))
    return found


def augment_half(
    images: Tensor, name: str, generator: int, strength: float = 1.0
) -> tuple[Tensor, np.ndarray]:
    """Apply an augmentation to a random half of images; return them, and which half it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(generator)
        applied = torch.randperm(len(images)) < len(images) // 2
        if name == "grayscale":
            changed = grey(images).expand_as(images)
        else:
            changed = jitter(images, strength, parts=(name,))
    return torch.where(applied[:, None, None, None], changed, images), applied.numpy()


def accuracies(
    fitted: dict[str, np.ndarray],
    classes: np.ndarray,
    scored: dict[str, np.ndarray],
    truth: np.ndarray,
) -> dict[str, float]:
    """Return the accuracy of a linear classifier of each kind of features."""
    return {kind: accuracy(fitted[kind], classes, scored[kind], truth) for kind in fitted}


def accuracy(x: np.ndarray, y: np.ndarray, x_new: np.ndarray, y_new: np.ndarray) -> float:
    """Fit logistic regression on standardised features; return its accuracy on new rows.

    Its penalty is the one that does best on a fifth of the fitted rows when fitted on the others.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, PredefinedSplit
    from sklearn.preprocessing import StandardScaler

    if len(np.unique(y)) < 2:
        raise DataError("A classifier needs rows of two classes or more to be fitted on.")
    scaler = StandardScaler().fit(x)
    fifth = PredefinedSplit(np.where(np.arange(len(x)) % 5 == 4, 0, -1))
    model = LogisticRegression(tol=1e-3, max_iter=100)
    search = GridSearchCV(model, {"C": PENALTIES}, cv=fifth)
    with warnings.catch_warnings():
        # One that stops early is a classifier all the same.
        warnings.simplefilter("ignore", ConvergenceWarning)
        search.fit(scaler.transform(x), y)
    return float(search.score(scaler.transform(x_new), y_new))


def in_batches(embed: Embed) -> Embed:
    """Return what embeds any number of images, some at a time."""

    def whole(images: Tensor) -> dict[str, np.ndarray]:
        parts = [embed(part) for part in images.split(BATCH)]
        return {kind: np.concatenate([part[kind] for part in parts]) for kind in parts[0]}

    return whole


def _augmentation(
    fit: Fit, embed: Embed, name: str, generator: int, strength: float
) -> dict[str, float]:
    """Read one augmentation out of every kind of features."""
    sides = []
    for number, (_, _, images) in enumerate(fit.images()):
        views, applied = augment_half(images, name, generator + number, strength)
        sides.append((embed(views), applied.astype(int)))
    return accuracies(*sides[0], *sides[1])
