"""The pages in a real browser, opened from disk."""

import pytest
from ident3d.benchmark.report import write

from tests.support.browser import Browser
from tests.support.samples import record

EVIL = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"


@pytest.fixture(scope="module")
def browser():
    with Browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    results = [
        record(f"Method {name}", f"table4/{number}", seed, r2=r2, mcc=1 - r2)
        for number, (name, r2) in enumerate([("bay", 0.5), ("cove", 0.9), ("arch", 0.7)], start=1)
        for seed in range(2)
    ]
    results.append(record("Method none", "table4/4", scores={"r2": None, "mcc": 0.1}))
    results.append(record("Rotated", "table1/10"))
    return write(results, tmp_path_factory.mktemp("site"), lambda e: {"r2": (0.96, None)})


METHODS = """[...document.querySelectorAll('.family')].at(-1).innerText &&
  [...[...document.querySelectorAll('.family')].at(-1).querySelectorAll('tbody th a')]
  .filter(a => a.offsetParent).map(a => a.textContent.replace('Method ', '')).join(' ')"""


def head(browser, column):
    """A column's head in the last table."""
    return browser.page.locator(".family").last.locator("thead th").nth(column)


def test_the_page_opens_from_disk_without_errors_or_network(browser, site):
    browser.open(site)
    assert browser.run("document.querySelectorAll('.board tbody tr').length") == 5
    assert browser.run(METHODS) == "bay cove arch none"
    assert browser.clean()


def test_a_clicked_column_sorts(browser, site):
    browser.open(site)
    head(browser, 3).get_by_role("button").click()
    assert browser.run(METHODS) == "cove arch bay none"
    assert head(browser, 3).get_attribute("aria-sort") == "descending"
    head(browser, 3).get_by_role("button").click()
    assert browser.run(METHODS) == "bay arch cove none"  # what was not computed stays last
    head(browser, 1).get_by_role("button").click()
    assert browser.run(METHODS) == "arch bay cove none"
    assert head(browser, 1).get_attribute("aria-sort") == "ascending"
    assert head(browser, 3).get_attribute("aria-sort") == "none"
    assert browser.clean()


def test_the_keyboard_sorts_too(browser, site):
    browser.open(site)
    head(browser, 1).get_by_role("button").focus()
    browser.page.keyboard.press("Enter")
    assert head(browser, 1).get_attribute("aria-sort") == "ascending"
    assert browser.run(METHODS) == "arch bay cove none"


def test_text_filters_rows_and_tables(browser, site):
    browser.open(site)
    browser.page.get_by_label("Filter").press_sequentially("method COVE")
    browser.wait("document.getElementById('count').textContent === '1 of 5 rows'")
    assert browser.run(METHODS) == "cove"
    assert browser.run("[...document.querySelectorAll('.family')].map(f => f.hidden).join()") == (
        "true,false"
    )
    browser.page.get_by_label("Filter").press_sequentially(" nowhere")
    browser.page.get_by_text("No row matches this filter.").wait_for()
    assert browser.clean()


def test_a_method_page_opens_from_its_row(browser, site):
    browser.open(site)
    browser.page.get_by_role("link", name="Method arch", exact=True).click()
    browser.page.wait_for_url("**/methods/*")
    assert browser.run("document.querySelector('h1').textContent") == "Method arch"
    assert browser.run("document.querySelectorAll('figure svg').length") >= 10
    assert browser.run("document.querySelector(location.hash).tagName") == "ARTICLE"
    assert browser.clean()


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 390])
def test_pages_fit_the_screen(browser, site, width, dark):
    browser.screen(width, dark=dark, phone=width < 500)
    try:
        for path in (site, *sorted((site.parent / "methods").iterdir())):
            browser.open(path)
            assert browser.run("document.documentElement.scrollWidth") <= width
            colours = browser.run(
                "(s => [s.color, s.backgroundColor].map(c => c.match(/\\d+/g).slice(0, 3)"
                ".reduce((a, b) => +a + +b, 0)))(getComputedStyle(document.body))"
            )
            assert (colours[0] > colours[1]) == dark
            assert browser.clean()
    finally:
        browser.screen()


def test_a_screen_reader_finds_names(browser, site):
    for path in (site, next((site.parent / "methods").iterdir())):
        browser.open(path)
        for role in ("button", "link", "image", "searchbox", "region", "heading"):
            assert all(browser.accessible(role)), role
        assert browser.accessible("link") and browser.accessible("heading")
        assert browser.run("document.documentElement.lang") == "en"
        assert browser.run("document.querySelectorAll('main, h1').length") == 2


