"""A user's script, checked by mypy and pyright: the README's own lines, and some that follow."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyright", reason="`make setup` installs it")

ROOT = Path(__file__).parents[2]
BEFORE = """
import numpy as np
import torch
"""
AFTER = """
images: np.ndarray = batch.anchors.images
anchor, positive = pairs.batch(4)
for anchors, positives in pairs.epochs(16):
    rows: np.ndarray = positives.rows
hard = ident3d.Pairs(data, "normal:0.3", seed=0, negatives="normal:0.6")
for one, two, three in hard.epochs(16):
    rows = three.rows

loader = PairLoader(pairs, batch_size=16, transform=ident3d.augment.simclr(64), num_workers=2)
for tensors, others in loader:
    pixels: torch.Tensor = tensors.images
state = loader.state_dict()
loader.load_state_dict(state)
number: float = ident3d.metrics.mcc(z, z_hat)
names: list[str] = [factor.name for factor in data.varying]
item, latents = ident3d.loaders.ImageDataset("3dident/train")[0]
train = ident3d.datasets.ThreeDIdent("data", split="train", download=True)
"""
WRONG = {
    "images": "text: str = batch.anchors.images\n",
    "tensors": "for a, b in loader:\n    text: str = a.images\n",
    "name": "ident3d.Pears\n",
    "argument": 'ident3d.Pairs(data, "normal:0.1", seed="0")\n',
}


def script():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    return BEFORE + "\n".join(blocks) + AFTER


def mypy(folder):
    command = [sys.executable, "-m", "mypy", "--explicit-package-bases", "--cache-dir", "cache"]
    done = subprocess.run(
        [*command, "--config-file", str(ROOT / "pyproject.toml"), "script.py"],
        cwd=folder,
        env={"MYPYPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
    )
    return [line for line in done.stdout.splitlines() if ": error:" in line] + [done.stderr] * (
        done.returncode > 1
    )


def pyright(folder):
    settings = {"extraPaths": [str(ROOT)], "include": ["script.py"]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run([*command, "-p", "."], cwd=folder, capture_output=True, text=True)
    found = json.loads(done.stdout)
    assert found["summary"]["filesAnalyzed"] > 0, done.stderr
    return [
        f"{one['range']['start']['line'] + 1}: {one['message']}"
        for one in found["generalDiagnostics"]
        if one["severity"] == "error"
    ]


@pytest.mark.parametrize("check", [mypy, pyright])
def test_the_readmes_lines_have_true_types(tmp_path, check):
    (tmp_path / "script.py").write_text(script())
    assert check(tmp_path) == []
    (tmp_path / "script.py").write_text(script() + "".join(WRONG.values()))
    assert len(check(tmp_path)) == len(WRONG)
