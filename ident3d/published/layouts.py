"""Telling the published data sets apart by their files, and reading their latents.

    3DIdent            <split>/images/N.png    raw_latents.npy    latents.npy
    Causal3DIdent      <split>/images_C/N.png  raw_latents_C.npy  latents_C.npy
    Multimodal3DIdent  <split>/images/N.png    latents_image.csv

Leading folders do not matter; the name of `<split>` names the split.
"""

import math
import re
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from ..errors import DataError
from ..factors import FACTORS, Factor
from .archive import Member
from .latents import ALL_CLASSES, read_multimodal, read_unit
from .png import png_shape

CLASS_NAMES = ("teapot", "hare", "dragon", "cow", "armadillo", "horse", "head")
SPLITS = {"train": "train", "trainset": "train", "val": "val", "test": "test", "testset": "test"}
RECORDS = {"3DIdent": 4502485, "Causal3DIdent": 4784282, "Multimodal3DIdent": 7678231}

_IMAGE = re.compile(r"(?P<folder>(?:.*/)?)images(?:_(?P<kind>\d))?/(?P<number>\d{1,9})\.png")
_LATENTS = re.compile(
    r"(?P<folder>(?:.*/)?)(?P<file>(?:raw_)?latents(?:_\d)?\.npy|latents_image\.csv)"
)
_LATENTS_LIMIT = 1 << 28  # bytes; 250,000 rows are 10 MB
IMAGE_LIMIT = 1 << 26

# Multimodal3DIdent's object hue runs once round the colour circle, 3DIdent's over half of it.
MULTIMODAL_FACTORS = tuple(
    replace(factor, low=0.0, high=2 * math.pi) if factor.name == "object_hue" else factor
    for factor in FACTORS
)


@dataclass
class Found:
    """The files of one split as they were met, not yet understood."""

    files: dict[str, bytes] = field(default_factory=dict)
    images: dict[int, array] = field(default_factory=dict)  # class -> numbers, as they came
    shape: tuple[int, int, int] | None = None  # of the first image


@dataclass(frozen=True)
class ImageName:
    """What an image's path says: whose it is, and which."""

    folder: str
    kind: int  # the class where folders tell classes apart, else ALL_CLASSES
    number: int


@dataclass(frozen=True)
class Published:
    """One split of a published data set, checked."""

    title: str
    folder: str  # inside the source
    split: str
    shape: tuple[int, int, int]
    latents: np.ndarray  # unit latents, float32 (n, 10)
    factors: tuple[Factor, ...]
    classes: np.ndarray | None
    starts: dict[int, int]  # class -> row of its image 0; rows run class by class

    def row(self, image: ImageName) -> int:
        """Tell the row of an image."""
        row = self.starts.get(image.kind, len(self.latents)) + image.number
        if row >= len(self.latents):
            raise DataError(f"{self.folder} changed while it was read; run the import again.")
        return row


def image_name(name: str) -> ImageName | None:
    """Read an image's path; None for any other file."""
    match = _IMAGE.fullmatch(name)
    if match is None:
        return None
    kind = ALL_CLASSES if match["kind"] is None else int(match["kind"])
    return ImageName(match["folder"], kind, int(match["number"]))


def survey(members: Iterable[Member]) -> dict[str, Found]:
    """Look through a source once: latents are read, images counted, anything else passed over."""
    found: dict[str, Found] = {}
    for member in members:
        image = image_name(member.name)
        latents = _LATENTS.fullmatch(member.name)
        if image is not None:
            split = found.setdefault(image.folder, Found())
            _check_size(member, IMAGE_LIMIT)
            split.images.setdefault(image.kind, array("q")).append(image.number)
            if split.shape is None:
                split.shape = png_shape(member.read(), member.name)
        elif latents is not None:
            files = found.setdefault(latents["folder"], Found()).files
            if latents["file"] in files:
                raise DataError(f"{member.name} is there twice; one of the two must go.")
            _check_size(member, _LATENTS_LIMIT)
            files[latents["file"]] = member.read()
    return found


def understand(folder: str, split: str, found: Found) -> Published:
    """Read the latents of one split, and check that each row has one image and no more."""
    numbered = sorted(name for name in found.files if re.fullmatch(r"raw_latents_\d\.npy", name))
    classes = None
    factors: tuple[Factor, ...] = FACTORS
    if "raw_latents.npy" in found.files:
        title = "3DIdent"
        latents = read_unit(folder, found.files, "")
        counts = {ALL_CLASSES: len(latents)}
    elif numbered:
        title = "Causal3DIdent"
        kinds = [int(name.split("_")[-1][0]) for name in numbered]
        parts = [read_unit(folder, found.files, f"_{kind}") for kind in kinds]
        latents = np.concatenate(parts)
        counts = {kind: len(part) for kind, part in zip(kinds, parts, strict=True)}
        classes = np.repeat(kinds, [len(part) for part in parts])
    elif "latents_image.csv" in found.files:
        title, factors = "Multimodal3DIdent", MULTIMODAL_FACTORS
        latents, classes = read_multimodal(folder, found.files["latents_image.csv"])
        counts = {ALL_CLASSES: len(latents)}
    else:
        raise DataError(
            f"{folder or 'The source'} has no raw_latents.npy, raw_latents_0.npy or "
            "latents_image.csv beside its images; without latents there is nothing to import."
        )
    if classes is not None and classes.max() >= len(CLASS_NAMES):
        raise DataError(f"{folder} has a class {classes.max()}; published ones are 0 to 6.")
    _check_images(folder, counts, found.images)
    assert found.shape is not None  # there is an image, so it has been looked at
    starts = dict(zip(counts, np.cumsum([0, *counts.values()]).tolist(), strict=False))
    return Published(title, folder, split, found.shape, latents, factors, classes, starts)


def _check_images(folder: str, counts: dict[int, int], images: dict[int, array]) -> None:
    if unknown := sorted(set(images) - set(counts)):
        raise DataError(f"{_images(folder, unknown[0])} has images and no latents.")
    for kind, rows in counts.items():
        seen = np.bincount(np.clip(images.get(kind, array("q")), 0, rows), minlength=rows + 1)
        where = _images(folder, kind)
        digits = image_digits(rows)
        if (missing := np.flatnonzero(seen[:rows] == 0)).size:
            raise DataError(
                f"{where} lacks {missing.size:,} of {rows:,} images, "
                f"the first is {missing[0]:0{digits}d}.png; unpack or download it again."
            )
        if (twice := np.flatnonzero(seen[:rows] > 1)).size:
            raise DataError(f"{where} holds image {twice[0]:0{digits}d}.png more than once.")
        if seen[rows]:
            raise DataError(
                f"{where} holds {seen[rows]:,} images more than the {rows:,} rows of latents."
            )


def image_digits(rows: int) -> int:
    """Width of the published file names: the released code's own rule."""
    return int(np.ceil(np.log10(rows)))


def _images(folder: str, kind: int) -> str:
    return f"{folder}images" + ("" if kind == ALL_CLASSES else f"_{kind}")


def _check_size(member: Member, limit: int) -> None:
    if member.size > limit:
        raise DataError(f"{member.name} has {member.size:,} bytes, more than {limit:,}; refused.")
