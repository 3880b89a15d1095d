import json
import re
from html.parser import HTMLParser

import pytest
from click.testing import CliRunner
from ident3d.benchmark.commands.report_command import report
from ident3d.benchmark.report import plots, svg, tables, write
from ident3d.benchmark.report.markdown import escape, markdown
from ident3d.benchmark.results import Result
from ident3d.benchmark.scoring import scores
from msgspec.structs import fields
from PIL import Image

from ident3d.errors import DataError
from tests.support.samples import record

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'`{{7*7}}"


class Page(HTMLParser):
    """Collects the elements of a page and complains about tags that do not match."""

    VOID = ("meta", "link", "input", "img", "br")

    def __init__(self, path):
        super().__init__()
        self.found, self.open, self.words = [], [], []
        self.feed(path.read_text("utf-8"))
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.found if name == tag]


def test_rows_average_their_seeds():
    rows = tables.build([record(seed=s, r2=v) for s, v in enumerate((0.8, 0.9, 1.0))])[0].rows
    assert len(rows) == 1
    mean, std = rows[0].score("r2")
    assert mean == pytest.approx(0.9) and std == pytest.approx(0.1)
    assert rows[0].seconds == pytest.approx(120)


def test_what_was_not_computed_stays_empty():
    (table,) = tables.build([record(scores={"r2": None, "mcc": 0.5}, seconds=None)])
    assert table.rows[0].score("r2") == (None, None)
    assert table.rows[0].score("mcc") == (0.5, None)
    assert tables.show_pair("r2", None, None) == "—"


def test_rows_that_would_look_the_same_tell_their_difference():
    runs = [record(settings={"steps": steps, "rate": 1}) for steps in (10, 20)]
    (table,) = tables.build(runs)
    assert sorted(row.note for row in table.rows) == ["steps 10", "steps 20"]
    (table,) = tables.build([record()])
    assert table.rows[0].note == ""


def test_tables_are_in_the_order_of_the_experiments_best_first():
    runs = [record(experiment=f"table1/{n}") for n in (10, 2, 1)]
    runs += [record("b", "table1/2", r2=0.99), record(experiment="aninfonce/1")]
    first, second = tables.build(runs)
    order = [(row.first.experiment, row.first.method) for row in first.rows]
    assert order == [
        ("table1/1", "InfoNCE"), ("table1/2", "b"), ("table1/2", "InfoNCE"),
        ("table1/10", "InfoNCE"),
    ]  # fmt: skip
    assert second.family == "aninfonce"


def test_the_site_holds_scores_published_numbers_and_links_that_work(tmp_path):
    results = [record(seed=0), record(seed=1, r2=0.94), record("Other", "table4/2")]
    index = write(results, tmp_path, lambda e: {"r2": (0.9673, 0.001)}, lambda e: f"About {e}")
    page = Page(index)
    words = " ".join(page.words)
    assert "92.00" in words and "± 2.83" in words and "96.73" in words and "About table4" in words
    links = {a["href"] for a in page.all("a") if a["href"].startswith("methods/")}
    assert len(links) == 2
    for link in links:
        path, _, anchor = link.partition("#")
        other = Page(tmp_path / path)
        assert any(attributes.get("id") == anchor for _, attributes in other.found)


def test_factors_are_shown_in_their_own_order_whatever_a_file_has():
    scores = {"r2": 0.5, "r2_per_factor": {"alpha": 0.1, "other": 0.2, "x": 0.9}}
    (table,) = tables.build([record(scores=scores, factors=["x", "alpha"])])
    assert [name for name, *_ in plots.per_factor(table.rows[0])] == ["x", "alpha", "other"]


def test_a_method_page_draws_everything_and_gives_the_command(tmp_path):
    write([record(seed=s) for s in range(2)], tmp_path)
    (path,) = (tmp_path / "methods").iterdir()
    page = Page(path)
    labels = [a["aria-label"] for a in page.all("svg") if "aria-label" in a]
    for start in ("loss over", "R² over", "Predicted against true x", "Correlation", "Learned"):
        assert any(label.startswith(start) for label in labels), start
    assert "ident3d benchmark run table4/1 --seed 1" in page.words
    assert "optimizer.rate" in page.words


