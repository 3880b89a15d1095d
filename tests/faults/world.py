"""One small specimen of every kind of file, made by the real writers; injectors damage copies."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from ident3d.benchmark.results import Result
from ident3d.benchmark.results.entries import pack
from ident3d.benchmark.results.records import image_fields
from ident3d.benchmark.training import checkpoints

from ident3d.dataset import load
from ident3d.exchange import export_webdataset
from ident3d.index import Index
from tests.support.helpers import make_dataset
from tests.support.published_sets import three_d_ident, write_folder, write_tar

ROWS = 60


@dataclass(frozen=True)
class World:
    """Where the specimens are. They are read and copied, never written to."""

    root: Path
    data: Path  # a data set with one split, pairs and an index
    zipped: Path  # one with compressed shards
    record: Path  # a result, its embeddings beside it
    entry: Path
    checkpoint: Path
    published: Path  # a folder as 3DIdent was published
    tar: Path
    gzip: Path
    exported: Path  # tars for webdataset

    def copy(self, what: str, folder: Path) -> Path:
        """Copy one specimen, by its name here, into an empty folder."""
        source: Path = getattr(self, what)
        target = folder / source.name
        if source.is_dir():
            return Path(shutil.copytree(source, target))
        if what == "record":
            shutil.copy(source.with_suffix(".npy"), target.with_suffix(".npy"))
        return Path(shutil.copy(source, target))


def build(root: Path) -> World:
    """Make every specimen below `root`."""
    data = make_dataset(root / "data", ROWS, 40, size=4, pairs="normal:0.3")
    Index.build(data.latents).save(data.path, data.fingerprint)
    make_dataset(root / "zipped", 20, 10, size=4, compress=True)
    rng = np.random.default_rng(0)
    embeddings = (data.latents @ rng.normal(size=(10, 10))).astype(np.float32)
    result = Result(
        method="mine", experiment="table4/1", tier="open", seed=0,
        **image_fields(load(data.path), embeddings, "held-out", names=("r2", "mcc")),
    )  # fmt: skip
    record = result.save(root / "results", embeddings)
    checkpoint = root / "checkpoint.safetensors"
    save_checkpoint(checkpoint)
    published = three_d_ident(rows=12)
    return World(
        root,
        root / "data",
        root / "zipped",
        record,
        pack([record], root / "entry"),
        checkpoint,
        write_folder(root / "published", published),
        write_tar(root / "set.tar", published),
        write_tar(root / "set.tar.gz", published),
        export_webdataset(data.path, root / "exported"),
    )


def training() -> tuple[dict[str, torch.nn.Module], torch.optim.Optimizer]:
    """A module and its optimiser, after one step."""
    torch.manual_seed(0)
    module = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(module.parameters())
    module(torch.ones(4, 3)).sum().backward()
    optimizer.step()
    return {"encoder": module}, optimizer


def save_checkpoint(path: Path) -> None:
    checkpoints.save(path, *training(), {"step": 1, "losses": [0.5, 0.25]})