def test_nothing_a_stranger_wrote_runs(browser, tmp_path):
    evil = record(
        method=EVIL, experiment=EVIL, tier=EVIL, factors=[EVIL] * 10, command=EVIL,
        settings={"a": EVIL}, curves={"step": [0, 1], EVIL: [0, 1]}, commit=EVIL,
        data={"name": EVIL, "fingerprint": "javascript:alert(1)"},
    )  # fmt: skip
    index = write([evil], tmp_path)
    for path in (index, next((tmp_path / "methods").iterdir())):
        browser.open(path)
        assert browser.run("document.title") != "owned"
        assert browser.run("document.querySelectorAll('img, script').length") == 1
        assert browser.clean()


def test_controls_chance_and_gaps_are_on_the_page(browser, tmp_path):
    scores = {"r2": 0.9, "mcc": 0.9, "loss_gap": 0.012}
    runs = [record("Low", r2=0.2), record("High", scores=scores)]
    runs += [
        record(f"Control: {name}", control=True, r2=r2, mcc=0.5, settings={"control": {"a": "b"}})
        for name, r2 in (("FastICA", 0.95), ("linear slow features", 0.4))
    ]

    def differs(result):
        return ["3 of 10 factors", "64 px, not 224"]

    browser.open(write(runs, tmp_path, lambda e: {"r2": (0.96, 0.001)}, differs=differs))
    rows = browser.page.locator(".board tbody").first.locator("tr:not(.differs)")
    assert [rows.nth(n).locator("th").inner_text().split("\n")[0] for n in range(3)] == [
        "High", "Control: linear slow features", "Control: FastICA",
    ]  # fmt: skip
    high = rows.nth(0).inner_text()
    assert "0.75 of the way from chance to 1" in high and "1.20" in high
    note = browser.page.locator(".board .noted + .differs").first
    assert note.inner_text().strip() == "Not as published: 3 of 10 factors, 64 px, not 224."
    heads = browser.page.locator(".board thead").inner_text()
    assert "Loss gap" in heads and "Published, at full size" in heads
    assert rows.nth(0).locator(".chance-mark").count() == 2
    assert browser.page.locator(".board .mark").count() == 0  # nothing comparable is published
    grey, black = (
        rows.nth(n).locator(".figure").first.evaluate("e => getComputedStyle(e).color")
        for n in (1, 0)
    )
    assert grey != black
    # Sorted by R2, which a control has the most of: it stays below its row.
    browser.page.locator(".board thead th").nth(3).get_by_role("button").click()
    browser.page.locator(".board thead th").nth(3).get_by_role("button").click()
    names = browser.page.locator(".board tbody th").all_inner_texts()
    assert [name.split("\n")[0] for name in names] == [
        "Low", "High", "Control: linear slow features", "Control: FastICA",
    ]  # fmt: skip
    assert browser.page.locator("#count").inner_text() == "2 rows"
    browser.page.get_by_role("link", name="High", exact=True).click()
    browser.page.wait_for_url("**/methods/*")
    assert browser.page.locator("table.controls tbody tr").count() == 2
    assert "0.75 of the way from chance to 1" in browser.page.locator(".tiles").inner_text()
    assert browser.clean()


@pytest.mark.parametrize("width", [1280, 390])
def test_long_words_have_the_width_of_the_table(browser, tmp_path, width):
    scores = dict.fromkeys(("r2", "mcc", "loss_gap"), 0.9)

    def differs(result):
        return ["64 px, not 224"] * 20

    browser.screen(width, phone=width < 500)
    try:
        browser.open(
            write([record(scores=scores)], tmp_path, lambda e: {"r2": (0.9, None)}, differs=differs)
        )
        table, method, note = (
            browser.page.locator(place).first.bounding_box()["width"]
            for place in (".board", ".board tbody .method", ".board .differs td[colspan]")
        )
        assert note > 0.8 * table and method > 0.15 * table
        assert browser.clean()
    finally:
        browser.screen()


def test_the_policy_stops_a_script_even_if_one_got_in(browser, site, tmp_path):
    page = site.read_text("utf-8").replace("<main", f"{EVIL}<main", 1)
    (tmp_path / "index.html").write_text(page, "utf-8")
    browser.open(tmp_path / "index.html")
    assert browser.run("document.title") == "ident3d leaderboard"
    assert any("Content Security Policy" in text for text in browser.errors)


def test_a_missing_browser_is_named_with_its_remedy(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(RuntimeError, match="make setup"):
        Browser()
