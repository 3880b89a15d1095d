"""The manual as a site: builds without a warning, and neither build nor page asks the network."""

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ident3d
from tests.support.browser import Browser

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "docs" / "notebook.ipynb"
PHONE, DESK = (390, 844), (1280, 900)


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """Build the pages of a folder; a proxy that nobody runs stands in for the network."""

    def run(source, **changes):
        out = tmp_path_factory.mktemp("site")
        closed = dict.fromkeys(("http_proxy", "https_proxy", "ALL_PROXY"), "http://127.0.0.1:9")
        done = subprocess.run(
            [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)],
            cwd=source,
            env={**os.environ, **closed, "NO_MKDOCS_2_WARNING": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        return done, out

    return run


@pytest.fixture(scope="module")
def site(build):
    done, out = build(ROOT)
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.slow
def test_every_page_is_there_and_says_something(site):
    for page in (ROOT / "docs").rglob("*.md"):
        if page.name != "package.md":
            html = (site / page.relative_to(ROOT / "docs")).with_suffix(".html").read_text()
            assert "<h1" in html, page
    assert "class_names" in (site / "api" / "data.html").read_text()  # from the docstrings
    assert "ident3d.benchmark.losses.infonce" in (site / "api" / "losses.html").read_text()
    assert "ident3d.render.scene" in (site / "api" / "render.html").read_text()


@pytest.mark.slow
def test_a_broken_link_is_an_error(build, tmp_path):
    for name in ("docs", "ident3d", "render", "benchmark", "mkdocs.yml"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    page = tmp_path / "docs" / "format.md"
    page.write_text(page.read_text() + "\n[lost](nowhere.md) [lost](render.md#nowhere)\n")
    done, _ = build(tmp_path)
    assert done.returncode == 1
    assert "nowhere.md" in done.stderr and "#nowhere" in done.stderr


@pytest.mark.slow
def test_pages_load_nothing_from_elsewhere(site):
    tag = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)=\"?(https?:)?//")
    for page in site.rglob("*.html"):
        assert not tag.search(page.read_text()), page
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//", style.read_text()), style


@pytest.mark.slow
def test_the_reference_has_what_users_import(site):
    """A name that a package only passes on is shown only if a page asks for it."""
    shown = set()
    for page in (site / "api").glob("*.html"):
        names = re.findall(r'class="doc doc-object-name[^>]*>([^<]*)', page.read_text())
        assert names or page.name == "index.html", f"{page.name} lists nothing"
        shown |= set(names)
    modules = {"conditionals", "factors", "metrics", "spaces"}
    errors_and_data = {"DataError", "FACTORS"}  # named on the first page
    assert set(ident3d.__all__) - modules - errors_and_data <= shown
    assert {"PairLoader", "forever", "load_state_dict", "ImageDataset", "ThreeDIdent"} <= shown
    assert {"download", "import_published", "export_parquet", "infonce", "write"} <= shown


@pytest.mark.slow
@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_pages_open_from_the_disk_and_fit_the_screen(site, size):
    with Browser() as browser:
        browser.screen(*size, phone=size == PHONE)
        for page in sorted(site.rglob("*.html")):
            if page.name == "404.html":  # for servers: its addresses begin at their root
                continue
            browser.open(page)
            wide = browser.run("document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, f"{page.name} is wider than the screen by {wide} px"
            assert browser.errors == [], page.name
            elsewhere = [url for url in browser.requests if url.startswith("http")]
            assert elsewhere == [], page.name
        browser.page.goto((site / "index.html").as_uri() + "?q=truncated")  # the search finds words
        found = ".md-search-result__item"
        browser.page.wait_for_selector(found, state="attached", timeout=30_000)


def outputs(notebook):
    """What the cells show, pictures apart, numbers out of the text."""
    shown = []
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            data = output.get("data", {"text/plain": output.get("text", "")})
            text = "".join(data["text/plain"])
            numbers = [float(found) for found in re.findall(r"-?\d+\.?\d*", text)]
            shown.append((sorted(data), re.sub(r"-?\d+\.?\d*", "#", text), numbers))
    return shown


@pytest.mark.slow
def test_the_notebook_runs_and_shows_what_it_holds(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runner = runpy.run_path(str(ROOT / "docs" / "theme" / "notebook.py"))
    kept = json.loads(NOTEBOOK.read_text())
    assert any(cell["cell_type"] == "code" for cell in kept["cells"])
    found = outputs(runner["run"](kept))
    for (kinds, text, numbers), (kept_kinds, kept_text, kept_numbers) in zip(
        found, outputs(kept), strict=True
    ):
        assert (kinds, text) == (kept_kinds, kept_text)
        assert numbers == pytest.approx(kept_numbers, rel=0.05, abs=0.02)


def test_a_cell_that_fails_is_told():
    runner = runpy.run_path(str(ROOT / "docs" / "theme" / "notebook.py"))
    cells = [{"cell_type": "code", "source": ["1 / 0"], "outputs": [], "metadata": {}}]
    with pytest.raises(ZeroDivisionError):
        runner["run"]({"cells": cells})
