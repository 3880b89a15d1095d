import json

import numpy as np
import pytest
from click.testing import CliRunner

from ident3d.commands.audit_command import audit as command
from ident3d.conditionals import Anisotropic, Fixed, Laplace, Normal
from ident3d.pairs import Pairs
from ident3d.pairs.audit import audit
from ident3d.spaces import Sphere, project
from tests.support.helpers import latent_data


def make_data(rows=3_000, **given):
    return latent_data(rows, **given)


def run(*arguments):
    return CliRunner().invoke(command, list(map(str, arguments)))


def test_methods_side_by_side():
    found = audit(make_data(rendered="normal:0.2"), "normal:0.2", pairs=4_000)
    nearest, weighted, exact = found.methods
    assert [m.method for m in found.methods] == ["nearest", "weighted", "exact"]
    assert exact.ratio == pytest.approx(1, abs=0.02)
    assert 1.1 < weighted.ratio < nearest.ratio
    assert exact.wasserstein < 0.01 < weighted.wasserstein < nearest.wasserstein
    assert exact.ks < 0.05 < nearest.ks
    assert exact.distance == 0 < nearest.distance
    assert len(found.factors) == 30


def test_measures_equal_plain_numpy():
    data = make_data(800)
    found = audit(data, Laplace(0.2), ["nearest"], pairs=1_000)
    asked, served = (found.differences[name] for name in ("requested", "nearest"))
    factor = found.factors[3]
    assert factor.requested == pytest.approx(np.sqrt(np.mean(asked[:, 3] ** 2)))
    assert factor.ratio == pytest.approx(
        np.sqrt(np.mean(served[:, 3] ** 2)) / np.sqrt(np.mean(asked[:, 3] ** 2))
    )
    # With equally many points on either side, W1 is the mean distance of the sorted values.
    sorted_gap = np.abs(np.sort(asked[:, 3]) - np.sort(served[:, 3])).mean()
    assert factor.wasserstein == pytest.approx(sorted_gap)
    rows = {tuple(row) for row in data.latents.astype(np.float64).round(6)}
    anchors = np.random.default_rng([0, 0]).integers(800, size=1_000)
    positives = data.latents[anchors].astype(np.float64) + served
    assert all(tuple(row) in rows for row in positives.round(6))


def test_share_on_the_anchor_equals_brute_force():
    data = make_data(400)
    found = audit(data, Normal(0.25), ["nearest"], pairs=500, seed=4)
    anchors = np.random.default_rng([4, 0]).integers(400, size=500)
    drawn = Normal(0.25).sample(data.latents[anchors], np.random.default_rng([4, 2]))
    squares = np.square(drawn[:, None] - data.latents[None]).sum(-1)
    assert found.methods[0].on_anchor == (squares.argmin(1) == anchors).mean()


def test_advice_says_it_plainly():
    advice = " ".join(audit(make_data(), "normal:0.1", pairs=2_000).advice())
    assert "times the spread requested" in advice
    assert "closest to their own anchor" in advice
    assert "`ident3d render OUT --pairs normal:0.1`" in advice
    assert "rows to come within 10%, or, with the rows there are, a conditional with" in advice


def test_no_spread_is_advised_that_no_box_has():
    advice = audit(make_data(30), "normal:0.1", ["nearest"], pairs=500).advice()
    assert advice[-1].endswith("rows to come within 10%.")


def test_faithful_pairs_need_no_advice():
    advice = audit(make_data(rendered="normal:0.1"), None, ["exact"], pairs=2_000).advice()
    assert len(advice) == 1
    assert "serves the spread requested" in advice[0]


def test_pairs_that_are_too_narrow_are_called_so():
    data = make_data(rendered="normal:0.2")
    data.pairs.latents = data.latents + 0.5 * (data.pairs.latents - data.latents)
    (line,) = audit(data, None, ["exact"], pairs=2_000).advice()
    assert "only 50% of the spread" in line


@pytest.mark.slow
def test_a_quarter_million_rows_serve_twice_what_is_requested():
    result = run("--rows", 250_000, "--conditional", "normal:0.1", "--pairs", 5_000)
    assert result.exit_code == 0, result.output
    assert "nearest: normal:0.1 serves twice the spread requested (0.19" in result.output
    assert "98.5%" in result.output or "98.4%" in result.output or "98.6%" in result.output
    assert "To fix it, serve rendered positives" in result.output


