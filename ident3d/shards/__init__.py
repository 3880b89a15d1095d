"""Shards: the HDF5 files of a data set, written so that no kill loses an image."""

from .hdf5_output import image_layout as image_layout
from .manifest import MANIFEST as MANIFEST
from .manifest import Description as Description
from .manifest import check_split_name as check_split_name
from .manifest import read_manifest as read_manifest
from .manifest import shard_name as shard_name
from .manifest import write_manifest as write_manifest
from .writer import ShardWriter as ShardWriter
