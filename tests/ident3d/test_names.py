"""The public names of `ident3d`, which are imported on first use."""

import ast
import itertools
import rlcompleter
import subprocess
import sys
import textwrap
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
    assert seen == {**ident3d._HOMES, **dict.fromkeys(ident3d._EXTRAS, "")}


def test_importing_ident3d_imports_nothing_heavy():
    code = "import sys, ident3d; assert not {'numpy', 'faiss', 'h5py'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = ident3d.nothing


def test_what_needs_torch_is_reachable_and_imported_on_use():
    code = """
        import sys, ident3d
        assert {"loaders", "datasets", "augment", "Pairs", "load"} <= set(dir(ident3d))
        assert "importlib" not in dir(ident3d)
        assert "torch" not in sys.modules
        assert ident3d.loaders.PairLoader and ident3d.augment.simclr
        assert "torch" in sys.modules
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


def test_without_torch_names_and_help_still_work():
    code = """
        import pydoc, sys, ident3d
        ident3d.find_spec = lambda name: None
        sys.modules["torch"] = None
        assert "loaders" not in dir(ident3d)
        text = pydoc.plain(pydoc.render_doc(ident3d))
        assert "class Pairs" in text and "linear_r2" not in text
        try:
            ident3d.loaders
        except ImportError as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], check=True, capture_output=True, text=True
    )
    assert "ident3d[torch]" in done.stdout


def test_tab_completion_offers_names():
    completer = rlcompleter.Completer({"ident3d": ident3d})
    found = set()
    for state in itertools.count():
        if (text := completer.complete("ident3d.", state)) is None:
            break
        found.add(text.rstrip("()"))
    assert {f"ident3d.{name}" for name in (*ident3d.__all__, "loaders", "datasets")} <= found
