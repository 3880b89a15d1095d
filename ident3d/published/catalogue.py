"""The published data sets: where each one is, how its files are recognised, who reads its latents.

A further data set is one more record here, and its reader in `readers.py`.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from ..factors import FACTORS, Factor
from .masks import FILE, MASK_FACTORS, SIDE, read_masks
from .readers import SplitLatents, read_class_latents, read_csv_latents, read_raw_latents

Reader = Callable[[str, Mapping[str, bytes]], SplitLatents]  # path of a split, its latents' files
_ROUNDED = 0.01  # of a count of rows, as sources round those of Causal3DIdent and KITTI Masks
CLASS_NAMES = ("teapot", "hare", "dragon", "cow", "armadillo", "horse", "head")


@dataclass(frozen=True)
class PublishedSet:
    """One data set as its authors published it.

    A split is a folder, whatever folders that lies in. `images` and the latents are names in it,
    where [0-9] is a class; images are PNG files numbered from 0. Where `images` is empty, one file
    is the split: it holds images and latents.
    """

    title: str
    record: int  # on Zenodo
    archives: Mapping[str, tuple[str, str | None]]  # split -> name and, from a third party, MD5
    rows: tuple[int, ...]  # of its splits as released; sources round some of them
    # The file that tells this data set from the others. Where its name begins with `raw_`, the same
    # latents in scene units may lie beside it, under the rest of the name.
    latents: str
    read: Reader
    # split -> name of its folder
    splits: Mapping[str, str] = field(default_factory=lambda: {"train": "train", "test": "test"})
    images: str = "images"  # folder of images
    side: int = 224  # pixels of a released image
    factors: tuple[Factor, ...] = FACTORS
    class_names: tuple[str, ...] | None = None

    @property
    def page(self) -> str:
        """The page that people read; it shows the publisher's own MD5 sums."""
        return f"https://zenodo.org/records/{self.record}"

    @property
    def url(self) -> str:
        """The folder its files are under."""
        return f"{self.page}/files/"

    @property
    def api(self) -> str:
        """The record as JSON, with the publisher's MD5 sums."""
        return f"https://zenodo.org/api/records/{self.record}"

    def has_size_of_release(self, rows: int, shape: tuple[int, int, int]) -> bool:
        """Tell whether a split may be a released one: its files alone tell no more than a layout.

        Own images come in these layouts too, and are then not called published.
        """
        near = any(abs(rows - released) <= _ROUNDED * released for released in self.rows)
        return near and shape[:2] == (self.side, self.side)

    def has_latents(self, name: str) -> bool:
        """Tell whether a file of this name holds latents of this data set."""
        names = (self.latents, self.latents.removeprefix("raw_"))
        return any(fnmatchcase(name, known) for known in names)


CATALOGUE = {
    "3dident": PublishedSet(
        title="3DIdent",
        record=4502485,
        archives={
            "train": ("3dident_train.tar", "df132b4dacf04fa28e1c8ca9d2168634"),
            "test": ("3dident_test.tar", "35020bca16c9faa80cf0c926d265d678"),
        },
        rows=(250_000, 25_000),
        latents="raw_latents.npy",
        read=read_raw_latents,
    ),
    "causal3dident": PublishedSet(
        title="Causal3DIdent",
        record=4784282,
        splits={"train": "trainset", "test": "testset"},
        archives={
            "train": ("trainset.tar.gz", "acd98fda30eee75856dbbc7c54a27e45"),
            "test": ("testset.tar.gz", "c5d9d32d3737e241a2b12b968275fcb8"),
        },
        rows=(250_000, 25_000),
        images="images_[0-9]",
        latents="raw_latents_[0-9].npy",
        read=read_class_latents,
        class_names=CLASS_NAMES,
    ),
    "multimodal3dident": PublishedSet(
        title="Multimodal3DIdent",
        record=7678231,
        splits={"train": "train", "val": "val", "test": "test"},
        archives={"all": ("m3di.tar.gz", None)},
        rows=(125_000, 10_000),
        latents="latents_image.csv",
        read=read_csv_latents,
        # Its object hue runs once round the colour circle, 3DIdent's over half of it.
        factors=tuple(
            replace(factor, low=0.0, high=2 * math.pi) if factor.name == "object_hue" else factor
            for factor in FACTORS
        ),
        class_names=CLASS_NAMES,
    ),
    "kitti-masks": PublishedSet(
        title="KITTI Masks",
        record=3931823,
        splits={"train": FILE},
        archives={"train": (FILE, None)},
        rows=(85_000,),
        images="",
        side=SIDE,
        latents=FILE,
        read=read_masks,
        factors=MASK_FACTORS,
    ),
}
