"""Shards: the HDF5 files of a data set, written so that no kill loses an image."""

from .manifest import (
    FORMAT,
    FORMAT_VERSION,
    MANIFEST,
    Description,
    check_split_name,
    file_entry,
    read_manifest,
    shard_name,
    write_manifest,
)
from .reader import Images, image_shape, open_shard
from .writer import ShardWriter, image_layout

__all__ = [
    "FORMAT",
    "FORMAT_VERSION",
    "MANIFEST",
    "Description",
    "Images",
    "ShardWriter",
    "check_split_name",
    "file_entry",
    "image_layout",
    "image_shape",
    "open_shard",
    "read_manifest",
    "shard_name",
    "write_manifest",
]
