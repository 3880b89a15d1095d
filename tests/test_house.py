"""The house rules: layers, cycles, sizes of rooms, names, and what only `files.py` may do."""

import ast
import importlib.metadata
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
import tomllib

import ident3d

ROOT = Path(__file__).parents[1]
FOLDERS = {
    "ident3d": "ident3d",
    "render": "ident3d.render",
    "benchmark": "ident3d.benchmark",
    "assets": "ident3d.assets",
}
SOURCES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
ONLY_IN_FILES = {"fcntl", "replace", "rename", "fsync", "flock"}  # of os and fcntl


def module_of(path: Path) -> str:
    folder, *rest = path.relative_to(ROOT).with_suffix("").parts
    return ".".join([FOLDERS[folder], *(part for part in rest if part != "__init__")])


MODULES = {module_of(path): path for path in SOURCES}


def imports(path: Path, everywhere: bool) -> set[str]:
    """Modules of ours that a file imports: at its top level, or `everywhere` in it."""
    module = module_of(path)
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    tree = ast.parse(path.read_text())
    found = set()
    for node in ast.walk(tree) if everywhere else top_level(tree.body):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            home = ".".join([*base, *([node.module] if node.module else [])])
            for name in node.names:
                found.add(f"{home}.{name.name}" if f"{home}.{name.name}" in MODULES else home)
    return {name for name in found if name in MODULES}


def top_level(body):
    """Statements that run on import; what only a type checker reads does not."""
    for node in body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        for name in ("body", "orelse", "handlers", "finalbody"):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from top_level(getattr(node, name, []))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_layer_is_crossed(path):
    allowed = {
        "ident3d": ("ident3d",),
        "render": ("ident3d", "render"),
        "benchmark": ("ident3d", "benchmark"),
        "assets": (),
    }[path.relative_to(ROOT).parts[0]]
    # Commands may load what they run when they run it; nothing else may, at any time.
    lazy = path.is_relative_to(ROOT / "ident3d" / "commands")
    for module in imports(path, everywhere=not lazy):
        assert MODULES[module].relative_to(ROOT).parts[0] in allowed, f"imports {module}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_private_files_are_imported_by_their_room_alone(path):
    for module in imports(path, everywhere=True):
        if module.rpartition(".")[2].startswith("_"):
            assert MODULES[module].parent == path.parent, f"imports {module}"


def loaded(wanted: set[str], by: str) -> set[str]:
    """What is loaded for some modules: they, and the packages that they are in and `by` is not."""
    parts = {".".join(m.split(".")[: n + 1]) for m in wanted for n in range(m.count(".") + 1)}
    return {part for part in parts & set(MODULES) if not f"{by}.".startswith(f"{part}.")}


def test_no_import_cycle():
    graph = {
        module: loaded(imports(path, everywhere=False), module) for module, path in MODULES.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_no_room_is_crowded():
    count = Counter(path.parent.relative_to(ROOT) for path in SOURCES)
    assert {str(room): files for room, files in count.items() if files > 16} == {}


def test_no_file_name_twice():
    count = Counter(path.name for path in SOURCES if path.name != "__init__.py")
    assert [name for name, files in count.items() if files > 1] == []


def test_version_is_that_of_the_changelog():
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    newest = next(line for line in changelog.splitlines() if line.startswith("## ")).split()[1]
    assert ident3d.__version__ == importlib.metadata.version("ident3d") == newest
    assert f"\nversion: {newest}\n" in (ROOT / "CITATION.cff").read_text("utf-8")


def test_packages_are_declared():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {module_of(path) for path in SOURCES if path.name == "__init__.py"}
    assert set(settings["packages"]) == folders


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_files_py_locks_hashes_and_writes_atomically(path):
    if path == ROOT / "ident3d" / "files.py":
        return
    tree = ast.parse(path.read_text())
    imported = {
        name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names
    }
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("os", "fcntl")
    }
    # rows.py spells out the hash that addresses every row: it may never change.
    hashes = {"hashlib"} if path != ROOT / "ident3d" / "rows.py" else set()
    assert not (imported & ({"fcntl"} | hashes)) and not (used & ONLY_IN_FILES)
