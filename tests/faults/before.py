"""Runs test_thirteen.py on an earlier commit and here, and says what came of it.

python -m tests.faults.before 6ce5ae3 before.json

The file itself is copied as it is; from that commit come the package and what it tests with: its
writer of small data sets and its published layouts.
"""

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from xml.etree import ElementTree

HERE = Path(__file__).parents[2]
TEST = Path("tests/faults/test_thirteen.py")


def main(commit: str, out: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        lay_out(root, commit)
        table = {"commit": commit, "before": run(root), "now": run(HERE)}
    Path(out).write_text(json.dumps(table, indent=1))
    print(f"{commit}: {count(table['before'])}; here: {count(table['now'])}.")


def lay_out(root: Path, commit: str) -> None:
    """Unpack a commit of before the rooms, and give its helpers the places of today."""
    archive = subprocess.run(
        ["git", "archive", commit], cwd=HERE, check=True, stdout=subprocess.PIPE
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(root, filter="data")
    for package in ("render", "benchmark", "assets"):  # as the installed package has them
        (root / "ident3d" / package).symlink_to(root / package)
    support, old = root / "tests/support", root / "tests"
    support.mkdir()
    (old / "faults").mkdir()
    for name in ("__init__.py", "helpers.py", "published_sets.py"):
        text = (old / name).read_text().replace("from tests.helpers", "from tests.support.helpers")
        (support / name).write_text(text)
    for name in ("tests/support/server.py", "tests/faults/__init__.py", str(TEST)):
        if (HERE / name).exists():
            (root / name).write_bytes((HERE / name).read_bytes())


def run(root: Path) -> dict[str, str | None]:
    """Run the thirteen in a checkout: test -> None, or why it failed."""
    report = root / ".thirteen.xml"
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            f"--junitxml={report}",
            TEST,
        ],
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(root)},
        stdout=subprocess.DEVNULL,
    )
    found = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        wrong = [*case.iter("failure"), *case.iter("error")]
        found[case.get("name", "")] = wrong[0].get("message", "") if wrong else None
    report.unlink()
    return found


def count(found: dict[str, str | None]) -> str:
    failed = sum(why is not None for why in found.values())
    return f"{failed} fail, {len(found) - failed} pass"


if __name__ == "__main__":
    main(*sys.argv[1:])
