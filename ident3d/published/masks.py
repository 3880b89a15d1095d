"""KITTI Masks: silhouettes of pedestrians in sequences, as one pickle, read without running it.

The file is a dict: `pedestrians`, a list of sequences of boolean 64 x 64 masks, and
`pedestrians_latents`, for each sequence and frame the vertical centre of mass, the horizontal one,
and the area, in pixels. A file of our own making says so under `made_by`.
"""

import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..dataset import Dataset
from ..errors import DataError
from ..factors import Factor, as_latents, to_unit
from ..files import Lock, file_digest, remove_partials, sha256, write_bytes
from ..outside import as_reals, parse_pickle
from .readers import SplitLatents, first_difference

FILE = "kitti_peds_v2.pickle"
SIDE = 64
MASK_FACTORS = (
    Factor("vertical", "position", "px", 0.0, SIDE - 1.0),
    Factor("horizontal", "position", "px", 0.0, SIDE - 1.0),
    Factor("area", "size", "px", 0.0, float(SIDE**2)),
)
MASKS, LATENTS, MADE_BY = "pedestrians", "pedestrians_latents", "made_by"
_MOST_FRAMES = 1_000_000  # the published file has fewer than a tenth of that
_TOLERANCE = 0.01  # px: latents are float32


def read_masks(folder: str, files: Mapping[str, bytes]) -> SplitLatents:
    """Read the sequences of a pickle; latents must be those of the masks they stand beside."""
    name = folder + FILE
    found = parse_pickle(files[FILE], name)
    keys = set(found) if isinstance(found, dict) else set()
    if not {MASKS, LATENTS} <= keys <= {MASKS, LATENTS, MADE_BY}:
        raise DataError(f"{name} must be a dict of `{MASKS}` and `{LATENTS}`.")
    sequences, beside = found[MASKS], found[LATENTS]
    made_by = found.get(MADE_BY)
    lists = isinstance(sequences, list) and isinstance(beside, list)
    if not lists or not sequences or len(sequences) != len(beside):
        raise DataError(f"{name} must hold as many sequences of latents as of masks.")
    if made_by is not None and not (isinstance(made_by, str) and made_by.isprintable()):
        raise DataError(f"{name}: `{MADE_BY}` must be a line of text.")
    lengths = [len(one) if isinstance(one, list | np.ndarray) else 0 for one in sequences]
    if min(lengths) < 1 or sum(lengths) > _MOST_FRAMES:
        raise DataError(f"{name} must hold 1 to {_MOST_FRAMES:,} frames, some in each sequence.")
    names = [f"{name}, sequence {number}" for number in range(len(lengths))]
    masks = np.concatenate(list(map(_masks, sequences, names)))
    stated = list(map(_latents, beside, names))
    if [len(one) for one in stated] != lengths:
        raise DataError(f"{name} has a sequence with more or fewer latents than masks.")
    latents = np.concatenate(stated)
    numbers = np.repeat(np.arange(len(lengths)), lengths)
    measured = measure(masks, name)
    if place := first_difference(latents, measured, _TOLERANCE):
        row, column = place
        raise DataError(
            f"{name} has latents that are not those of its masks: in sequence {numbers[row]} "
            f"{MASK_FACTORS[column].name} is {latents[row, column]:.6g}, the mask has "
            f"{measured[row, column]:.6g}."
        )
    unit = as_latents(to_unit(latents, MASK_FACTORS), MASK_FACTORS)
    return SplitLatents(unit, None, {}, masks, numbers, made_by)


def measure(masks: np.ndarray, name: str = "`masks`") -> np.ndarray:
    """Return vertical and horizontal centre of mass and area of masks (n, H, W), in pixels, (n, 3).

    Raises:
        DataError: A mask is empty and has no centre.
    """
    area = np.count_nonzero(masks, axis=(1, 2))
    if not area.all():
        raise DataError(f"{name}: frame {int((area == 0).argmax())} is empty; it has no centre.")
    rows, columns = (np.arange(length) for length in masks.shape[1:])
    vertical = np.count_nonzero(masks, axis=2) @ rows / area
    horizontal = np.count_nonzero(masks, axis=1) @ columns / area
    return np.stack([vertical, horizontal, area], axis=1)


def write_masks(path: Path, sequences: Sequence[np.ndarray], made_by: str | None = None) -> None:
    """Write sequences of masks, bool (T, 64, 64) each, as the published file is written.

    Their latents are measured. `made_by` says that the file is not the published one.
    """
    write_bytes(path, _packed(sequences, made_by))


def export_masks(data: Dataset, out: Path) -> Path:
    """Write a split of mask sequences back as the published file, which has room for one split."""
    if data.sequences is None or data.factors != MASK_FACTORS:
        raise ValueError(f"{data.path} holds no sequences of masks.")
    starts = np.flatnonzero(np.diff(data.sequences, prepend=-1))[1:]
    made_by = data.settings.get(MADE_BY)
    out.mkdir(parents=True, exist_ok=True)
    masks = data.images[:][..., 0] > 127
    packed = _packed(np.split(masks, starts), None if made_by is None else str(made_by))
    path = out / FILE
    with Lock(out / ".lock", wait=True):
        remove_partials(path)
        if not path.exists():
            write_bytes(path, packed)
        elif file_digest(path) != sha256(packed):
            raise DataError(f"{path} is there and holds other data; export to another folder.")
    return out


def _packed(sequences: Sequence[np.ndarray], made_by: str | None) -> bytes:
    record: dict[str, Any] = {
        MASKS: list(sequences),
        LATENTS: [measure(masks).astype(np.float32) for masks in sequences],
    }
    if made_by is not None:
        record[MADE_BY] = made_by
    return pickle.dumps(record, protocol=3)  # that of the Python it was made with


def _masks(sequence: Any, name: str) -> np.ndarray:
    """Return the masks of a sequence, an array or a list of arrays, as bool (T, 64, 64)."""
    frames = [sequence]
    if isinstance(sequence, list):
        frames = [frame[None] for frame in sequence if isinstance(frame, np.ndarray)]
    right = all(f.ndim == 3 and f.shape[1:] == (SIDE, SIDE) for f in frames)
    if not right or sum(map(len, frames)) != len(sequence):
        raise DataError(f"{name} must hold masks of {SIDE} x {SIDE} pixels.")
    masks = np.concatenate(frames)
    if masks.dtype.kind not in "bui" or not np.isin(masks, (0, 1)).all():
        raise DataError(f"{name} must hold masks of true and false, got {masks.dtype}.")
    return masks.astype(bool)


def _latents(sequence: Any, name: str) -> np.ndarray:
    try:
        latents = as_reals(sequence, "latents")
    except ValueError:  # rows of different lengths, or no numbers
        latents = np.empty(0)
    if latents.ndim != 2 or latents.shape[1] != len(MASK_FACTORS):
        raise DataError(f"{name} must have latents of shape (frames, {len(MASK_FACTORS)}).")
    return latents
