"""Every writer of data as a pair: make it in a folder, again and again; tell what was made.

`make` may be stopped anywhere and called again. `made` gives what must be the same in the end.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from ident3d.render.build import Build
from ident3d.render.plan import begin, declare
from ident3d.render.presets import quality
from ident3d.render.spec import Spec

from ident3d.dataset import load
from ident3d.exchange import export_webdataset, import_exchanged
from ident3d.files import write_json
from ident3d.index import Index
from ident3d.published import export_published, import_published
from ident3d.shards.verify import problems
from tests.support.helpers import make_dataset
from tests.support.published_sets import three_d_ident, write_folder

LEGACY = Path(__file__).parents[1] / "support" / "legacy"
_RECORD = "table4-1_infonce_tiny_clean_s0_d0ab3dc0"
SIZE, SHARD = 2, 2
SPEC = Spec(quality("draft", 8), resolution=8, pairs="normal:0.2")


class Still:
    """A tracker that tells nobody."""

    def advance(self, count=1):
        pass


class Painter:
    """Workers without Blender: an image that its latents alone decide."""

    def __init__(self, spec=SPEC, before=lambda image: None):
        self.count, self._size, self._before = 0, spec.resolution, before

    def run(self, tasks):
        for task in tasks:
            self.count += 1
            self._before(self.count)
            yield task, painting(task.latents, self._size)


def painting(latents, size=8):
    """An image of ten bytes that tell the latents, over and over."""
    told = (np.asarray(latents) * 127 + 128).astype(np.uint8)
    return np.resize(told, (size, size, 3))


def render(root, spec=SPEC, size=SIZE, shard_size=SHARD, command="c", pool=None):
    """Render as the command does, with painted images."""
    plan = begin(root, spec, size, shard_size, command)
    Build(plan, pool or Painter(spec), Still()).run(plan.tasks())
    return declare(plan)


def digests(folder, pattern="**/*"):
    """Every file below a folder by its bytes; what is hidden is nobody's."""
    found = sorted(path for path in folder.glob(pattern) if path.is_file())
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in found
        if not any(part.startswith(".") for part in path.relative_to(folder).parts)
    }


def whole(path):
    """The files of a data set that is whole."""
    data = load(path)
    assert list(problems(data)) == []
    return data.fingerprint, digests(data.path, "*.h5")


@dataclass
class Writer:
    """One writer of data."""

    make: object  # (folder, source) -> None
    made: object  # (folder) -> what must be equal
    source: object = lambda folder: None  # (folder) -> made once, before


def _index(folder):
    data = make_dataset(folder / "data", rows=30, shard_size=30)
    return Index.build(data.latents), data.fingerprint


def _pack(folder, _):
    from ident3d.benchmark.results.entries import pack

    if not (folder / "entry").exists():
        pack([LEGACY / f"results/{_RECORD}.json"], folder / "entry")


def _write_tensors(folder, _):
    import torch
    from ident3d.benchmark.encoders.tensor_files import write_tensors

    write_tensors(_folder(folder) / "a.safetensors", "encoder", {"a": 1}, {"w": torch.ones(5000)})


def _folder(folder):
    folder.mkdir(parents=True, exist_ok=True)
    return folder


WRITERS = {
    "shards": Writer(
        lambda folder, _: make_dataset(folder, rows=3, shard_size=2), lambda folder: whole(folder)
    ),
    "compressed shards with classes": Writer(
        lambda folder, _: make_dataset(folder, rows=3, shard_size=3, compress=True, classes=2),
        lambda folder: whole(folder),
    ),
    "a render with pairs": Writer(lambda folder, _: render(folder), lambda folder: whole(folder)),
    "an import": Writer(
        lambda folder, source: import_published(source, folder, shard_rows=2),
        lambda folder: whole(folder),
        lambda folder: write_folder(folder / "raw", three_d_ident(3)),
    ),
    "an export in the published layout": Writer(
        lambda folder, data: export_published(data.path, folder),
        digests,
        lambda folder: make_dataset(folder / "data", rows=4),
    ),
    "an export for webdataset": Writer(
        lambda folder, data: export_webdataset(data.path, folder),
        digests,
        lambda folder: make_dataset(folder / "data", rows=4),
    ),
    "an import from webdataset": Writer(
        lambda folder, source: import_exchanged(source, folder),
        lambda folder: whole(folder),
        lambda folder: export_webdataset(
            make_dataset(folder / "data", rows=2, pairs="normal:0.1").path, folder / "tars"
        ),
    ),
    "an index": Writer(
        lambda folder, built: built[0].save(_folder(folder), built[1]),
        digests,
        _index,  # FAISS does not survive a fork
    ),
    "an entry": Writer(_pack, digests),
    "tensors": Writer(_write_tensors, digests),
    "a JSON file": Writer(
        lambda folder, _: write_json(_folder(folder) / "a.json", {"a": 1}), digests
    ),
}
