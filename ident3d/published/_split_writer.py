"""The shards of an imported split, filled in whatever order its images come."""

from pathlib import Path

import numpy as np

from ..errors import DataError
from ..files import Lock
from ..outside import read_sealed, write_sealed
from ..shards import MANIFEST, Description, ShardWriter, read_manifest, shard_name, write_manifest
from ..shards.manifest import check_free
from ..shards.reader import Images, image_shape, read_columns
from .survey import PublishedSplit

_MOST_SHARDS = 128  # all may be open at once, with two files each


class SplitWriter:
    """Opens each shard when its first image arrives and publishes it with its last.

    Arguments are those of `import_published`; a folder that holds other data raises DataError.
    """

    def __init__(self, root: Path, split: PublishedSplit, compress: bool, shard_rows: int) -> None:
        self.root, self.published, self._compress = root, split, compress
        self.folder, origin = root / split.split, split.origin
        self.rows = len(split.latents)
        self._size = max(shard_rows, -(-self.rows // _MOST_SHARDS))
        self._paths = [self.folder / shard_name(n) for n in range(-(-self.rows // self._size))]
        self._lacking: dict[int, set[int]] = {}  # shard -> positions without an image
        self._writers: dict[int, ShardWriter] = {}
        self._finished: set[int] = set()  # shards of an earlier run
        self._images: dict[int, Images] = {}  # theirs
        self._compared = False  # whether all that is stored was found in this source
        self._description = Description(
            factors=origin.factors,
            settings=split.settings,
            class_names=origin.class_names,
            command="ident3d import",
            sequences=split.sequences is not None,
        )
        if not self._is_ours():
            raise DataError(f"{self.folder} holds other data already; import to another folder.")
        check_free(self.folder, self._names)

    def is_begun_from_another(self) -> bool:
        """Tell whether images are stored that may not come from this very source.

        It may be the same one, repaired: then all of them are in it, which `compare` tells.
        """
        begun = self._note.exists() or any(self._note.parent.glob("*.journal"))
        return begun and not _is_noted(self._note, self._source)

    def holds(self, row: int) -> bool:
        """Tell whether a row's image is stored, in a shard or in a journal."""
        shard = row // self._size
        if self._paths[shard].exists():
            return True
        journal = self._note.with_name(self._paths[shard].stem + ".journal")
        if shard not in self._writers and journal.exists():
            self._writers[shard] = self._writer(shard)
        return shard in self._writers and self._writers[shard].holds(row % self._size)

    def compare(self, row: int, image: np.ndarray) -> None:
        """Refuse the source unless an image that is held is the one in it."""
        shard, position = divmod(row, self._size)
        if self._paths[shard].exists():
            self._compare(shard, position, image)
        elif not np.array_equal(self._writers[shard].stored(position), image):
            raise self._refusal()

    def trust(self) -> None:
        """Go on with this source: every image that is held was compared with it."""
        self._compared = True

    def lacks(self, row: int) -> bool:
        """Tell whether a row's image is still to be stored, or compared with the stored one."""
        shard, position = divmod(row, self._size)
        if shard not in self._lacking:
            self._open(shard)
        return position in self._lacking[shard]

    def put(self, row: int, image: np.ndarray) -> None:
        """Store an image; with the last one of a shard, publish the shard.

        The first and last one of a shard that an earlier run published must be the stored ones.
        """
        if not self.lacks(row):
            return
        shard, position = divmod(row, self._size)
        self._lacking[shard].discard(position)
        if shard in self._finished:
            self._compare(shard, position, image)
        else:
            self._writers[shard].put(position, image)
            self._publish_if_whole(shard)

    def finish(self) -> None:
        """Declare the split whole, once every shard is."""
        if not all(path.exists() for path in self._paths):
            raise DataError("The source changed while it was read; run the import again.")
        write_manifest(self.root, self.published.split, self._description, self._names)

    def close(self) -> None:
        """Let go of the unfinished shards; what they hold stays for the next run."""
        for writer in self._writers.values():
            writer.close()

    def bytes_lacking(self) -> int:
        """Estimate the disk space this split will still take."""
        stored = sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())
        return max(0, self.rows * int(np.prod(self.published.shape)) - stored)

    @property
    def _names(self) -> list[str]:
        return [path.name for path in self._paths]

    def _is_ours(self) -> bool:
        """Compare with what is in the folder: only an earlier run of this import may go on."""
        if (self.root / MANIFEST).exists():
            entry = read_manifest(self.root)["splits"].get(self.published.split)
            if entry and entry["description"] != self._description.to_record():
                return False
        return all(self._is_our_shard(path) for path in self.folder.glob("shard-*.h5"))

    def _is_our_shard(self, path: Path) -> bool:
        if path not in self._paths:
            return False
        latents = self.published.latents[self._slice(self._paths.index(path))]
        if image_shape(path) != (len(latents), *self.published.shape):
            return False
        entry = {"name": path.name, "rows": len(latents)}
        return np.array_equal(read_columns(self.folder, [entry], "latents"), latents)

    def _slice(self, shard: int) -> slice:
        return slice(shard * self._size, (shard + 1) * self._size)

    def _open(self, shard: int) -> None:
        if self._paths[shard].exists():
            self._finished.add(shard)
            self._lacking[shard] = {0, len(self.published.latents[self._slice(shard)]) - 1}
            return
        self._claim()
        if shard not in self._writers:
            self._writers[shard] = self._writer(shard)
        self._lacking[shard] = set(self._writers[shard].missing())
        self._publish_if_whole(shard)  # a kill may have come between the last image and this

    def _writer(self, shard: int) -> ShardWriter:
        part = self._slice(shard)
        classes, sequences = self.published.classes, self.published.sequences
        return ShardWriter(
            self._paths[shard],
            np.arange(self.rows)[part],
            self.published.latents[part],
            self.published.shape,
            self._description,
            self._compress,
            None if classes is None else classes[part],
            None if sequences is None else sequences[part],
        )

    def _claim(self) -> None:
        """Note whose images are stored, before the first; refuse to add to those of another source.

        Nothing else tells images of a run that was stopped from others: latents may be the same.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with Lock(self.root / ".lock", wait=True):
            if self.is_begun_from_another() and not self._compared:
                raise self._refusal()
            self._note.parent.mkdir(exist_ok=True)
            write_sealed(self._note, self._source)

    @property
    def _note(self) -> Path:
        return self.folder / ".work" / "import"

    @property
    def _source(self) -> dict[str, str]:
        return {"source": self.published.content}

    def _refusal(self) -> DataError:
        return DataError(
            f"{self.folder} has an unfinished import of other images; import to another "
            f"folder, or remove {self._note.parent}."
        )

    def _compare(self, shard: int, position: int, image: np.ndarray) -> None:
        """Refuse images other than a shard has: renders of other settings have the same latents."""
        path = self._paths[shard]
        if shard not in self._images:
            entry = {"name": path.name, "rows": image_shape(path)[0]}
            self._images[shard] = Images(self.folder, [entry], self.published.shape)
        if not np.array_equal(self._images[shard][position], image):
            raise DataError(f"{path} holds other images already; import to another folder.")

    def _publish_if_whole(self, shard: int) -> None:
        if not self._lacking[shard]:
            with self._writers.pop(shard) as writer:
                writer.finish()


def _is_noted(note: Path, mine: dict[str, str]) -> bool:
    try:
        return read_sealed(note) == mine
    except (ValueError, FileNotFoundError):  # damaged, or of a version that noted nothing
        return False
