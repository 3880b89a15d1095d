"""Blocks of Markdown pages: found, and run as a reader would who types one after the other.

What stands in a comment right before a block tells what becomes of it:

    <!-- not run: needs a GPU -->  it is only checked: its commands must parse, its Python compile
    <!-- needs: jax -->            it runs where that module is installed

A block with a title is a file of that name. At the top of a page, `<!-- continues: render.md -->`
makes it go on in the folder and with the names of another page.
"""

import json
import os
import re
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = re.compile(
    r"(?:^[ ]*<!-- (?P<mark>not run|needs): (?P<text>[^>]+?) -->\n+)?"
    r"^(?P<indent>[ ]*)(?P<ticks>```+)(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=indent)(?P=ticks)[ ]*$",
    re.MULTILINE | re.DOTALL,
)
CONTINUES = re.compile(r"^<!-- continues: (\S+) -->", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    body: str
    title: str | None
    not_run: str | None
    needs: tuple[str, ...]

    @property
    def where(self):
        return f"{self.page}:{self.line}"

    @property
    def wanting(self):
        """Modules that it needs and that are not installed."""
        return [name for name in self.needs if find_spec(name) is None]


def pages():
    """README and every page of the manual, without those that are generated."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page):
    """All blocks of a page, in order."""
    text = page.read_text()
    found = []
    for match in FENCE.finditer(text):
        language, _, rest = match["info"].strip().partition(" ")
        title = re.search(r'title="([^"]+)"', rest)
        mark, said = match["mark"], match["text"]
        indent = match["indent"]
        body = "".join(line.removeprefix(indent) for line in match["body"].splitlines(True))
        found.append(
            Block(
                page=str(page.relative_to(ROOT)),
                line=text.count("\n", 0, match.start("ticks")) + 1,
                language=language,
                body=body,
                title=title and title[1],
                not_run=said if mark == "not run" else None,
                needs=tuple(said.replace(",", " ").split()) if mark == "needs" else (),
            )
        )
    return found


def chain(page):
    """The page, after those that it continues."""
    before = CONTINUES.search(page.read_text())
    return [*(chain((page.parent / before[1]).resolve()) if before else []), page]


def commands(text):
    """Lines of a shell block that call ident3d, continued lines joined."""
    for line in text.replace("\\\n", " ").splitlines():
        if match := re.search(r"(?:^|[|;&]\s*|\bdo\s+)(ident3d\s[^|;&>]*)", line.strip()):
            yield match[1].strip()


def run(page, folder):
    """Run what a page and its predecessors have to run, in one process; return how it went."""
    steps = [
        asdict(block)
        for one in chain(page)
        for block in blocks(one)
        if block.not_run is None
        and not block.wanting
        and block.language in ("python", "sh", "toml")
    ]
    bin_folder = str(Path(sys.executable).parent)
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([bin_folder, os.environ["PATH"]]),
        "PYTHONPATH": str(folder),
        "MPLBACKEND": "agg",
        "OMP_NUM_THREADS": "1",  # two threads that wait for each other on a busy machine take ages
        "IDENT3D_REPO": str(ROOT),
    }
    return subprocess.run(
        [sys.executable, __file__],
        input=json.dumps(steps),
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def _main():
    """Run the steps given as JSON; the first that fails ends it, named."""
    names = {"__name__": "__main__"}
    for step in json.load(sys.stdin):
        where = f"{step['page']}:{step['line']}"
        print(f"--- {where}", flush=True)
        if step["title"]:
            Path(step["title"]).parent.mkdir(parents=True, exist_ok=True)
            Path(step["title"]).write_text(step["body"])
        elif step["language"] == "python":
            exec(compile(step["body"], where, "exec"), names)
        elif step["language"] == "sh":
            # As typed: a failing line ends the block.
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", step["body"]], check=False)
            if done.returncode:
                sys.exit(f"{where} ended with exit code {done.returncode}")


if __name__ == "__main__":
    _main()
