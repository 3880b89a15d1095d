"""Published data sets: recognised by content, imported, downloaded, and written back.

Everything read here comes from outside: archives are walked and never unpacked, no name in them
becomes a path on this disk, and no pickle is loaded.
"""

from .downloading import download as download
from .exporting import export_published as export_published
from .importing import import_published as import_published
