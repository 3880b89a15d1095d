"""`ident3d doctor`.

Each check imports its libraries in a process of its own: Blender and CUDA may take seconds, print
what they like, or crash, and the answer still comes.
"""

import importlib.metadata
import importlib.util
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from .. import __version__
from ..files import Lock, write_bytes
from .options import echo_json, examples, json_option

_SECONDS = 180  # importing torch from a cold network disk takes a minute
_BLENDER_LIBRARIES = (
    "apt-get install libxrender1 libxi6 libxkbcommon0 libsm6 libice6 libgl1 libegl1 libxxf86vm1 "
    "libxfixes3"
)
_TRIAL_BYTES = 1 << 26
_IMAGE_BYTES = 224 * 224 * 3
_FAISS_GPU = "pip uninstall faiss-cpu && pip install faiss-gpu"


@dataclass(frozen=True)
class Check:
    """One thing to do with ident3d, the modules it takes, and how to get them."""

    feature: str
    modules: tuple[str, ...]
    get: str
    script: str = ""  # run after the imports; may set `detail` (str) and `more` (str)


@dataclass(frozen=True)
class Finding:
    """What a check found; `get` is the command that mends or improves it, if there is one."""

    feature: str
    works: bool
    detail: str
    get: str | None = None
    facts: dict[str, int] | None = None  # the numbers in `detail`, for `--json`


CHECKS = (
    Check(
        "read data",
        ("numpy", "scipy", "h5py", "hdf5plugin", "PIL", "click", "tqdm"),
        "pip install ident3d",
        "detail = f'numpy {numpy.__version__}, h5py {h5py.__version__}'",
    ),
    Check(
        "look-ups",
        ("faiss",),
        "pip install faiss-cpu",
        f"""
gpus = faiss.get_num_gpus() if hasattr(faiss, "StandardGpuResources") else None
where = "CPU only" if gpus is None else f"GPU build, {{gpus}} GPUs seen"
detail = f"faiss {{faiss.__version__}}, {{where}}"
more = {_FAISS_GPU!r} if gpus is None else None
""",
    ),
    Check(
        "torch loaders",
        ("torch",),
        "pip install 'ident3d[torch]'",
        """
names = [torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())]
detail = f"torch {torch.__version__}, " + (", ".join(names) or "CPU only")
""",
    ),
    Check(
        "rendering",
        ("bpy",),
        "pip install 'ident3d[render]'",
        """
cycles = bpy.context.preferences.addons["cycles"].preferences
names = []
for kind in ("CUDA", "OPTIX", "HIP", "ONEAPI", "METAL"):
    try:
        names += [f"{d.name} ({kind})" for d in cycles.get_devices_for_type(kind) if d.type == kind]
    except (TypeError, ValueError):
        pass  # this Blender was built without that kind
detail = f"Blender {bpy.app.version_string}, " + (", ".join(names) or "CPU only")
""",
    ),
    Check(
        "benchmark",
        ("torch", "torchvision", "sklearn", "matplotlib", "jinja2", "msgspec", "safetensors"),
        "pip install 'ident3d[benchmark]'",
        "detail = f'torchvision {torchvision.__version__}, scikit-learn {sklearn.__version__}'",
    ),
    Check(
        "many machines", ("ray",), "pip install 'ident3d[ray]'", "detail = f'ray {ray.__version__}'"
    ),
)


@click.command(epilog=examples("ident3d doctor", "ident3d doctor /scratch --json"))
@click.argument("folder", type=click.Path(path_type=Path), required=False)
@json_option
def doctor(folder: Path | None, as_json: bool) -> None:
    """Say what works here, and give the commands that get the rest.

    With FOLDER, where data is to be written: its free space, how fast it takes a file, and whether
    it has file locks. Exits with 1 if data sets cannot even be read, or not be written to FOLDER.
    """
    width = max(len(check.feature) for check in CHECKS)
    findings = []
    disk = [] if folder is None else [folder_finding(folder)]
    with ThreadPoolExecutor(2) as pool:
        for finding in itertools.chain([python_finding()], pool.map(examine, CHECKS), disk):
            findings.append(finding)
            if not as_json:
                click.echo(_lines(finding, width))
    if as_json:
        echo_json([asdict(finding) for finding in findings])
    if not findings[1].works or not all(finding.works for finding in disk):
        sys.exit(1)


