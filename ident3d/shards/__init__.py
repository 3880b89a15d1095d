"""Shards: the HDF5 files of a data set, written so that no kill loses an image."""

from .writer import (
    FORMAT,
    FORMAT_VERSION,
    Description,
    ShardBusy,
    ShardWriter,
    file_entry,
    file_sha256,
    locked_folder,
    shard_name,
    write_json,
)

__all__ = [
    "FORMAT",
    "FORMAT_VERSION",
    "Description",
    "ShardBusy",
    "ShardWriter",
    "file_entry",
    "file_sha256",
    "locked_folder",
    "shard_name",
    "write_json",
]
