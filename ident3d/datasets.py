"""The published data sets in torchvision's manner.

train = ThreeDIdent("data", split="train", transform=transform, download=True)
image, latents = train[0]       # a PIL image, or what `transform` makes of it
"""

from pathlib import Path
from typing import Any, ClassVar

from PIL import Image

from .dataset import Dataset, load
from .errors import DataError, choose
from .published import download as fetch
from .published import import_published
from .published.catalogue import CATALOGUE
from .shards import MANIFEST, read_manifest

try:
    import torch
    from torchvision.datasets import VisionDataset
except ImportError as error:
    raise ImportError(
        "`ident3d.datasets` needs torchvision: `pip install 'ident3d[benchmark]'`. "
        "`ident3d.loaders.ImageDataset` does without."
    ) from error


class PublishedDataset(VisionDataset):
    """One split of a published data set: images with their latents.

    Items are `(image, latents)`: a PIL image, as torchvision's transforms of both generations take
    it, and the unit latents, a float32 tensor (10,). `data` is the same as `ident3d.load` gives it.

    Args:
        root: The folder that holds, or gets, the archives and the data set imported from them.
        split: One of the published splits.
        transform: Applied to each image.
        target_transform: Applied to each target.
        download: Download and import what is not there yet; both go on where they stopped.
        url: A mirror: the folder that holds the archives under their published names.
    """

    name: ClassVar[str]

    def __init__(
        self,
        root: str | Path,
        split: str = "train",
        transform: Any = None,
        target_transform: Any = None,
        download: bool = False,
        *,
        url: str | None = None,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.split = split
        choose(CATALOGUE[self.name].splits, split, "split")
        if download and not self._is_there():
            self._download(url)
        if not self._is_there():
            raise DataError(
                f"{self.folder} has no split {split!r}; `download=True` downloads and imports it."
            )
        self.data: Dataset = load(self.folder / split)

    @property
    def folder(self) -> Path:
        """Where the data set is, below `root`."""
        return Path(self.root, self.name)

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, row: int) -> tuple[Any, Any]:
        """Read one item."""
        return self.__getitems__([row])[0]

    def __getitems__(self, rows: list[int]) -> list[tuple[Any, Any]]:
        """Read several rows at once; torch's `DataLoader` asks for whole batches."""
        images = self.data.images[rows]
        targets = self._targets(rows)
        items = list(zip(map(Image.fromarray, images), targets, strict=True))
        return items if self.transforms is None else [self.transforms(*item) for item in items]

    def extra_repr(self) -> str:
        """Say which split it is."""
        return f"Split: {self.split}"

    def _targets(self, rows: list[int]) -> Any:
        return torch.from_numpy(self.data.latents[rows])

    def _is_there(self) -> bool:
        known = (self.folder / MANIFEST).exists()
        return known and self.split in read_manifest(self.folder)["splits"]

    def _download(self, url: str | None) -> None:
        archives = CATALOGUE[self.name].archives
        for file in fetch(
            self.name, self.root, self.split if self.split in archives else None, url
        ):
            if not file.right:
                raise DataError(file.note)
            import_published(file.path, self.folder, self.split)


class ThreeDIdent(PublishedDataset):
    """3DIdent (Zimmermann et al. 2021): a teapot, ten latents; splits train and test."""

    name = "3dident"


class _WithClasses(PublishedDataset):
    def _targets(self, rows: list[int]) -> Any:
        assert self.data.classes is not None  # the reader of these sets gives them
        return list(zip(super()._targets(rows), self.data.classes[rows].tolist(), strict=True))


class Causal3DIdent(_WithClasses):
    """Causal3DIdent (von Kügelgen et al. 2021): seven objects; splits train and test.

    Targets are `(latents, class)`, the class an integer that numbers `data.class_names`.
    """

    name = "causal3dident"


class Multimodal3DIdent(_WithClasses):
    """Multimodal3DIdent (Daunhawer et al. 2023), its images; splits train, val and test.

    Targets are `(latents, class)`, the class an integer that numbers `data.class_names`.
    """

    name = "multimodal3dident"
