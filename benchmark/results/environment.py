"""Where a run ran: the machine, the versions and the commit. No names of users or hosts."""

import importlib.metadata
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any


def environment() -> dict[str, Any]:
    """Describe this machine: versions, processor, GPU. No names of users or hosts."""
    versions: dict[str, str | None] = {}
    for package in ("ident3d", "numpy", "torch", "torchvision", "faiss-cpu", "scikit-learn"):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    torch = sys.modules.get("torch")  # never imported for this
    gpu = torch.cuda.get_device_name() if torch and torch.cuda.is_available() else None
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "gpu": gpu,
        "packages": versions,
    }


def commit() -> str | None:
    """Name the commit of the code that runs, `-dirty` if changed; None outside a clone.

    A package may be installed inside somebody's own repository, whose commit says nothing of it.
    """
    if not _git("ls-files", "--error-unmatch", "--", Path(__file__).name):
        return None
    return _git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")


def _git(*words: str) -> str | None:
    """Return what git says of the folder of this file; None if it refuses, or there is none."""
    command = ["git", "-C", str(Path(__file__).resolve().parent), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
