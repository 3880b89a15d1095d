import pytest
from ident3d.benchmark.experiments import EXPERIMENTS
from ident3d.benchmark.report.differences import differences
from ident3d.benchmark.settings.composed import plain


def of(experiment, tier, data=None, **changes):
    tiers = EXPERIMENTS[experiment].tiers
    return differences(plain(tiers[tier].with_(**changes)), plain(tiers["paper"]), data)


def test_the_paper_tier_differs_in_nothing():
    assert of("table1/1", "paper") == of("table4/1", "paper", {"resolution": 224}) == []


def test_a_synthetic_row_says_what_differs():
    words = "; ".join(of("table2/3", "cpu", dim=4, steps=2000, self_negative=False))
    for part in ("N = 4, not 10", "batch 512, not 6,144", "2,000 steps, not 300,000"):
        assert part in words
    assert "encoder, not mlp" in words and "self-negatives: no, not yes" in words


def test_an_image_row_says_what_differs():
    words = "; ".join(of("table4/1", "tiny", {"resolution": 64}))
    for part in ("3 of 10 factors", "64 px, not 224", "compact encoder, not resnet18"):
        assert part in words
    assert "exact pairs, not nearest" in words and "normal:0.2, not normal:0.1" in words


@pytest.mark.parametrize(
    ("experiment", "changes"),
    [
        ("table4/1", {"loss": "supervised"}),
        ("table4/1", {"test": "train"}),
        ("table4/1", {"splits": ("test",)}),
        ("table4/1", {"rows": 1_000}),
        ("table4/1", {"hard": "normal:0.3"}),
        ("table4/1", {"hard_count": 3}),
        ("table4/1", {"symmetric": True}),
        ("table4/1", {"include_positive": False}),
        ("table4/1", {"root": True}),
        ("table4/1", {"norm_rows": 8}),
        ("table4/1", {"seconds": 60.0}),
        ("table4/1", {"clip": 1e-4}),
        ("table1/5", {"objective_lr": 0.1}),
        ("table1/5", {"turned": True}),
        ("table1/5", {"opposite": True}),
        ("table1/5", {"scored": 64}),
    ],
)
def test_a_setting_that_can_move_a_score_is_said(experiment, changes):
    assert len(of(experiment, "paper", {"resolution": 224}, **changes)) == 1


def test_where_and_how_it_is_computed_is_not_said():
    changes = {"device": "cuda", "micro_batch": 64, "evaluations": 3}
    assert of("table4/1", "paper", {"resolution": 224}, **changes) == []


def test_of_what_is_not_trained_no_training_is_said():
    assert of("table1/1/identity", "cpu") == of("table2/1/identity", "cpu") == []
    assert of("table4/pixels", "medium", {"resolution": 64}) == ["64 px, not 224"]
    (words,) = of("table4/random", "tiny", {"resolution": 224}, dim=10)
    assert words == "compact encoder, not resnet18"


def test_a_start_and_outputs_of_our_own_are_said():
    assert "300 steps with many outputs before them" in of("table4/1", "demo")
    further = "further outputs in training, for what the model's own do not tell"
    assert {"outputs whitened", further} <= {*of("table4/1", "medium")}
    assert not {"outputs whitened"} & {*of("table4/1", "demo"), *of("table4/supervised", "medium")}


def test_settings_of_strangers_may_be_anything():
    assert differences({"encoder": "x:y"}, {"steps": 1}) == ["its settings are not stated"]
    odd = {"steps": {"a": [1]}, "dim": "many", "widths": None, "batch": True}
    assert differences(odd, plain(EXPERIMENTS["table1/1"].tiers["paper"]))
