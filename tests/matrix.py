"""The core install and the quick start on other Pythons, from a built wheel: `make matrix`.

    python -m tests.matrix 3.10 3.12 3.13

Each Python that is on the PATH, or among pyenv's, gets an environment of its own with the wheel and
nothing else but pytest. Printed is what was installed, how long it took, and whether all went well.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = ["tests/ident3d/test_metrics.py", "tests/ident3d/shards", "tests/ident3d/exchange"]


def find_python(version: str) -> str | None:
    """Tell where a Python of some version is, if it is anywhere."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    names = [f"python{version}", *map(str, sorted(root.glob(f"{version}.*/bin/python")))]
    for name in names:
        path = shutil.which(name)
        if path and subprocess.run([path, "-c", ""], capture_output=True).returncode == 0:
            return path  # one of pyenv's names may stand for nothing
    return None


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def build(folder: Path) -> Path:
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, ROOT, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


def check(version: str, wheel: Path, folder: Path) -> str:
    """Install the wheel and try it; return a line of the table."""
    interpreter = find_python(version)
    if interpreter is None:
        return f"{version:7} not installed here"
    folder.mkdir()
    python = folder / "env" / "bin" / "python"
    began = time.monotonic()
    run(interpreter, "-m", "venv", folder / "env", cwd=folder)
    run(python, "-m", "pip", "install", "-q", wheel, cwd=folder)
    installed = time.monotonic() - began
    began = time.monotonic()
    printed = run(python, ROOT / "examples" / "quickstart.py", cwd=folder)
    assert "R2 1.000" in printed, printed
    started = time.monotonic() - began
    for arguments in (["--version"], ["doctor"], ["info"], ["verify"]):
        run(python, "-m", "ident3d", *arguments, cwd=folder)
    run(python, "-m", "pip", "install", "-q", "pytest", "pytest-timeout", cwd=folder)
    # The tests alone, so that what they import is the wheel and not the clone.
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    tests = run(
        python, "-m", "pytest", "-q", "--import-mode=importlib", "-p", "no:cacheprovider",
        "--rootdir", folder, *TESTS, cwd=folder,
    )  # fmt: skip
    size = sum(f.stat().st_size for f in (folder / "env").rglob("*") if f.is_file())
    passed = tests.strip().splitlines()[-1]
    exact = run(python, "-c", "import platform; print(platform.python_version())", cwd=folder)
    return (
        f"{exact.strip():7} install {installed:4.0f} s, {size / 1e6:4.0f} MB; "
        f"quick start {started:4.1f} s; {passed}"
    )


def main(versions: list[str]) -> int:
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        wheel = build(Path(name))
        print(f"{wheel.name}, {wheel.stat().st_size / 1e6:.1f} MB", flush=True)
        for version in versions:
            try:
                print(check(version, wheel, Path(name, version)), flush=True)
            except (RuntimeError, AssertionError) as error:
                failed += 1
                print(f"{version:7} FAILED: {error}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["3.10", "3.12", "3.13"]))