def test_numbered_curves_share_a_panel(tmp_path):
    curves = {"step": [0, 1, 2]} | {f"metric_{i}": [i, i, None] for i in range(11)}
    write([record(curves=curves)], tmp_path)
    (path,) = (tmp_path / "methods").iterdir()
    labels = [a.get("aria-label", "") for a in Page(path).all("svg")]
    assert [label for label in labels if "over training steps" in label] == [
        "metric over training steps, 11 lines."
    ]


def test_a_curve_of_few_known_points_is_drawn_or_left_out():
    for known in (1, 999):  # of 1,000 points a fourth is drawn, and the last
        loss = [None] * 1000
        loss[known] = 0.5
        drawn = plots.curve([record(curves={"loss": loss})], "loss")
        assert (drawn is not None) == (known == 999)


def test_scores_are_named_for_people():
    assert scores.describe("mcc_spearman").label == "MCC (Spearman)"
    assert scores.describe("my_own_score").label == "my own score"
    assert tables.show("kernel_r2", 0.5) == "50.00"
    assert tables.show("loss", 0.5) == "0.5"
    assert [tables.show_time(t) for t in (0.25, 60, 5400, None)] == [
        "0.25 s",
        "1 min",
        "1 h 30 min",
        "—",
    ]


def test_a_bare_record_makes_a_page_too(tmp_path):
    optional = [field.name for field in fields(Result) if field.default is None]
    bare = dict.fromkeys(optional)
    Page(write([record(scores={}, **bare)], tmp_path))
    Page(next((tmp_path / "methods").iterdir()))


def test_every_string_of_a_stranger_is_escaped(tmp_path):
    evil = record(
        method=EVIL[:100],
        experiment=EVIL[:100] + "/x",
        tier=EVIL[:60],
        scores={"r2": 0.5, EVIL[:90]: 0.1, "r2_per_factor": {EVIL[:80]: 0.2}},
        data={"name": EVIL, "fingerprint": EVIL},
        settings={EVIL[:90]: {EVIL[:60]: EVIL}},
        curves={"step": [1, 2], EVIL[:80]: [1, 2]},
        factors=[EVIL[:80]] * 10,
        environment={EVIL[:80]: [EVIL]},
        commit=EVIL[:60],
        command=EVIL,
    )
    index = write([evil, record()], tmp_path)
    for path in (index, *(tmp_path / "methods").iterdir()):
        page = Page(path)
        assert len(page.all("script")) == 1 and page.all("script")[0] == {}
        assert not [a for _, a in page.found if any(name.startswith("on") for name in a)]
        assert not page.all("img")
    text = (tmp_path / "leaderboard.md").read_text()
    assert "<" not in text and not re.search(r"(?<!\\)`", text)


@pytest.mark.parametrize("name", ["../../x", "/etc/passwd", "a/../../b", "..", "con", "%2e%2e"])
def test_no_name_leaves_the_folder(tmp_path, name):
    write([record(method=name, experiment=name)], tmp_path / "site")
    written = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    assert {"site/index.html", "site/leaderboard.md"} < written and len(written) == 3
    assert [p.name for p in tmp_path.iterdir()] == ["site"]


def test_numbers_as_large_as_a_record_may_hold_are_drawn(tmp_path):
    wild = {"r2": -1e100, "mcc": 1e100, "r2_per_factor": {"x": -1e99, "y": None}}
    curves = {"step": [0, 0, 0], "loss": [1e100, -1e100, None], "r2": [None] * 3}
    run = record(
        scores=wild, curves=curves, seconds=0, metric=[1e100, -5, None], metric_true=[None],
        correlation=[[1e9, None]], points={"true": [[0.0] * 3], "predicted": [[1e100] * 3]},
    )  # fmt: skip
    index = write([run, record(seconds=1e12)], tmp_path)
    for path in (index, *(tmp_path / "methods").iterdir()):
        assert not re.search(r'="[^"]*\b(nan|inf)\b', path.read_text())


def test_markdown_is_a_table_with_as_many_cells_in_each_line():
    text = markdown(tables.build([record("a|b"), record(experiment="table1/1")]))
    lines = [re.sub(r"\\\|", "", line) for line in text.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in lines}) == 1
    assert escape("[x](http://y)") == "\\[x\\](http\\://y)"


