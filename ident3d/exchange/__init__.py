"""Data sets in other people's formats, there and back: Parquet for the Hub, tars for webdataset."""

from .reading import import_exchanged, is_exchanged
from .writing import export_parquet, export_webdataset

__all__ = ["export_parquet", "export_webdataset", "import_exchanged", "is_exchanged"]
