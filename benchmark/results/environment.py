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
    """Name the commit of the code that runs, `-dirty` if changed; None outside a clone."""
    here = Path(__file__).resolve().parent
    command = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        done = subprocess.run([*command, "--exclude=*"], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