def test_the_correlation_matrix_is_ordered_by_its_matches():
    swap = [[0.1, 0.9, 0.0], [0.0, 0.2, 0.8], [0.7, 0.1, 0.1]]
    drawn = str(plots.correlation(record(correlation=swap, factors=["a", "b", "c"])))
    assert "Matched: a 0.90, b 0.80, c 0.70." in drawn
    heads = re.findall(r'y="13" class="tick" text-anchor="middle">(\d+)<', drawn)
    assert heads == ["2", "3", "1"]


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3, 5), (0, 0), (1e-9, 2e-9), (-1e9, 1e9)])
def test_ticks_are_few_and_inside(low, high):
    found = svg.ticks(low, high)
    assert 1 <= len(found) <= 9
    if high > low:
        room = 1e-6 * (high - low) + 1e-9
        assert all(low - room <= tick <= high + room for tick in found)


def test_figure_and_audit_are_shown(tmp_path):
    Image.new("RGB", (30, 20), "teal").save(tmp_path / "made.png")
    factors = [{"name": "x", "served": 0.25}, {"name": "y", "served": None}]
    audit = {"conditional": "normal:0.1", "std_served": 0.196, "per_factor": factors}
    audit |= {"nested": {"a": {"b": [1, {"c": True}]}}, "groups": {"g": {"std": 0.5}}}
    (tmp_path / "audit.json").write_text(json.dumps(audit))
    index = write(
        [record()], tmp_path / "s", figure=tmp_path / "made.png", audit=tmp_path / "audit.json"
    )
    page = Page(index)
    assert page.all("img")[0]["src"] == "traversals.png"
    assert page.all("img")[0]["width"] == "30"
    assert (tmp_path / "s" / "traversals.png").is_file()
    assert {"std served", "0.196", "per factor", "served", "0.25", "yes", "g"} <= set(page.words)


def test_a_figure_must_be_a_png(tmp_path):
    (tmp_path / "x.png").write_text("<svg onload=alert(1)>")
    with pytest.raises(DataError, match="no whole PNG"):
        write([record()], tmp_path / "s", figure=tmp_path / "x.png")
    with pytest.raises(ValueError, match="`figure` must be a PNG file"):
        write([record()], tmp_path / "s", figure=tmp_path / "none.png")


def test_the_command_leaves_out_what_is_bad_and_says_so(tmp_path):
    record(experiment="table1/1", tier="cpu").save(tmp_path / "results")
    (tmp_path / "results" / "bad.json").write_text('{"kind": "ident3d-result", "seed": NaN}')
    Image.new("RGB", (3, 2)).save(tmp_path / "traversals.png")
    out = tmp_path / "site"
    arguments = [str(tmp_path / "results"), "--out", str(out), "--data", str(tmp_path)]
    done = CliRunner().invoke(report, arguments)
    assert done.exit_code == 0, done.output
    assert "Left out: " in done.output and "bad.json" in done.output and "(1 record)" in done.output
    page = Page(out / "index.html")
    assert "99.42" in page.words  # what table 1 of the paper says
    assert "Tier cpu" in page.words and "Protocol held-out" in page.words
    assert page.all("img")


@pytest.mark.parametrize(
    "part",
    [{"curves": {"step": [-5, -4], "loss": [1, 2]}}, {"scores": {"r2": 0.5, "r2_per_factor": 0.5}}],
    ids=["steps below zero", "a number for a table"],
)
def test_an_entry_that_no_page_can_draw_leaves_the_others_on_it(tmp_path, part):
    record(experiment="table1/1").save(tmp_path / "results")
    bad = json.loads(record("stranger").to_json()) | part
    (tmp_path / "results" / "bad.json").write_text(json.dumps(bad))
    arguments = [str(tmp_path / "results"), "--out", str(tmp_path / "site")]
    done = CliRunner().invoke(report, arguments)
    assert done.exit_code == 0, done.output
    assert "Left out: " in done.output and "bad.json" in done.output and "(1 record)" in done.output


def test_a_score_that_is_a_number_in_one_seed_and_a_table_in_another_is_shown(tmp_path):
    kinds = [0.5, {"a": 0.5}]
    write([record(seed=n, scores={"mine": mine}) for n, mine in enumerate(kinds)], tmp_path)
    page = Page(next((tmp_path / "methods").iterdir()))
    assert "mine" in page.words and "—" in page.words


def test_limits_the_wrong_way_round_are_turned():
    panel = svg.Panel((0, -4), (1, 1))
    assert panel.xlim == (-4, 0) and panel.ylim[0] < panel.ylim[1]
    assert svg.ticks(0, -4) == svg.ticks(-4, 0)