def test_fixed_and_constant_factors():
    data = make_data()
    data.latents[:, 4] = 0
    found = audit(data, "hue=fixed,others=normal:0.3", pairs=1_000)
    named = {(f.factor, f.method): f for f in found.factors}
    assert ("beta", "nearest") not in named
    fixed = named["object_hue", "nearest"]
    assert (fixed.requested, fixed.ratio) == (0, None)
    assert 0 < fixed.served < named["x", "nearest"].served
    assert found.methods[0].requested == pytest.approx(named["x", "nearest"].requested, rel=0.1)
    json.dumps(found.to_record(), allow_nan=False)


def test_everything_fixed():
    found = audit(make_data(), Fixed(), pairs=500)
    assert [m.method for m in found.methods] == ["nearest"]
    assert found.methods[0].ratio is None
    assert "no change at all" in found.advice()[0]


def test_methods_that_cannot_work_are_left_out():
    data = make_data()
    data.latents = project(data.latents).astype(np.float32)
    found = audit(data, Normal(0.2), pairs=500, space=Sphere())  # projected: no density
    assert [m.method for m in found.methods] == ["nearest"]


def test_classes():
    found = audit(make_data(classes=np.arange(3_000) % 5), Normal(0.3), pairs=500)
    assert found.methods[0].served > audit(make_data(), Normal(0.3), pairs=500).methods[0].served


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"conditional": Anisotropic((1.0,) * 3)}, "10 dimensions"),
        ({"conditional": Normal(0.1), "methods": ["exact"]}, "rendered positives"),
        ({"conditional": Fixed(), "methods": ["weighted"]}, "no density"),
        ({"conditional": Normal(0.1), "methods": ["augmented"]}, "`methods` must be one of"),
        ({"conditional": Normal(0.1), "pairs": 1}, "`pairs`"),
        ({"conditional": None}, "`conditional` is needed"),
    ],
)
def test_bad_arguments(arguments, match):
    with pytest.raises(ValueError, match=match):
        audit(make_data(100), **arguments)


def test_command_json_and_plot(tmp_path):
    plot = tmp_path / "audit.png"
    arguments = ("--rows", 2_000, "--conditional", "normal:0.3", "--pairs", 500)
    result = run(*arguments, "--plot", plot, "--json")
    assert result.exit_code == 0, result.output
    record = json.loads(result.output)
    assert {"requested", "served", "ratio"} <= set(record["factors"][0]) & set(record["methods"][0])
    assert [m["method"] for m in record["methods"]] == ["nearest", "weighted", "exact"]
    assert plot.read_bytes().startswith(b"\x89PNG")
    still = run("--rows", 500, "--conditional", "fixed", "--pairs", 200, "--plot", plot)
    assert still.exit_code == 0, still.exception
    by_time = run(tmp_path, "--conditional", "time:1", "--plot", plot)
    assert by_time.exit_code == 2 and "Pairs by time take neither" in by_time.output
    text = run(*arguments, "--method", "weighted").output
    assert "background_hue" in text
    assert "nearest" not in text


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ((), "either PATH or --rows"),
        (("somewhere", "--rows", 5), "either PATH or --rows"),
        (("--rows", 50), "`--conditional` is needed"),
        (("--rows", 50, "--conditional", "normal:0.1", "--plot", "x.txt"), "must end in"),
        (("--rows", 50, "--conditional", "normal:0.1", "--plot", "no/x.png"), "does not"),
        (("--rows", 50, "--conditional", "norma:0.1"), "Did you mean 'normal'"),
    ],
)
def test_command_refuses(arguments, match):
    result = run(*arguments)
    assert result.exit_code != 0
    assert match in result.output + str(result.exception)


def test_small_classes_are_audited_with_as_many_neighbours_as_they_have():
    data = make_data(40, classes=np.arange(40) % 4)
    found = audit(data, "normal:0.2", pairs=100)
    assert [(m.method, m.k) for m in found.methods] == [("nearest", None), ("weighted", 9)]
    assert any("among 9 rows" in line and "k=9" in line for line in found.advice())
    Pairs(data, "normal:0.2", 0, method="weighted", k=9)  # as advised


def test_a_class_of_two_has_nothing_to_weigh():
    data = make_data(40, classes=np.repeat([0, 1], [38, 2]))
    assert [m.method for m in audit(data, "normal:0.2", pairs=100).methods] == ["nearest"]
    with pytest.raises(ValueError, match="smallest class has one beside an anchor"):
        audit(data, "normal:0.2", ["weighted"], pairs=100)
