import pytest
from ident3d.benchmark.experiments import amount, corners, marginal
from ident3d.benchmark.results import load_all

from ident3d.errors import DataError
from ident3d.factors import FACTORS
from tests.support.pages import ROOT
from tests.support.samples import record


def test_the_marginal_figure_draws_its_controls(tmp_path):
    def made(kappa, r2, protocol="held-out", **changes):
        scores = {"r2": r2, "concentration": kappa, "mass_difference": 0.5}
        fields = {"experiment": f"marginal/{kappa}", "protocol": protocol, "scores": scores}
        return record(**fields | changes)

    untrained = {"method": "Control: untrained encoder", "control": True, "scores": {"r2": 0.82}}
    results = [made(10, 0.75), made(0, 0.99), made(10, 0.1, "as-released")]
    results += [made(10, 0.82, **untrained)]
    assert [point[:2] for point in marginal.points(results)] == [(0, 0.99), (10, 0.75)]
    assert marginal.control_points(results, "Control: untrained encoder") == [(10.0, 0.82)]
    assert marginal.control_points(results, "Control: identity") == []
    marginal.draw(results, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000


def test_the_corners_figure_joins_the_study_and_the_tables_rows(tmp_path):
    def made(row, batch, steps, mcc, seed=0, **changes):
        settings = {"batch": batch, "steps": steps}
        return record("InfoNCE", row, seed, mcc=mcc, settings=settings, **changes)

    results = [
        made("corners/3/b512-s6000", 512, 6000, 0.9),
        made("table2/3", 512, 3000, 0.7),
        made("table2/3", 512, 3000, 0.5, seed=1),
        made("corners/5/b128-s1500", 128, 1500, 0.6),
        made("corners/3/b512-s750", 512, 750, 0.4, protocol="as-released"),
        made("table2/3", 512, 10, 0.1, control=True),
        made("table2/3/turned", 512, 20, 0.1),
        made("table2/6", 512, 30, 0.1),
    ]
    assert corners.points(results) == {
        ("3", 512): [(3000, pytest.approx(0.6)), (6000, 0.9)],
        ("5", 128): [(1500, 0.6)],
    }
    corners.draw(results, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000
    with pytest.raises(DataError, match="benchmark run corners"):
        corners.points(results[-2:])


def test_the_amount_figure_joins_the_study_and_table_4(tmp_path):
    def made(row, r2, pairs=None, steps=amount.STEPS, beyond=3.0, **changes):
        scores = {"r2": r2, "mcc": r2, "r2_per_factor": {factor.name: r2 for factor in FACTORS}}
        settings = {"rows": pairs, "steps": steps, "beyond": beyond}
        told = {"tier": "medium", "scores": scores, "settings": settings}
        return record(experiment=row, **told | changes)

    results = [
        made("table4/1", 0.8, curves={"step": [1, 2], "r2": [0.1, 0.8]}),
        made("table4/1", 0.1, tier="small"),
        made("table4/1", 0.6, beyond=None),
        made("table4/1", 0.7, steps=3, beyond=None),
        made("table4/1", 0.2, seed=1),
        made("table4/2", 0.3),
        made("amount/contrastive/1250", 0.5, 1250),
        made("amount/contrastive/1250", 0.4, 1250, protocol="as-released"),
        made("table4/supervised", 0.9),
    ]
    found = amount.points(results)
    shown = {(word, n): r.scores["r2"] for word, rows in found.items() for n, r in rows.items()}
    assert shown == {
        ("contrastive", (25_000, 3)): 0.7, ("contrastive", (25_000, 1500)): 0.8,
        ("contrastive", (1250, 1500)): 0.5, ("supervised", (25_000, 1500)): 0.9,
    }  # fmt: skip
    linear = {"control": True, "method": "Control: linear slow features"}
    results += [
        made("table4/1", 0.3, **linear),
        made("amount/contrastive/1250", 0.25, 1250, **linear),
        made("amount/supervised/1250", 0.1, 1250, **linear),
        made("table4/1", 0.1, control=True, method="Control: FastICA"),
        made("table4/1", 0.1, tier="small", **linear),
    ]
    control = amount.linear_control(results)
    assert {pairs: result.scores["r2"] for pairs, result in control.items()} == {
        1250: 0.25,
        25_000: 0.3,
    }
    rows = [line.split(" | ")[:3] for line in amount.table(results).splitlines()[2:]]
    assert rows == [
        ["| 2,500", "contrastive", "0.500"],
        ["| 50,000", "contrastive", "0.800"],
        ["| 50,000", "supervised", "0.900"],
        ["| 2,500", "linear slow features", "0.250"],
        ["| 50,000", "linear slow features", "0.300"],
    ]
    amount.draw(results, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000
    with pytest.raises(DataError, match="benchmark run amount"):
        amount.points(results[1:2])


def test_the_manual_has_the_table_of_amounts_that_its_records_give():
    table = amount.table(load_all(ROOT / "docs" / "records" / "medium", []))
    assert table in (ROOT / "docs" / "images.md").read_text()
