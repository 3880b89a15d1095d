"""Tensors with facts about them: one safetensors file, the facts as JSON in its header. No pickle.

A file is replaced atomically, so the one that is there is whole. A digest over all it holds finds
what a disk changes later.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from ident3d.errors import DataError
from ident3d.files import canonical_sha256, sha256, write_bytes
from ident3d.outside import open_plain, parse_json

FORMAT = 2  # 2 has the digest


def write_tensors(
    path: Path, kind: str, state: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> None:
    """Write tensors, and `state`, plain JSON, as a file of some kind."""
    kept = {key: t.detach().cpu().contiguous() for key, t in tensors.items()}
    header = {"format": FORMAT, "state": dict(state), "sha256": _digest(state, kept)}
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not `save_file`: its error on a full disk is no OSError, for which commands have a way out.
    write_bytes(path, save(kept, {_key(kind): json.dumps(header, allow_nan=False)}))


def read_tensors(path: Path, kind: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read the state and the tensors of a file of some kind."""
    if not path.exists():
        raise DataError(f"There is no {path}.")
    try:
        open_plain(path).close()
        with safe_open(path, framework="pt") as file:
            header = parse_json((file.metadata() or {})[_key(kind)])
            if header["format"] != FORMAT:
                raise ValueError(header["format"])
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        whole = header["sha256"] == _digest(header["state"], tensors)
    except (SafetensorError, OSError, KeyError, ValueError, TypeError, RuntimeError) as error:
        raise DataError(f"{path} is no {kind} of this version; delete it.") from error
    if not whole:
        raise DataError(f"{path} was damaged: its digest disagrees; delete it to start afresh.")
    return header["state"], tensors


def _key(kind: str) -> str:
    return f"ident3d-{kind}"


def _digest(state: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    parts = {
        key: [str(t.dtype), list(t.shape), sha256(t.reshape(-1).view(torch.uint8).numpy().data)]
        for key, t in tensors.items()
    }
    return canonical_sha256({"state": dict(state), "tensors": parts})