def _lines(finding: Finding, width: int) -> str:
    mark = "yes" if finding.works else "NO "
    line = f"{mark}  {finding.feature.ljust(width)}  {finding.detail}"
    if finding.get is None:
        return line
    purpose = "on a GPU" if finding.works else "to get it"
    return f"{line}\n{'':{width + 7}}{purpose}: {finding.get}"


def python_finding() -> Finding:
    """Describe Python and ident3d themselves."""
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding("Python", True, f"{version}, ident3d {__version__}")


def folder_finding(folder: Path) -> Finding:
    """Try the disk of a folder, which need not be there yet, with a file of a shard's size."""
    if folder.is_file():
        return Finding("folder", False, f"{folder} is a file", "name a folder")
    home = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.is_dir())
    missing = "" if home == folder.absolute() else f"{folder} is not there yet; tried "
    trial = home / f".ident3d-doctor-{os.getpid()}"
    try:
        free = shutil.disk_usage(home).free
        content = os.urandom(min(_TRIAL_BYTES, free // 2))  # which no file system can compress
        began = time.perf_counter()
        write_bytes(trial, content)  # returns when it is on the disk
        speed = len(content) / (time.perf_counter() - began)
        Lock(trial).release()
    except OSError as error:
        get = "choose a folder that you may write to, on a disk with file locks"
        return Finding("folder", False, f"{home}: {error.strerror or error}", get)
    finally:
        with suppress(OSError):
            trial.unlink(missing_ok=True)
    images = free // _IMAGE_BYTES
    detail = f"{missing}{home}: {free / 1e9:,.1f} GB free ({images:,} images of 224 x 224), "
    facts = {"free_bytes": free, "write_bytes_per_second": round(speed)}
    return Finding("folder", True, f"{detail}{speed / 1e6:,.0f} MB/s written, locks", facts=facts)


def examine(check: Check) -> Finding:
    """Find out whether everything a feature takes can be imported."""
    missing = [name for name in check.modules if importlib.util.find_spec(name) is None]
    if missing:
        detail, get = f"not installed: {', '.join(missing)}", check.get
        if "bpy" in missing and sys.version_info[:2] != (3, 11):
            detail += "; Blender's wheels are for Python 3.11 alone"
            get = f"python3.11 -m venv env && env/bin/{check.get}"
        return Finding(check.feature, False, detail, get)
    if "faiss" in check.modules and len(variants := _faiss_variants()) > 1:
        both = " and ".join(variants)
        get = f"pip uninstall {' '.join(variants)} && pip install faiss-cpu"
        return Finding(check.feature, False, f"{both} are both installed, over each other", get)
    return _try_imports(check)


def _faiss_variants() -> list[str]:
    names = {dist.metadata["Name"].lower() for dist in importlib.metadata.distributions()}
    return sorted(name for name in names if re.fullmatch(r"faiss[-_](cpu|gpu)\S*", name))


def _try_imports(check: Check) -> Finding:
    script = "\n".join(
        [
            f"import json, {', '.join(check.modules)}",
            "detail, more = '', None",
            check.script,
            "print(); print(json.dumps([detail, more]))",
        ]
    )
    try:
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, timeout=_SECONDS
        )
    except subprocess.TimeoutExpired:
        return Finding(check.feature, False, f"no answer in {_SECONDS} s", check.get)
    if done.returncode == 0:
        return Finding(check.feature, True, *json.loads(done.stdout.splitlines()[-1]))
    if done.returncode < 0:
        problem = f"crashed with {signal.Signals(-done.returncode).name}"
    else:
        problem = (done.stderr.strip().splitlines() or ["failed"])[-1]
    library = "bpy" in check.modules and ".so" in problem
    return Finding(check.feature, False, problem, _BLENDER_LIBRARIES if library else check.get)
