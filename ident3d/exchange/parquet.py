"""Rows in Parquet files, as `datasets.load_dataset` and the Hub read them."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..dataset import Dataset
from ..errors import DataError
from .layout import Row

_GROUP = 128  # rows read or written at a time: the Hub shows a page of them without more


def write_parquet(path: Path, data: Dataset, rows: Sequence[Row]) -> None:
    """Write one file, with the features that tell Hugging Face which columns are images."""
    arrow, parquet = _pyarrow()
    features = _features(data)
    schema = _schema(arrow, data).with_metadata(
        {"huggingface": json.dumps({"info": {"features": features}})}
    )
    with parquet.ParquetWriter(path, schema, compression="none") as writer:  # PNG is compressed
        for start in range(0, len(rows), _GROUP):
            group = rows[start : start + _GROUP]
            columns = {name: [_COLUMNS[name](row) for row in group] for name in features}
            writer.write_table(arrow.table(columns, schema=schema))


def read_parquet(path: Path, images: bool = True) -> Iterator[Row]:
    """Read the rows of a file in their order; `images` or none of their bytes."""
    arrow, parquet = _pyarrow()
    try:
        with parquet.ParquetFile(path) as file:
            known = [name for name in file.schema_arrow.names if name in _COLUMNS]
            wanted = [name for name in known if images or name not in ("image", "positive")]
            for batch in file.iter_batches(_GROUP, columns=wanted):
                for record in batch.to_pylist():
                    yield _row(record)
    except (arrow.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path} is damaged or not of ident3d's form ({error}).") from None


_COLUMNS = {
    "row": lambda row: row.row,
    "image": lambda row: {"bytes": row.image, "path": None},
    "latents": lambda row: row.latents.tolist(),
    "class": lambda row: row.label,
    "positive": lambda row: {"bytes": row.positive, "path": None},
    "positive_latents": lambda row: row.positive_latents.tolist(),
}


def _row(record: dict[str, Any]) -> Row:
    positive = record.get("positive_latents")
    return Row(
        record["row"],
        np.asarray(record["latents"], np.float32),
        record["image"]["bytes"] if "image" in record else b"",
        record.get("class"),
        None if positive is None else np.asarray(positive, np.float32),
        record["positive"]["bytes"] if "positive" in record else None,
    )


def _features(data: Dataset) -> dict[str, Any]:
    """Name the columns and their types in Hugging Face's words."""
    number = {"dtype": "float32", "_type": "Value"}
    latents = {"feature": number, "length": len(data.factors), "_type": "Sequence"}
    features: dict[str, Any] = {
        "row": {"dtype": "int64", "_type": "Value"},
        "image": {"_type": "Image"},
        "latents": latents,
    }
    if data.class_names:
        features["class"] = {"names": list(data.class_names), "_type": "ClassLabel"}
    if data.pairs is not None:
        features |= {"positive": {"_type": "Image"}, "positive_latents": latents}
    return features


def _schema(arrow: Any, data: Dataset) -> Any:
    types = {
        "row": arrow.int64(),
        "image": arrow.struct({"bytes": arrow.binary(), "path": arrow.string()}),
        "latents": arrow.list_(arrow.float32(), len(data.factors)),
        "class": arrow.int64(),
    }
    types |= {"positive": types["image"], "positive_latents": types["latents"]}
    return arrow.schema([(name, types[name]) for name in _features(data)])


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise DataError(
            f"Parquet needs pyarrow ({error}): `pip install 'ident3d[hub]'`, beside Blender's "
            "numpy `pip install 'pyarrow<22'`; `--format webdataset` does without."
        ) from error
    return pyarrow, parquet
