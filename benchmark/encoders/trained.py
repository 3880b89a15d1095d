"""Trained encoders on disk: one file that is enough by itself.

    encoder = ident3d.benchmark.load_encoder("results/RUN.safetensors")     # ready, in eval mode

The header holds the run's settings and the shape of the sample that the encoder took its
statistics from; these say what the tensors must be. So a stranger's file is a list of numbers for
a network that we build: nothing in it is executed.
"""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ident3d.errors import DataError

from ..results.schema import shaped
from ..settings.run_settings import Model
from .backbones import make_encoder
from .tensor_files import read_tensors, write_tensors

MAX_BYTES = 600_000_000  # of a file that is read: a ResNet18 has 46 million
MAX_LAYERS = 64  # hidden layers
KIND = "encoder"


@dataclass(frozen=True)
class Trained:
    """An encoder, and what it takes to make it again."""

    encoder: nn.Module
    settings: dict[str, Any]  # of its run, as a record keeps them
    sample: tuple[int, ...]  # shape of what it took statistics from: (n, dim) or (n, 3, H, W)

    def save(self, path: Path) -> None:
        """Write it."""
        state = {"settings": self.settings, "sample": list(self.sample)}
        write_tensors(path, KIND, state, self.encoder.state_dict())


def load_encoder(path: str | Path) -> nn.Module:
    """Return the trained encoder of a run from its file, in eval mode, on the CPU."""
    return read_trained(Path(path)).encoder


def read_trained(path: Path) -> Trained:
    """Read a trained encoder; anything that its settings do not call for is refused."""
    if path.is_file() and path.stat().st_size > MAX_BYTES:
        raise DataError(f"{path} must have at most {MAX_BYTES:,} bytes to be read.")
    state, tensors = read_tensors(path, KIND)
    try:
        settings, sample = state["settings"], _shape(state["sample"])
        with torch.device("meta"):  # shapes alone: whatever a stranger asks for, it takes no memory
            encoder = make_encoder(_model(settings), torch.empty(sample), 1.0)
        wanted = {key: (t.shape, t.dtype) for key, t in encoder.state_dict().items()}
        if wanted != {key: (t.shape, t.dtype) for key, t in tensors.items()}:
            raise ValueError("its tensors are not those of its settings' model")
    except (KeyError, IndexError, TypeError, ValueError, RuntimeError, OverflowError) as error:
        detail = " ".join(str(error).split())[:200].rstrip(".")
        raise DataError(f"{path} holds no encoder that its settings describe: {detail}.") from error
    if not all(t.isfinite().all() for t in tensors.values()):
        raise DataError(f"{path} must hold finite weights alone; train it again.")
    encoder.to_empty(device="cpu").load_state_dict(tensors)  # in the layout that it was made with
    return Trained(encoder.eval(), settings, sample)


def _shape(stated: Any) -> tuple[int, ...]:
    """Return the shape of a sample, as every encoder takes one."""
    sample = shaped(stated, tuple[int, ...], "sample")
    if not (len(sample) == 2 or (len(sample) == 4 and sample[1] == 3)) or min(sample) < 1:
        raise ValueError(f"`sample` must be (n, dim) or (n, 3, H, W), got {sample[:8]}")
    return sample


def _model(settings: dict[str, Any]) -> Model:
    """Return the model that flat settings describe."""
    names = {its.metadata.get("flat", its.name): its.name for its in fields(Model)}
    found = {name: settings[flat] for flat, name in names.items() if flat in settings}
    model = shaped(found, Model, "settings")
    if model.dim < 1 or len(model.widths or ()) > MAX_LAYERS or min(model.widths or (1,)) < 1:
        raise ValueError("`dim` and `widths` must be those of a network")
    return model
