"""Turning a published data set into ident3d's format.

The source is read twice, front to back: once for its latents, to see that it is whole, and to tell
whether it is the one that an earlier run began with; once for its images. Its members come in any
order, and images are stored in the order they come.
"""

import os
import shutil
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from tqdm import tqdm

from ..errors import DataError
from ..outside import read_plain
from ..progress import progress, size
from ..shards import check_split_name
from ._split_writer import SplitWriter
from .archive import Member, walk
from .catalogue import CATALOGUE
from .png import THREADS, decode_png
from .survey import PublishedSplit, parse_image_name, read_split, survey

SHARD_ROWS = 4096  # 616 MB at 224 px
_WINDOW = 64  # images in memory, read ahead of the decoding threads

Wanted = Callable[[SplitWriter, int], bool]  # of a row
Use = Callable[[SplitWriter, int, np.ndarray], None]  # of a row and its image
Decoding = tuple[SplitWriter, int, Future[np.ndarray] | None]


def import_published(
    source: str | os.PathLike,
    out: str | os.PathLike,
    split: str | None = None,
    compress: bool = False,
    shard_rows: int = SHARD_ROWS,
) -> list[PublishedSplit]:
    """Import every split of a published data set, from a folder, a tar, a tar.gz or its one file.

    Stops and continues like a render: run it again after a kill, and it goes on.

    Args:
        source: The archive or folder; which data set it is, its files tell.
        out: The data set's folder. Other splits in it stay.
        split: Import this split only. Where the source does not say which split it is, its name.
        compress: Store one zstd chunk per image.
        shard_rows: Rows per shard, at least; more if there would be very many shards.
    """
    source, out = Path(source), Path(out)
    if split is not None:
        check_split_name(split)
    if not source.exists():
        raise DataError(f"{source} does not exist; `ident3d download` fetches published data.")
    with progress(None, f"reading {source.name}", unit="file") as bar:
        found = survey(_members(source), bar.update)
    named = _name_splits(source, list(found), split)
    splits = [read_split(folder, name, found[folder]) for folder, name in named.items()]
    del found
    writers = [SplitWriter(out, published, compress, shard_rows) for published in splits]
    _check_space(out, sum(writer.bytes_lacking() for writer in writers))
    _store(source, writers)
    return splits


def _name_splits(source: Path, folders: list[str], wanted: str | None) -> dict[str, str]:
    """Give the folders of the source their splits' names, and keep the wanted ones."""
    if not folders:
        known = "; ".join(
            f"{p.images}/N.png with {p.latents}" if p.images else p.latents
            for p in CATALOGUE.values()
        )
        raise DataError(f"{source} is no published data set: it holds none of {known}.")
    # A split's own folder may be given directly, or packed without any folder around it.
    names = {folder: Path(folder).name or source.absolute().name for folder in folders}
    known_splits = {f: split for p in CATALOGUE.values() for split, f in p.splits.items()}
    splits = {folder: known_splits[n] for folder, n in names.items() if n in known_splits}
    if len(folders) == 1 and wanted is not None:
        return {folders[0]: wanted}
    if len(folders) == 1 and not splits:
        raise ValueError(f"{source} does not say which split it is; add `--split train`.")
    chosen = {folder: name for folder, name in splits.items() if wanted in (None, name)}
    unclear = len(splits) < len(folders) if wanted is None else not chosen
    if unclear or len(set(chosen.values())) < len(chosen):
        listed = ", ".join(folder.rstrip("/") or "." for folder in sorted(folders))[:400]
        raise ValueError(f"{source} holds the folders {listed}; add `--split` to choose one.")
    return chosen


def _check_space(out: Path, needed: int) -> None:
    """Say before the start, not after an hour, that the disk is too small."""
    out.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(out).free
    if needed > free:
        raise DataError(
            f"{out} needs {size(needed)} more and its disk has {size(free)} free; "
            "free some space or import to another disk."
        )


def _store(source: Path, writers: list[SplitWriter]) -> None:
    with ExitStack() as stack:
        for writer in writers:
            stack.callback(writer.close)
        _compare(source, [writer for writer in writers if writer.is_begun_from_another()])
        total = sum(writer.rows for writer in writers)
        bar = stack.enter_context(progress(total, "importing", unit="image"))
        _visit(source, writers, SplitWriter.lacks, SplitWriter.put, bar)
        for writer in writers:
            writer.finish()


def _compare(source: Path, writers: list[SplitWriter]) -> None:
    """Compare what earlier runs stored with a source that is not, or not quite, theirs.

    A source is repaired after a damaged image stopped its import. All is compared before anything
    is stored, so that a source of other images leaves no image behind.
    """
    if not writers:
        return
    with progress(None, "comparing what is stored", unit="image") as bar:
        _visit(source, writers, SplitWriter.holds, SplitWriter.compare, bar)
    for writer in writers:
        writer.trust()


def _visit(source: Path, writers: list[SplitWriter], wanted: Wanted, use: Use, bar: tqdm) -> None:
    """Use every wanted image of a source; those that came with the latents are grey, 0 or 255."""
    for writer in writers:
        masks = writer.published.masks
        for row, mask in enumerate(() if masks is None else masks):
            if wanted(writer, row):
                use(writer, row, np.repeat(mask[..., None] * np.uint8(255), 3, axis=2))
            bar.update()
    for writer, row, image in _decode(source, writers, wanted):
        if image is not None:
            use(writer, row, image.result())
        bar.update()


def _members(source: Path) -> Iterator[Member]:
    """Walk a source; a published file that is a split by itself is its only member."""
    alone = [p for p in CATALOGUE.values() if not p.images and p.has_latents(source.name)]
    if not alone or not source.is_file():
        yield from walk(source)
        return
    length = source.stat().st_size
    yield Member(source.name, length, lambda: read_plain(source, length))


def _decode(source: Path, writers: list[SplitWriter], wanted: Wanted) -> Iterator[Decoding]:
    """Read images in the source's order, decode them in threads; None for those not wanted."""
    by_folder = {writer.published.folder: writer for writer in writers}
    waiting: deque[Decoding] = deque()
    with ThreadPoolExecutor(THREADS) as pool:
        for member in _members(source):
            image = parse_image_name(member.name)
            if image is None or image.split not in by_folder:
                continue
            writer, future = by_folder[image.split], None
            row, shape = writer.published.row(image), writer.published.shape
            if wanted(writer, row):
                future = pool.submit(decode_png, member.read(), member.name, shape)
            waiting.append((writer, row, future))
            if len(waiting) > _WINDOW:
                yield waiting.popleft()
        yield from waiting
