"""Checkpoints: whole at any instant, and a run never goes on from other weights than it stopped at.

See `encoders/tensor_files.py`, which sees to both.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ident3d.errors import DataError

from ..encoders.tensor_files import read_tensors, write_tensors
from .gradients import random_states, set_random_states

KIND = "checkpoint"


def save(
    path: Path,
    modules: Mapping[str, nn.Module],
    optimizer: torch.optim.Optimizer,
    state: Mapping[str, Any],
) -> None:
    """Write everything that training needs to go on: weights, optimiser, generators, plain JSON.

    The optimiser's state must be tensors, as that of every one in torch is.
    """
    tensors = {f"random.{name}": value for name, value in random_states().items()}
    for name, module in modules.items():
        tensors |= {f"module.{name}.{key}": t for key, t in module.state_dict().items()}
    for index, entries in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{key}": t for key, t in entries.items()}
    write_tensors(path, KIND, state, tensors)


def restore(
    path: Path, modules: Mapping[str, nn.Module], optimizer: torch.optim.Optimizer
) -> dict[str, Any]:
    """Put a checkpoint back into modules, optimiser and generators; return its `state`."""
    state, tensors = read_tensors(path, KIND)
    try:
        for name, module in modules.items():
            module.load_state_dict(_below(tensors, f"module.{name}."))
        _restore_optimizer(optimizer, _below(tensors, "optimizer."))
        set_random_states(_below(tensors, "random."))
    except (RuntimeError, KeyError, ValueError, TypeError) as error:
        raise DataError(f"{path} belongs to another model; delete it to start afresh.") from error
    return state


def _below(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): t for k, t in tensors.items() if k.startswith(prefix)}


def _restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    entries: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        index, name = key.split(".", 1)
        entries.setdefault(int(index), {})[name] = tensor
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": entries, "param_groups": groups})
