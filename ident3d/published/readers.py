"""Latents as published: numpy files and one CSV, checked and brought to unit latents."""

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..errors import DataError
from ..factors import FACTORS, as_latents, to_scene
from ..outside import parse_npy

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


@dataclass(frozen=True)
class SplitLatents:
    """The latents of one split; rows run through its folders of images, one after the other."""

    latents: np.ndarray  # unit latents, float32 (n, d)
    classes: np.ndarray | None  # (n,)
    images: dict[str, int]  # folder of images -> how many it must hold
    masks: np.ndarray | None = None  # bool (n, H, W), where the images stand beside the latents
    sequences: np.ndarray | None = None  # (n,), where rows are frames
    made_by: str | None = None  # where it is not what was published


def read_raw_latents(folder: str, files: Mapping[str, bytes]) -> SplitLatents:
    """Read raw_latents.npy."""
    latents = _read_npy_latents(folder, files, "")
    return SplitLatents(latents, None, {"images": len(latents)})


def read_class_latents(folder: str, files: Mapping[str, bytes]) -> SplitLatents:
    """Read raw_latents_0.npy and so on, one for each class."""
    labels = [label for label in range(10) if f"raw_latents_{label}.npy" in files]
    parts = [_read_npy_latents(folder, files, f"_{label}") for label in labels]
    sizes = [len(part) for part in parts]
    images = {f"images_{label}": size for label, size in zip(labels, sizes, strict=True)}
    return SplitLatents(np.concatenate(parts), np.repeat(labels, sizes), images)


def read_csv_latents(folder: str, files: Mapping[str, bytes]) -> SplitLatents:
    """Read latents_image.csv by column names."""
    name = f"{folder}latents_image.csv"
    columns = [_SHAPE, *(column for column, _, _ in _MULTIMODAL.values())]
    table = _read_csv(files["latents_image.csv"], name, columns)
    values = [scale * table[column] + shift for column, scale, shift in _MULTIMODAL.values()]
    shapes = table[_SHAPE]
    if not np.isin(shapes, range(10)).all():
        raise DataError(f"{name}: `{_SHAPE}` must be a class number, got {shapes.max():g}.")
    latents = _unit(np.stack(values, axis=1), name)
    return SplitLatents(latents, shapes.astype(np.int64), {"images": len(latents)})


def _read_npy_latents(folder: str, files: Mapping[str, bytes], suffix: str) -> np.ndarray:
    """Read the unit latents of one file; those in scene units, if there, must agree with them."""
    name, scene_name = f"raw_latents{suffix}.npy", f"latents{suffix}.npy"
    latents = _unit(_read_npy(files[name], folder + name), folder + name)
    if scene_name not in files:
        return latents
    scene, expected = _read_npy(files[scene_name], folder + scene_name), to_scene(latents)
    if scene.shape != expected.shape:
        raise DataError(f"{folder}{scene_name} has shape {scene.shape}, {name} {expected.shape}.")
    if place := first_difference(scene, expected, 1e-4):
        row, column = place
        raise DataError(
            f"{folder}{scene_name} disagrees with {name}: row {row} has "
            f"{FACTORS[column].name} {scene[row, column]:.4g}, "
            f"raw {latents[row, column]:.4g} means {expected[row, column]:.4g}; "
            f"unpack and remove {scene_name} to import the raw latents alone."
        )
    return latents


def first_difference(one: np.ndarray, two: np.ndarray, tolerance: float) -> list[int]:
    """Return row and column of the first numbers that differ, empty if none do; NaN differs."""
    places = np.argwhere(~(np.abs(one - two) < tolerance))
    return places[0].tolist() if len(places) else []


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
    """Read a matrix of floats."""
    values = parse_npy(data, name)
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
