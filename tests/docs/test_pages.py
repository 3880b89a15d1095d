"""Every command and code block of README and docs: run as written, or marked with the reason."""

import ast
import os
import re

import pytest
from click import BadOptionUsage, MissingParameter

from tests.support.commands import parse
from tests.support.pages import CONTINUES, ROOT, blocks, chain, commands, pages, run

PAGES = pages()
# What else a block may be: it is shown, and holds nothing to type.
SHOWN = {"text", "toml", "json", "yaml"}
INLINE = re.compile(r"(?<!`)`((?:ident3d|python -m|make) [^`]+)`(?!`)")


def name(page):
    return str(page.relative_to(ROOT))


def has_to_run(page):
    runs = [
        block
        for block in blocks(page)
        if block.language in ("python", "sh") and block.not_run is None and not block.title
    ]
    return bool(runs)


def last_of_chain(page):
    """A page that another continues is run with that one."""
    followed = {
        (other.parent / found[1]).resolve()
        for other in PAGES
        if (found := CONTINUES.search(other.read_text()))
    }
    return page not in followed


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_block_says_what_it_is(page):
    for block in blocks(page):
        assert block.language in {"python", "sh", *SHOWN}, f"{block.where}: {block.language!r}"
        if block.language in SHOWN:
            typed = re.search(r"^(\$ |ident3d |pip |make )", block.body, re.MULTILINE)
            assert not typed, f"{block.where} holds a command; tag it `sh`"
        assert block.not_run != "", block.where
    fences = len(re.findall(r"^ *```", page.read_text(), re.MULTILINE))
    assert fences == 2 * len(blocks(page)), f"{page}: a block that is not closed, or not found"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_command_is_understood(page):
    """Also those that cannot be run here, and those in running text."""
    for block in blocks(page):
        for line in commands(block.body) if block.language == "sh" else ():
            check_command(block.where, line)
    for found in INLINE.findall(prose(page)):
        # Running text also names commands and options without what they take.
        check_command(name(page), " ".join(found.split()), (MissingParameter, BadOptionUsage))


def prose(page):
    text = page.read_text()
    for block in blocks(page):
        text = text.replace(block.body, "")
    return text


def check_command(where, line, allowed=()):
    if line.startswith("make "):
        target = line.split()[1]
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), where
    elif line.startswith("python -m "):
        module = line.split()[2]
        known = module in ("pytest", "ident3d", "venv", "pip")
        path = module.removeprefix("ident3d.").replace(".", "/")
        exists = any((ROOT / f"{path}{end}").exists() for end in (".py", "/__main__.py"))
        assert known or exists, f"{where}: {line}"
    elif "..." not in line and "[" not in line and "|" not in line:  # a synopsis, not a command
        try:
            parse(line)
        except allowed:
            pass
        except Exception as error:
            pytest.fail(f"{where}: `{line}`: {error}")


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_row_of_a_table_has_its_tables_columns(page):
    """A row of another table, or a cell too many, would be shown without a word."""
    columns = None
    for number, line in enumerate(prose(page).splitlines(), 1):
        if not line.startswith("|"):
            columns = None
            continue
        cells = len(re.findall(r"(?<!\\)\|", re.sub(r"`[^`]*`", "", line)))
        columns = columns or cells
        assert cells == columns, f"{page}, line {number} without its blocks: {line}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_python_that_is_not_run_compiles(page):
    for block in blocks(page):
        if block.language == "python" and (block.not_run or block.title or block.wanting):
            ast.parse(block.body, block.where)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in PAGES if has_to_run(page) and last_of_chain(page)], ids=name
)
def test_every_block_runs_as_written(page, tmp_path):
    wanting = sorted({one for each in chain(page) for b in blocks(each) for one in b.wanting})
    assert not (wanting and os.environ.get("IDENT3D_CLIENTS")), f"not installed: {wanting}"
    done = run(page, tmp_path)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


def test_links_of_the_readme_lead_to_files():
    text = (ROOT / "README.md").read_text()
    links = re.findall(r"\]\(([^)#\s]+)", text)
    assert links
    for link in links:
        assert link.startswith("https://") or (ROOT / link).exists(), link
