"""How long a page of 500 records takes to write and to open, beside one of 10 records."""

import tempfile
import time
from pathlib import Path

from ident3d.benchmark.report import write

from tests.support.browser import Browser
from tests.support.samples import record


def main() -> None:
    """Print milliseconds until the browser has loaded the page: the best of five."""
    print("| records | index KB | write s | index opens ms | a method's page opens ms |")
    print("|---|---|---|---|---|")
    with Browser() as browser:
        for count in (10, 500):
            results = [
                record(f"Method {number % 25}", f"table{1 + number % 4}/{number}")
                for number in range(count)
            ]
            with tempfile.TemporaryDirectory() as folder:
                start = time.perf_counter()
                index = write(results, folder)
                written = time.perf_counter() - start
                method = sorted((Path(folder) / "methods").iterdir())[0]
                opened = [f"{browser.opening_time(path, tries=5):.0f}" for path in (index, method)]
                size = index.stat().st_size / 1000
            print(f"| {count} | {size:.0f} | {written:.1f} | {opened[0]} | {opened[1]} |")


if __name__ == "__main__":
    main()
