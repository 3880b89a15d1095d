"""Latents as published: numpy files and one CSV, checked and brought to unit latents."""

import csv
import io
from collections.abc import Mapping

import numpy as np

from ..errors import DataError
from ..factors import FACTORS, as_latents, to_scene

ALL_CLASSES = -1  # one images folder for all classes, or no classes
_ROUNDING = 1e-6  # a float32 at the edge of the box may lie this far outside

# Where each unit latent comes from: column of latents_image.csv, and unit = scale * value + shift.
# The generator puts `object_ypos` on Blender's x axis and `object_xpos` on its y axis.
_MULTIMODAL = {
    "x": ("object_ypos", 1, -1),
    "y": ("object_xpos", 1, -1),
    "z": ("object_zpos", 1 / 3, 0),
    "alpha": ("object_alpharot", 2, -1),
    "beta": ("object_betarot", 2, -1),
    "gamma": ("object_gammarot", 2, -1),
    "spotlight_angle": ("spotlight_pos", 2, -1),
    "object_hue": ("object_color", 2, -1),
    "spotlight_hue": ("spotlight_color", 2, -1),
    "background_hue": ("background_color", 2, -1),
}
_SHAPE = "object_shape"


def read_unit(folder: str, files: Mapping[str, bytes], suffix: str) -> np.ndarray:
    """Read raw_latents.npy (or raw_latents_3.npy); latents.npy, if there, must agree with it."""
    name = f"raw_latents{suffix}.npy"
    latents = _unit(_read_npy(files[name], folder + name), folder + name)
    scene_name = f"latents{suffix}.npy"
    if scene_name in files:
        scene = _read_npy(files[scene_name], folder + scene_name)
        if scene.shape != latents.shape:
            raise DataError(
                f"{folder}{scene_name} has shape {scene.shape}, {name} {latents.shape}."
            )
        differs = ~(np.abs(scene - to_scene(latents)) < 1e-4)  # NaN differs too
        if differs.any():
            row, column = np.argwhere(differs)[0]
            raise DataError(
                f"{folder}{scene_name} disagrees with {name}: row {row} has "
                f"{FACTORS[column].name} {scene[row, column]:.4g}, "
                f"raw {latents[row, column]:.4g} means {to_scene(latents)[row, column]:.4g}; "
                f"unpack and remove {scene_name} to import the raw latents alone."
            )
    return latents


def read_multimodal(folder: str, data: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Read latents_image.csv by column names: unit latents (n, 10) and classes (n,)."""
    name = f"{folder}latents_image.csv"
    table = _read_csv(data, name, [_SHAPE, *(column for column, _, _ in _MULTIMODAL.values())])
    values = [scale * table[column] + shift for column, scale, shift in _MULTIMODAL.values()]
    shapes = table[_SHAPE]
    if not np.isin(shapes, range(10)).all():
        raise DataError(f"{name}: `{_SHAPE}` must be a class number, got {shapes.max():g}.")
    return _unit(np.stack(values, axis=1), name), shapes.astype(np.int64)


def _unit(latents: np.ndarray, name: str) -> np.ndarray:
    if latents.shape[1:] == (11,):
        raise DataError(
            f"{name} has 11 columns: the periodic variant (3 positions, a unit vector in R^8) "
            "is not supported; import the released 10-column data."
        )
    edge = (np.abs(latents) > 1) & (np.abs(latents) <= 1 + _ROUNDING)
    try:
        return as_latents(np.where(edge, np.sign(latents), latents))
    except ValueError as error:
        raise DataError(f"{name}: {error}") from None


def _read_npy(data: bytes, name: str) -> np.ndarray:
    """Read a numpy array of floats; an array of Python objects would be a pickle, so it is not."""
    try:
        values = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
    except (ValueError, MemoryError, OverflowError, TypeError, EOFError):
        raise DataError(f"{name} is damaged, or not an array of numbers.") from None
    if values.dtype.kind != "f" or values.ndim != 2 or len(values) == 0:
        raise DataError(
            f"{name} must hold floats of shape (n, 10), got {values.dtype} {values.shape}."
        )
    return values


def _read_csv(data: bytes, name: str, columns: list[str]) -> dict[str, np.ndarray]:
    try:
        rows = csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""))
        header = next(rows, [])
        if lacking := [column for column in columns if header.count(column) != 1]:
            raise DataError(
                f"{name} must have one column `{lacking[0]}`, got {', '.join(header)[:200]}."
            )
        picked = [header.index(column) for column in columns]
        values = np.array([[float(row[column]) for column in picked] for row in rows if row])
    except (UnicodeDecodeError, csv.Error):
        raise DataError(f"{name} is damaged, or not a CSV file.") from None
    except (ValueError, IndexError) as error:
        raise DataError(f"{name} holds a row that is not all numbers ({error}).") from None
    if len(values) == 0:
        raise DataError(f"{name} has no rows.")
    return dict(zip(columns, values.T, strict=True))
