"""What is handed out: the wheel's metadata, the extras, the source distribution, the set-up."""

import email
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Build wheel and sdist from the files that are under version control, or are about to be."""
    source = tmp_path_factory.mktemp("source")
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.check_output(listed, cwd=ROOT, text=True).splitlines():
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name)
    script = (
        "import setuptools.build_meta as backend\n"
        "backend.build_wheel('dist')\n"
        "backend.build_sdist('dist')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=source, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return source / "dist"


@pytest.fixture(scope="module")
def metadata(built):
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        name = next(name for name in wheel.namelist() if name.endswith("METADATA"))
        return email.message_from_bytes(wheel.read(name))


def test_metadata_says_who_what_and_where(metadata):
    assert metadata["Author"] and metadata["License-Expression"] == "MIT"
    assert len(metadata.get_all("Project-URL")) >= 3
    classifiers = metadata.get_all("Classifier")
    assert {f"Programming Language :: Python :: 3.{minor}" for minor in (10, 11, 12, 13)} <= set(
        classifiers
    )


def test_links_of_the_long_description_lead_somewhere_from_anywhere(metadata):
    links = [found[0] or found[1] for found in LINK.findall(metadata.get_payload())]
    assert links and all(link.startswith("https://") for link in links)


def closure(metadata, extra, python):
    """Names that `pip install ident3d[extra]` asks for on a Python."""
    names, extras = set(), [extra]
    while extras:
        wanted = extras.pop()
        for text in metadata.get_all("Requires-Dist"):
            requirement = Requirement(text)
            environment = {"python_version": python, "extra": wanted}
            if requirement.marker is None or requirement.marker.evaluate(environment):
                names.add(requirement.name)
                if requirement.name == "ident3d":
                    extras += requirement.extras
    return names


def test_all_is_all_that_a_python_can_have(metadata):
    assert {"bpy", "torch", "ray", "matplotlib", "scikit-learn"} <= closure(metadata, "all", "3.11")
    for python in ("3.10", "3.12", "3.13"):
        assert "bpy" not in closure(metadata, "all", python)
        assert {"torch", "ray", "matplotlib"} <= closure(metadata, "all", python)
        assert "bpy" in closure(metadata, "render", python)  # asked for by name, pip refuses


def test_plots_do_not_ask_for_torch(metadata):
    names = closure(metadata, "plot", "3.12")
    assert "matplotlib" in names and "torch" not in names


def test_the_sdist_has_tests_manual_and_examples(built):
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for wanted in (
        "docs/package.md", "docs/figures/traversal.png", "mkdocs.yml", "tests/conftest.py",
        "tests/support/legacy/data/dataset.json", "examples/quickstart.py", "Makefile",
        "CHANGELOG.md", ".ci/system-packages", "assets/sample/dataset.json",
        "benchmark/losses/__init__.py", "render/scene.py",
    ):  # fmt: skip
        assert wanted in names
    assert not [name for name in names if "__pycache__" in name]


def test_the_wheel_has_the_library_alone(built):
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        names = wheel.namelist()
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"ident3d"}
    assert "ident3d/assets/sample/dataset.json" in names and "ident3d/py.typed" in names


def test_the_set_up_shows_what_it_does():
    dry = ["make", "--dry-run", "--always-make", "setup", f"PYTHON={sys.executable}"]
    steps = subprocess.check_output(dry, cwd=ROOT, text=True).splitlines()
    assert sum("Set-up, step" in line for line in steps) == 3
    (long,) = [line for line in steps if ".[all]" in line]
    assert "--quiet" not in long and "--group docs" in long
