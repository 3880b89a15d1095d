"""Writing a data set in the released layout, so that code written for the release reads it."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import starmap
from pathlib import Path

import numpy as np

from ..dataset import Dataset, load
from ..errors import DataError
from ..factors import FACTORS, to_scene
from ..files import Lock, publish, remove, remove_partials, write_json
from ..outside import read_json, read_npy, write_npy
from ..progress import progress
from .catalogue import CATALOGUE
from .masks import export_masks
from .png import THREADS, decode_png, write_png
from .survey import image_digits

_MARK = ".export.json"  # names the data while an export is unfinished
_BATCH = 1024  # images handed to the threads at a time, so that an interrupt is heard soon


def export_published(path: str | os.PathLike, out: str | os.PathLike) -> Path:
    """Write one split as PNG files and numpy arrays; run it again after a kill, and it goes on.

    Without classes the layout is 3DIdent's, with classes Causal3DIdent's; sequences of masks
    become the one file of KITTI Masks. The latents are written
    last: a folder without them is unfinished. Rendered positives have no place in the layout.

    Returns:
        The folder to give to the released code.
    """
    data = load(path)
    if data.sequences is not None:
        return export_masks(data, Path(out))
    _check_factors(data)
    layout = CATALOGUE["3dident" if data.classes is None else "causal3dident"]
    folder = Path(out) / layout.splits.get(data.split, data.split)
    parts = _rows_by_class(data)
    if _is_exported(folder, data, parts):
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    beside = folder.with_name(f".{folder.name}.lock")
    with Lock(beside, wait=True):  # who comes second finds the work done
        try:
            if not _is_exported(folder, data, parts):
                _claim(folder, data, parts)
                _write(data, parts, folder)
        finally:
            remove(beside)
    return folder


def _rows_by_class(data: Dataset) -> dict[str, np.ndarray]:
    """Split the rows as the layout does: its names end in the class, where there are classes."""
    if data.classes is None:
        return {"": np.arange(len(data))}
    labels = np.unique(data.classes).tolist()
    return {f"_{label}": np.flatnonzero(data.classes == label) for label in labels}


def _write(data: Dataset, parts: dict[str, np.ndarray], folder: Path) -> None:
    with progress(len(data), "exporting", unit="image") as bar:
        for suffix, rows in parts.items():
            (folder / f"images{suffix}").mkdir(exist_ok=True)
            for _ in _written(data, rows, folder / f"images{suffix}"):
                bar.update()
    for suffix, rows in parts.items():
        for path, values in _latents(folder, data, suffix, rows).items():
            remove_partials(path)
            write_npy(path, values)
    remove(folder / _MARK)


def _latents(folder: Path, data: Dataset, suffix: str, rows: np.ndarray) -> dict[Path, np.ndarray]:
    """Give what the two files of latents hold."""
    raw = data.latents[rows]
    scene = to_scene(raw, data.factors).astype(np.float32)
    return {folder / f"latents{suffix}.npy": scene, folder / f"raw_latents{suffix}.npy": raw}


def _check_factors(data: Dataset) -> None:
    if len(data.factors) != len(FACTORS):
        raise ValueError(f"{data.path} has {len(data.factors)} factors, the layout 10.")
    for factor, published in zip(data.factors, FACTORS, strict=True):
        if factor != published:
            raise ValueError(
                f"{data.path} has {factor.name} in [{factor.low:.3g}, {factor.high:.3g}], the "
                f"published layout means {published.name} in "
                f"[{published.low:.3g}, {published.high:.3g}]; it cannot be exported."
            )


def _is_exported(folder: Path, data: Dataset, parts: dict[str, np.ndarray]) -> bool:
    """Tell whether a folder holds the data, and none of its files is gone."""
    if (folder / _MARK).exists() or not _is_ours(folder, data, parts):
        return False
    return all(
        all(starmap(_holds_latents, _latents(folder, data, suffix, rows).items()))
        and all(path.exists() for path in _images(folder / f"images{suffix}", len(rows)))
        for suffix, rows in parts.items()
    )


def _is_ours(folder: Path, data: Dataset, parts: dict[str, np.ndarray]) -> bool:
    """Tell whether a folder holds the data's latents and, where there are images, its images.

    Of the two files of latents one may be damaged or gone, of the images some.
    """
    return all(
        any(starmap(_holds_latents, _latents(folder, data, suffix, rows).items()))
        and _holds_ends(folder / f"images{suffix}", data, rows)
        for suffix, rows in parts.items()
    )


def _holds_latents(path: Path, latents: np.ndarray) -> bool:
    try:
        return path.exists() and np.array_equal(read_npy(path), latents)
    except DataError:  # whatever it is, no export wrote it
        return False


def _holds_ends(folder: Path, data: Dataset, rows: np.ndarray) -> bool:
    """Compare the first and last image there: renders of other settings have the same latents."""
    paths, numbers = _images(folder, len(rows)), range(len(rows))
    ends = (next((n for n in way if paths[n].exists()), None) for way in (numbers, numbers[::-1]))
    return all(
        end is None or _holds(paths[end], data.images[int(rows[end])], data.resolution)
        for end in ends
    )


def _images(folder: Path, count: int) -> list[Path]:
    """Name the images of a folder as the released code does."""
    digits = image_digits(count)
    return [folder / f"{number:0{digits}d}.png" for number in range(count)]


def _claim(folder: Path, data: Dataset, parts: dict[str, np.ndarray]) -> None:
    """Mark the folder as this data's before the first image; refuse one that holds other data."""
    mark = folder / _MARK
    mine = {"fingerprint": data.fingerprint}
    if mark.exists():
        found = None
        with suppress(DataError):  # damaged: nothing tells whose it is
            found = read_json(mark)
        if found != mine:
            raise DataError(f"{folder} has an unfinished export of other data; remove it first.")
        return
    if not _is_ours(folder, data, parts) and any(p.name[0] != "." for p in folder.iterdir()):
        raise DataError(f"{folder} is there and not empty; export to another folder.")
    write_json(mark, mine)


def _holds(path: Path, pixels: np.ndarray, shape: tuple[int, int, int]) -> bool:
    """Tell whether an image of an earlier run is whole and the right one."""
    try:
        return np.array_equal(decode_png(path.read_bytes(), path.name, shape), pixels)
    except DataError:
        return False


def _written(data: Dataset, rows: np.ndarray, folder: Path) -> Iterator[None]:
    """Write the images of one folder that are not there yet, in threads."""
    paths = _images(folder, len(rows))

    def write(number: int) -> None:
        path, pixels = paths[number], data.images[int(rows[number])]
        if not (path.exists() and _holds(path, pixels, data.resolution)):
            partial = path.with_suffix(".partial")
            write_png(pixels, partial)
            publish(partial, path)

    with ThreadPoolExecutor(THREADS) as pool:
        for start in range(0, len(rows), _BATCH):
            for _ in pool.map(write, range(start, min(start + _BATCH, len(rows)))):
                yield