def test_no_results_are_refused(tmp_path):
    with pytest.raises(ValueError, match="at least one record"):
        write([], tmp_path)


def control(name="linear slow features", experiment="table4/1", **changes):
    words = {"words": "no gradient", "observations": "pixels averaged to 8 x 8"}
    fields = {"settings": {"control": words, "dim": 10}, "control": True} | changes
    return record(f"Control: {name}", experiment, r2=0.5, mcc=0.4, **fields)


def test_controls_stand_with_the_rows_on_their_data_and_are_never_ranked():
    runs = [record(r2=0.3), record("b", r2=0.9), record("c", "table4/2"), record("d", seed=3)]
    runs += [control(), control("FastICA"), control(experiment="table4/2")]
    (table,) = tables.build(runs)
    assert [row.first.method for row in table.rows] == ["b", "d", "InfoNCE", "c"]
    assert [row.leads and len(row.controls) for row in table.rows] == [2, False, False, 1]
    assert all(len(row.controls) == 2 for row in table.rows[:3])


def test_rows_without_controls_of_their_own_have_their_parents_or_their_familys():
    synthetic = {"data": None, "settings": {"dim": 10, "steps": 1}}
    runs = [record(experiment="table1/1/supervised", **synthetic), record("x", "table4/other")]
    runs += [control(experiment="table1/1", data=None), control(experiment="table4/1")]
    first, second = tables.build(runs)
    assert [len(row.controls) for row in (*first.rows, *second.rows)] == [1, 1]
    other = record(experiment="table1/1", data=None, settings={"dim": 4})
    (table,) = tables.build([other, runs[2]])
    assert [row.first.control for row in table.rows] == [False, True]  # other data: it stands alone
    assert table.rows[0].controls == ()


def test_tiers_are_tables_of_their_own_the_largest_first():
    runs = [record(tier=tier) for tier in ("tiny", "paper", "mine")]
    built = tables.build(runs, tiers=["tiny", "small", "paper"])
    assert [table.tier for table in built] == ["paper", "tiny", "mine"]


def test_a_published_number_is_marked_on_the_bar_only_where_nothing_differs(tmp_path):
    def differs(result):
        return ["N = 4, not 10"] if result.tier == "small" else []

    runs = [record(), record(tier="paper")]
    index = write(runs, tmp_path, lambda e: {"r2": (0.9673, 0.001)}, differs=differs)
    page, text = Page(index), index.read_text()
    assert text.count('class="mark"') == 1 and text.count("Not as published: N = 4, not 10.") == 1
    assert "Published, at full size" in page.words
    assert "not as published: N = 4, not 10" in (tmp_path / "leaderboard.md").read_text()


def test_old_records_are_shown_under_todays_names():
    old = [record(protocol=name, version=1) for name in ("clean", "paper")]
    rows = tables.build(old)[0].rows
    assert [row.protocol for row in rows] == ["held-out", "paper (schema 1: fitted in-sample)"]


def test_a_score_stands_between_chance_and_one():
    row = tables.build([record(mcc=0.9)])[0].rows[0]
    assert row.above_chance("mcc") == "0.75 of the way from chance to 1"
    assert row.above_chance("r2") == "" and row.chance("mcc") == (0.5931, 0.6523)
    low = tables.build([record(mcc=0.438)])[0].rows[0]
    assert low.above_chance("mcc") == "at or below chance"
    unknown = tables.build([record(correlation=None)])[0].rows[0]  # more than 256 dimensions
    assert unknown.chance("mcc") is None and unknown.above_chance("mcc") == ""
    assert row.chance("mcc_block") is None
    two = record(settings={"conditionals": ["anisotropic:5,5,5,5,5,25,25,25,25,25"]})
    assert tables.build([two])[0].rows[0].chance("mcc_block") == (0.7871, 0.8418)
    no_matrix = record(settings=two.settings, correlation=None)
    assert tables.build([no_matrix])[0].rows[0].chance("mcc_block") == (0.7871, 0.8418)


def test_the_learned_metric_is_drawn_at_the_place_of_its_match():
    drawn = str(plots.metric([record(metric=[3, 1, 2], metric_true=[1, 2, 3])]))
    assert "first seed: 3, 1, 2." in drawn
