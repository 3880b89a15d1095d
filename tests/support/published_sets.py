"""The published data sets, small and in their exact published form, rows painted into images."""

import csv
import gzip
import io
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from ident3d.factors import to_scene
from ident3d.published.catalogue import CATALOGUE
from tests.support.helpers import painted

MULTIMODAL_COLUMNS = [
    *("object_shape", "object_xpos", "object_ypos", "object_zpos"),
    *("object_alpharot", "object_betarot", "object_gammarot", "object_color"),
    *("spotlight_pos", "spotlight_color", "background_color"),
]


def call_released(monkeypatch, name: str, rows: int, side: int = 8) -> None:
    """Let a small set count as the released one, which is told by its size."""
    small = replace(CATALOGUE[name], rows=(rows,), side=side)
    monkeypatch.setitem(CATALOGUE, name, small)


def png(image: np.ndarray) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(image).save(stream, "PNG")
    return stream.getvalue()


def npy(values: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, values)
    return stream.getvalue()


def image_files(folder: str, rows: range) -> dict[str, bytes]:
    """Images numbered from 0, each painted with its row in the imported data set."""
    digits = int(np.ceil(np.log10(len(rows))))
    return {
        f"{folder}/{number:0{digits}d}.png": png(painted(row)) for number, row in enumerate(rows)
    }


def latents(rows: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (rows, 10)).astype(np.float32)


def three_d_ident(rows: int = 12, split: str = "train") -> dict[str, bytes]:
    root, raw = f"3dident/{split}", latents(rows)
    return image_files(f"{root}/images", range(rows)) | {
        f"{root}/latents.npy": npy(to_scene(raw).astype(np.float32)),
        f"{root}/raw_latents.npy": npy(raw),
    }


def causal(rows: int = 11, split: str = "trainset") -> dict[str, bytes]:
    files = {}
    for kind in range(7):
        raw = latents(rows, seed=kind)
        files |= image_files(f"{split}/images_{kind}", range(kind * rows, (kind + 1) * rows))
        files[f"{split}/raw_latents_{kind}.npy"] = npy(raw)
        files[f"{split}/latents_{kind}.npy"] = npy(to_scene(raw).astype(np.float32))
    return files


def multimodal_table(rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    table = {name: rng.uniform(0, 1, rows) for name in MULTIMODAL_COLUMNS}
    table["object_shape"] = rng.integers(0, 7, rows)
    table["object_xpos"], table["object_ypos"] = rng.integers(0, 3, (2, rows))
    return table | {"object_zpos": np.zeros(rows)}


def table_csv(table: dict[str, np.ndarray]) -> bytes:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(table)
    writer.writerows(zip(*(column.tolist() for column in table.values()), strict=True))
    return stream.getvalue().encode()


def multimodal(rows: int = 13) -> dict[str, bytes]:
    files = {}
    for split in ("train", "val", "test"):
        root = f"m3di/{split}"
        files |= image_files(f"{root}/images", range(rows))
        files[f"{root}/latents_image.csv"] = table_csv(multimodal_table(rows))
        files[f"{root}/latents_text.csv"] = b"object_shape,text_phrasing\n" + b"0,1\n" * rows
        files[f"{root}/text/text_raw.txt"] = b"A teapot.\n" * rows
    return files


def write_folder(root: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return root


def tar_bytes(files: dict[str, bytes], order_seed: int | None = None, **options) -> bytes:
    """Pack files; `order_seed` shuffles them, as an unsorted directory would."""
    names = list(files)
    if order_seed is not None:
        np.random.default_rng(order_seed).shuffle(names)
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", **options) as tar:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = len(files[name])
            tar.addfile(info, io.BytesIO(files[name]))
    return stream.getvalue()


def write_tar(path: Path, files: dict[str, bytes], **options) -> Path:
    """Write a .tar, or a .tar.gz by its name."""
    data = tar_bytes(files, **options)
    path.write_bytes(gzip.compress(data) if path.name.endswith(".gz") else data)
    return path
