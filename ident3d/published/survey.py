"""What a source holds: which splits of which data sets, and whether each of them is whole."""

import re
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import DataError
from ..files import sha256
from ..shards.manifest import MAX_SIDE
from .archive import Member
from .catalogue import CATALOGUE, PublishedSet
from .png import png_shape
from .readers import SplitLatents

_IMAGE = re.compile(r"(?P<split>(?:.*/)?)(?P<folder>[^/]+)/(?P<number>\d{1,9})\.png")
_LATENTS_LIMIT = 1 << 30  # bytes; 250,000 rows are 10 MB, the masks of 85,000 frames 350 MB
_IMAGE_LIMIT = 4 * MAX_SIDE**2  # bytes; a PNG of noise takes three for each pixel


@dataclass
class SplitFiles:
    """The files of one split as they were met, not yet checked."""

    latents: dict[str, bytes] = field(default_factory=dict)
    images: dict[str, array] = field(default_factory=dict)  # folder -> numbers, as they came
    shape: tuple[int, int, int] | None = None  # of the first image
    content: int = 0  # a sum over the files' digests, whatever their order

    def add(self, name: str, file: bytes) -> None:
        """Count a file into the content."""
        digest = sha256(f"{name} {sha256(file)}".encode())
        self.content = (self.content + int(digest, 16)) % (1 << 256)


@dataclass(frozen=True)
class ImageName:
    """What an image's path says: whose it is, and which."""

    split: str  # path of its split inside the source
    folder: str
    number: int


@dataclass(frozen=True, kw_only=True)
class PublishedSplit(SplitLatents):
    """One split of a published data set, checked."""

    origin: PublishedSet
    folder: str  # inside the source
    split: str
    shape: tuple[int, int, int]
    content: str  # a digest of its files, by which a run that was stopped knows its source again

    @cached_property
    def starts(self) -> dict[str, int]:
        """Row of the first image of each folder."""
        return dict(zip(self.images, np.cumsum([0, *self.images.values()]).tolist(), strict=False))

    @property
    def title(self) -> str:
        """What it is, for people: as published, in that layout, or a stand-in."""
        if self.made_by is not None:
            return f"a stand-in ({self.made_by})"
        return self.origin.title if self.is_published else f"{self.origin.title}'s layout"

    @property
    def is_published(self) -> bool:
        """Whether it has the size of a released split, not its layout alone."""
        return self.origin.has_size_of_release(len(self.latents), self.shape)

    @property
    def settings(self) -> dict[str, Any]:
        """What is known of how its images were made; of others than the released ones, nothing."""
        title = self.origin.title
        if self.made_by is not None:
            return {"stand_in_for": title, "made_by": self.made_by}
        if not self.is_published:
            return {"layout": title}
        hue = any(factor.group == "hue" for factor in self.origin.factors)
        facts = {"published": title, "zenodo_record": self.origin.record}
        return facts | ({"hue": "published"} if hue else {})

    def row(self, image: ImageName) -> int:
        """Tell the row of an image."""
        row = self.starts.get(image.folder, len(self.latents)) + image.number
        if row >= len(self.latents):
            raise DataError(f"{self.folder} changed while it was read; run the import again.")
        return row


def parse_image_name(name: str) -> ImageName | None:
    """Read an image's path; None for any other file."""
    match = _IMAGE.fullmatch(name)
    if match is None or not any(
        fnmatchcase(match["folder"], published.images) for published in CATALOGUE.values()
    ):
        return None
    return ImageName(match["split"], match["folder"], int(match["number"]))


def survey(members: Iterable[Member], advance: Callable[[], object]) -> dict[str, SplitFiles]:
    """Look through a source once: latents are read, images counted, other files passed over."""
    found: dict[str, SplitFiles] = {}
    for member in members:
        advance()
        image = parse_image_name(member.name)
        folder, slash, name = member.name.rpartition("/")
        if image is not None:
            split = found.setdefault(image.split, SplitFiles())
            _check_size(member, _IMAGE_LIMIT)
            split.images.setdefault(image.folder, array("q")).append(image.number)
            file = member.read()
            split.add(f"{image.folder}/{image.number}", file)
            if split.shape is None:
                split.shape = png_shape(file, member.name)
        elif any(published.has_latents(name) for published in CATALOGUE.values()):
            split = found.setdefault(folder + slash, SplitFiles())
            if name in split.latents:
                raise DataError(f"{member.name} is there twice; one of the two must go.")
            _check_size(member, _LATENTS_LIMIT)
            split.latents[name] = member.read()
            split.add(name, split.latents[name])
    return found


def read_split(folder: str, split: str, found: SplitFiles) -> PublishedSplit:
    """Read the latents of one split, and check that each row has one image and no more."""
    for origin in CATALOGUE.values():
        if any(fnmatchcase(name, origin.latents) for name in found.latents):
            break
    else:
        names = " or ".join(published.latents for published in CATALOGUE.values())
        raise DataError(
            f"{folder or 'The source'} has no {names} beside its images; "
            "without latents there is nothing to import."
        )
    read, known = origin.read(folder, found.latents), len(origin.class_names or ())
    if read.classes is not None and (highest := read.classes.max()) >= known:
        raise DataError(f"{folder} has a class {highest}; published ones are 0 to {known - 1}.")
    _check_images(folder, read.images, found.images)
    shape = found.shape
    if read.masks is not None:
        shape = (read.masks.shape[1], read.masks.shape[2], 3)
    assert shape is not None  # there is an image, so it has been looked at
    return PublishedSplit(
        **vars(read),
        origin=origin,
        folder=folder,
        split=split,
        shape=shape,
        content=f"{found.content:064x}",
    )


def image_digits(rows: int) -> int:
    """Count the digits of the published file names, by the released code's own rule."""
    return int(np.ceil(np.log10(rows)))


def _check_images(split: str, counts: dict[str, int], images: dict[str, array]) -> None:
    if unknown := sorted(set(images) - set(counts)):
        raise DataError(f"{split}{unknown[0]} has images and no latents.")
    for folder, rows in counts.items():
        seen = np.bincount(np.clip(images.get(folder, array("q")), 0, rows), minlength=rows + 1)
        where, digits = split + folder, image_digits(rows)
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


def _check_size(member: Member, limit: int) -> None:
    if member.size > limit:
        raise DataError(f"{member.name} has {member.size:,} bytes, more than {limit:,}; refused.")
