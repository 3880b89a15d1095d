"""Rows in tar files, as webdataset reads them.

000000007.png  .latents.npy  .json {"row": 7, "class": 2}  .positive.png  .positive.latents.npy
"""

import io
import json
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ..dataset import Dataset
from ..errors import DataError
from ..outside import parse_json, parse_npy
from ..published.archive import walk
from .layout import Row


def write_tar(path: Path, data: Dataset, rows: Sequence[Row]) -> None:
    """Write one file; equal rows give equal bytes."""
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for row in rows:
            for ending, content in _parts(row).items():
                info = tarfile.TarInfo(f"{row.row:09d}.{ending}")
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))


def read_tar(path: Path, images: bool = True) -> Iterator[Row]:
    """Read the rows of a file in their order; `images` or none of their bytes."""
    key, parts = "", dict[str, bytes]()
    for member in walk(path):
        name, _, ending = member.name.rpartition("/")[2].partition(".")
        if name != key and parts:
            yield _row(path, key, parts)
            parts = {}
        key = name
        parts[ending] = member.read() if images or not ending.endswith("png") else b""
    if parts:
        yield _row(path, key, parts)


def _parts(row: Row) -> dict[str, bytes]:
    about = {"row": row.row} | ({} if row.label is None else {"class": row.label})
    parts = {
        "png": row.image,
        "latents.npy": _npy(row.latents),
        "json": json.dumps(about).encode(),
    }
    if row.positive is not None and row.positive_latents is not None:
        parts |= {
            "positive.png": row.positive,
            "positive.latents.npy": _npy(row.positive_latents),
        }
    return parts


def _row(path: Path, key: str, parts: dict[str, bytes]) -> Row:
    try:
        about = parse_json(parts["json"])
        positive = parts.get("positive.latents.npy")
        return Row(
            about["row"],
            parse_npy(parts["latents.npy"], "latents.npy"),
            parts["png"],
            about.get("class"),
            None if positive is None else parse_npy(positive, "positive.latents.npy"),
            parts.get("positive.png"),
        )
    except (ValueError, KeyError, TypeError, AttributeError, DataError) as error:
        raise DataError(f"{path} holds a row {key!r} not of ident3d's form ({error!r}).") from None


def _npy(values: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, values, allow_pickle=False)
    return stream.getvalue()
