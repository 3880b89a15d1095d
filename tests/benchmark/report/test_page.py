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
    head(browser, 4).get_by_role("button").click()
    assert browser.run(METHODS) == "cove arch bay none"
    assert head(browser, 4).get_attribute("aria-sort") == "descending"
    head(browser, 4).get_by_role("button").click()
    assert browser.run(METHODS) == "bay arch cove none"  # what was not computed stays last
    head(browser, 1).get_by_role("button").click()
    assert browser.run(METHODS) == "arch bay cove none"
    assert head(browser, 1).get_attribute("aria-sort") == "ascending"
    assert head(browser, 4).get_attribute("aria-sort") == "none"
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


def test_the_policy_stops_a_script_even_if_one_got_in(browser, site, tmp_path):
    page = site.read_text("utf-8").replace("<main", f"{EVIL}<main", 1)
    (tmp_path / "index.html").write_text(page, "utf-8")
    browser.open(tmp_path / "index.html")
    assert browser.run("document.title") == "ident3d leaderboard"
    assert any("Content Security Policy" in text for text in browser.errors)


def test_five_hundred_records_open_in_under_a_second(browser, tmp_path):
    # One method keeps its drawings: its page, of 20 experiments, must open as fast as the index.
    results = [
        record(
            f"Method {number % 25}",
            f"table{1 + number % 25 % 5}/{number // 25}",
            **{} if number % 25 == 7 else {"points": None, "correlation": None, "curves": None},
        )
        for number in range(500)
    ]
    index = write(results, tmp_path)
    (method,) = (tmp_path / "methods").glob("table3-method-7-*.html")
    assert browser.opening_time(index, tries=6) < 1000
    assert browser.run("document.querySelectorAll('.board tbody tr').length") == 500
    assert browser.opening_time(method, tries=6) < 1000
    assert browser.run("document.querySelectorAll('article').length") == 20


def test_a_missing_browser_is_named_with_its_remedy(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(RuntimeError, match="make setup"):
        Browser()
