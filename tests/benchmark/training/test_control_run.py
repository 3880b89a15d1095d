import numpy as np
from click.testing import CliRunner
from ident3d.benchmark.commands.benchmark_command import benchmark
from ident3d.benchmark.experiments import EXPERIMENTS
from ident3d.benchmark.results import load_all
from ident3d.benchmark.training import control_run

NAMES = {
    "Control: identity",
    "Control: untrained encoder",
    "Control: linear slow features",
    "Control: random-feature slow features",
    "Control: FastICA",
    "Control: slow features, turned by FastICA",
}


def controls(*arguments):
    done = CliRunner().invoke(benchmark, ["controls", *map(str, arguments)])
    assert done.exit_code == 0, done.exception
    return done.output


def test_controls_of_a_synthetic_row(tmp_path, monkeypatch):
    monkeypatch.setattr(control_run, "PAIRS", 2_000)
    output = controls("table1/5", "--tier", "cpu", "--out", tmp_path, "--set", "dim=3")
    assert "supervised" not in output  # it stands beside those of table1/5
    found = load_all(tmp_path)
    assert {r.method for r in found} == NAMES and len(found) == 2 * len(NAMES)
    assert all(r.control and r.scores["mcc"] is not None for r in found)
    assert all("steps" not in r.settings and r.settings["control"]["words"] for r in found)
    r2 = {r.method: r.scores["r2"] for r in found if r.protocol == "held-out"}
    assert r2["Control: random-feature slow features"] > r2["Control: linear slow features"] > 0.3


def test_controls_of_an_image_row(data, tmp_path):
    controls("table4/1", "--tier", "tiny", "--data", data, "--out", tmp_path)
    found = {r.method: r for r in load_all(tmp_path) if r.protocol == "held-out"}
    assert set(found) == NAMES
    identity = found["Control: identity"]
    assert identity.scores["r2"] > 0.5 and identity.scores["mcc"] is None
    assert "ridge" in identity.settings["control"]["fit"]
    assert "768 values" in identity.settings["control"]["words"]  # 16 x 16 x 3
    slow = found["Control: linear slow features"]
    assert slow.scores["r2"] > 0.5
    assert slow.settings["control"]["observations"] in [
        f"pixels averaged to {side} x {side}" for side in control_run.SIDES
    ]
    assert slow.data["resolution"] == 16


def test_controls_learn_from_the_rows_that_the_row_has(data):
    row = EXPERIMENTS["table4/1"].tiers["tiny"].read({"data": str(data), "rows": "128"})
    for anchors, positives in control_run._coarse_pairs(control_run.Splits(row), 0).values():
        assert len(anchors) == len(positives) == len(np.unique(anchors, axis=0)) == 128


def test_only_rows_that_learn_from_pairs_have_controls():
    with_controls = {
        row.id
        for row in EXPERIMENTS.values()
        if any(map(control_run.has_controls, row.tiers.values()))
    }
    assert {"table1/1", "table2/10", "table4/5", "marginal/0"} <= with_controls
    left_out = {"table1/1/identity", "table1/1/supervised", "table4/random"}
    assert not with_controls & (left_out | {"aninfonce/hard-negatives"})


def test_the_change_of_slow_features_is_that_of_pairs_which_they_have_not_seen():
    rng = np.random.default_rng(0)
    slow = rng.uniform(-1, 1, (500, 2))
    anchors, positives = (
        np.column_stack([slow + 0.1 * rng.normal(size=slow.shape), rng.normal(size=(500, columns))])
        for columns in (300, 300)
    )
    few = control_run.kept_change(anchors[:, :4], positives[:, :4], 2)
    assert 0.05 < few < 0.3  # 2 dimensions, each 2 * 0.1² of a variance of 1/3
    assert control_run.kept_change(anchors, positives, 2) > 3 * few  # noise that was fitted
