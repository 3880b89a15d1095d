"""The public names of `ident3d`, which are imported on first use."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import ident3d


@pytest.mark.parametrize("name", ident3d.__all__)
def test_every_name_is_there(name):
    assert getattr(ident3d, name) is not None
    assert name in dir(ident3d)


def test_type_checkers_see_the_same_names():
    tree = ast.parse(Path(ident3d.__file__).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.asname: f".{node.module}" if node.module else ""
        for node in block.body
        for alias in node.names
    }
    assert seen == ident3d._HOMES


def test_importing_ident3d_imports_nothing_heavy():
    code = "import sys, ident3d; assert not {'numpy', 'faiss', 'h5py'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = ident3d.nothing
