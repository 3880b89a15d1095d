"""Checkpoints: one safetensors file whose header holds the rest as JSON. No pickle anywhere.

A checkpoint is replaced atomically, so the one that is there is whole. A digest over all it holds
finds what a disk changes later: a run never goes on from other weights than it stopped at.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from ident3d.errors import DataError
from ident3d.files import atomic, canonical_sha256, sha256
from ident3d.outside import parse_json

from .gradients import random_states, set_random_states

FORMAT = 2  # 2 has the digest
_HEADER = "ident3d-checkpoint"


def save(
    path: Path,
    modules: Mapping[str, nn.Module],
    optimizer: torch.optim.Optimizer,
    state: Mapping[str, Any],
) -> None:
    """Write everything that training needs to go on: weights, optimiser, generators, `state`.

    Args:
        path: The file; replaced atomically.
        modules: Named modules.
        optimizer: Its state must be tensors, as that of every optimiser in torch is.
        state: Further facts, plain JSON.
    """
    tensors = {f"random.{name}": value for name, value in random_states().items()}
    for name, module in modules.items():
        tensors |= {f"module.{name}.{key}": t for key, t in module.state_dict().items()}
    for index, entries in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{key}": t for key, t in entries.items()}
    tensors = {key: t.contiguous() for key, t in tensors.items()}
    header = {"format": FORMAT, "state": dict(state), "sha256": _digest(state, tensors)}
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic(path) as partial:
        save_file(tensors, partial, metadata={_HEADER: json.dumps(header, allow_nan=False)})


def restore(
    path: Path, modules: Mapping[str, nn.Module], optimizer: torch.optim.Optimizer
) -> dict[str, Any]:
    """Put a checkpoint back into modules, optimiser and generators; return its `state`."""
    state, tensors = _read(path)
    try:
        for name, module in modules.items():
            module.load_state_dict(_below(tensors, f"module.{name}."))
        _restore_optimizer(optimizer, _below(tensors, "optimizer."))
        set_random_states(_below(tensors, "random."))
    except (RuntimeError, KeyError, ValueError, TypeError) as error:
        raise DataError(f"{path} belongs to another model; delete it to start afresh.") from error
    return state


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    try:
        with safe_open(path, framework="pt") as file:
            header = parse_json((file.metadata() or {})[_HEADER])
            if header["format"] != FORMAT:
                raise ValueError(header["format"])
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        whole = header["sha256"] == _digest(header["state"], tensors)
    except (SafetensorError, OSError, KeyError, ValueError, TypeError, RuntimeError) as error:
        raise DataError(f"{path} is no checkpoint of this version; delete it.") from error
    if not whole:
        raise DataError(f"{path} was damaged: its digest disagrees; delete it to start afresh.")
    return header["state"], tensors


def _digest(state: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    parts = {
        key: [
            str(t.dtype),
            list(t.shape),
            sha256(t.cpu().reshape(-1).view(torch.uint8).numpy().data),
        ]
        for key, t in tensors.items()
    }
    return canonical_sha256({"state": dict(state), "tensors": parts})


def _below(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): t for k, t in tensors.items() if k.startswith(prefix)}


def _restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    entries: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        index, name = key.split(".", 1)
        entries.setdefault(int(index), {})[name] = tensor
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": entries, "param_groups": groups})
