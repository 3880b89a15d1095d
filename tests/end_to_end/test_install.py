import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.pages import blocks

ROOT = Path(__file__).parents[2]

SCRIPT = """
import importlib.util, sys, time, subprocess, ident3d
for name in ("torch", "bpy", "sklearn", "matplotlib"):
    assert importlib.util.find_spec(name) is None, f"{name} is installed"
print(ident3d.sample().images[[0, 5]].shape)
z = ident3d.sample().latents
assert abs(ident3d.metrics.linear_r2(z, 2 * z + 1) - 1) < 1e-6
pairs = ident3d.Pairs(ident3d.sample(), ident3d.Normal(0.5), seed=0)
assert pairs.batch(4).positives.images.shape == (4, 64, 64, 3)
"""


@pytest.mark.slow
@pytest.mark.timeout(1800)  # downloads, on whatever line there is
def test_the_library_works_with_neither_torch_nor_blender(tmp_path):
    """A clean environment with only `pip install .`: what most users have."""
    python = tmp_path / "venv/bin/python"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    install = [python, "-m", "pip", "install", "--quiet", "--no-input", str(ROOT)]
    subprocess.run(install, check=True, cwd=tmp_path)
    done = subprocess.run(
        [python, "-c", SCRIPT], check=True, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.strip() == "(2, 64, 64, 3)"
    ident3d = tmp_path / "venv/bin/ident3d"
    for arguments in (["info"], ["verify"], ["--help"], ["doctor"]):
        subprocess.run([ident3d, *arguments], check=True, cwd=tmp_path, capture_output=True)
    for command, extra in (("render out --size 1", "render"), ("benchmark list", "benchmark")):
        refused = subprocess.run(
            [ident3d, *command.split()], cwd=tmp_path, capture_output=True, text=True
        )
        assert refused.returncode == 1
        assert f"ident3d[{extra}]" in refused.stderr
        assert "Traceback" not in refused.stderr
    for block in blocks(ROOT / "docs" / "package.md"):  # what a package index shows
        subprocess.run([python, "-c", block.body], check=True, cwd=tmp_path, capture_output=True)
    plot = [
        "audit",
        "--rows",
        "300",
        "--pairs",
        "100",
        "--conditional",
        "normal:0.5",
        "--plot",
        "audit.png",
    ]
    refused = subprocess.run([ident3d, *plot], cwd=tmp_path, capture_output=True, text=True)
    assert "pip install 'ident3d[plot]'" in refused.stderr
    # The line as the message has it, from any folder: nothing of ident3d is on an index.
    subprocess.run(
        [python, "-m", "pip", "install", "-q", "ident3d[plot]"], check=True, cwd=tmp_path
    )
    subprocess.run([ident3d, *plot], check=True, cwd=tmp_path, capture_output=True)
    assert (tmp_path / "audit.png").exists()
    assert subprocess.run([python, "-c", "import torch"], capture_output=True).returncode == 1
