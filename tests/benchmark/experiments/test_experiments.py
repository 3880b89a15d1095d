from dataclasses import replace

import numpy as np
import pytest
import torch
from ident3d.benchmark.data import synthetic
from ident3d.benchmark.data.mixing import make_mixing
from ident3d.benchmark.encoders.theory import stretch
from ident3d.benchmark.experiments import hard_negatives
from ident3d.benchmark.experiments import marginal_study as marginals
from ident3d.benchmark.experiments import select as experiments
from ident3d.benchmark.settings.experiment import plain
from ident3d.benchmark.settings.synthetic_settings import Synthetic
from ident3d.benchmark.training import synthetic_run
from ident3d.benchmark.training.models import OBJECTIVES, make_encoder, make_objective

from ident3d.conditionals import parse
from ident3d.spaces import Sphere

SYNTHETIC = [
    (experiment, tier, settings)
    for experiment in experiments.EXPERIMENTS.values()
    for tier, settings in experiment.tiers.items()
    if isinstance(settings, Synthetic)
]


def test_every_row_of_the_issue_is_there():
    wanted = [f"table1/{row}" for row in range(1, 13)] + [f"table2/{row}" for row in range(1, 11)]
    wanted += ["table1/1/identity", "table1/1/supervised", "table2/6/supervised", "marginal/10"]
    wanted += ["bimodal", "linear", "sweep/100", "hard-negatives", "ensemble/ensemble"]
    ids = set(experiments.EXPERIMENTS)
    for name in wanted:
        assert name in ids or f"aninfonce/{name}" in ids, name


@pytest.mark.parametrize("table", ["table1", "table2"])
def test_tiers_agree_in_what_makes_a_row(table):
    for experiment in experiments.select([table]):
        paper, cpu = experiment.tiers["paper"], experiment.tiers["cpu"]
        for name in ("space", "marginal", "model_space", "similarity", "loss", "tau"):
            assert getattr(paper, name) == getattr(cpu, name), (experiment.id, name)
        families = [[c.split(":")[0] for c in s.conditionals] for s in (paper, cpu)]
        assert families[0] == families[1]


def test_paper_tier_has_the_settings_of_the_papers():
    row = experiments.EXPERIMENTS["table2/2"].tiers["paper"]
    assert (row.dim, row.batch, row.steps, row.lr, row.size) == (10, 6144, 300_000, 1e-4, 1.0)
    row = experiments.EXPERIMENTS["aninfonce/bimodal"].tiers["paper"]
    assert (row.dim, row.batch, row.steps, row.objective_lr) == (10, 1000, 300_000, 1e-3)
    assert row.true_metrics == [(5.0,) * 5 + (25.0,) * 5]


def test_published_numbers_are_fractions():
    assert experiments.published("table1/9") == {"r2": (pytest.approx(0.9902), pytest.approx(1e-4))}
    assert experiments.published("table9/1") == {}
    assert experiments.title("table1").startswith("Table 1")


def test_selection_by_id_prefix_and_pattern():
    def ids(*names):
        return [experiment.id for experiment in experiments.select(names)]

    assert ids("table1/1") == ["table1/1", "table1/1/identity", "table1/1/supervised"]
    assert ids("table1/10") == ["table1/10"]
    assert ids("table2/3", "table1/2") == ["table1/2", "table2/3"]
    assert "table1/5/supervised" in ids("*/supervised")
    with pytest.raises(ValueError, match="Did you mean 'table1/2'"):
        ids("tabel1/2")


@pytest.mark.parametrize(
    "conditional, similarity, expected",
    [
        ("normal:0.05", "l2", 1 / (0.05 * 2**0.5)),
        ("laplace:0.05", "l1", 20.0),
        ("gennorm:3:0.05", "l3", 20.0),
        ("vmf:9", "dot", 3.0),
        ("anisotropic:8,8", "dot", 4.0),
    ],
)
def test_predicted_stretch_of_matching_models(conditional, similarity, expected):
    assert stretch(parse(conditional), similarity) == pytest.approx(expected)


@pytest.mark.parametrize("conditional", ["normal:0.05", "laplace:0.05", "gennorm:3:0.05"])
@pytest.mark.parametrize("p", [1, 2, 3])
def test_predicted_stretch_is_the_most_likely_one(conditional, p):
    noise = parse(conditional).sample(
        np.zeros((200_000, 1)), np.random.default_rng(0), synthetic.parse_space("unbounded")
    )
    scales = np.linspace(5, 60, 1101)
    moment = (np.abs(noise) ** p).mean()
    likelihood = np.log(scales) - scales**p * moment  # of exp(-|s d|^p), normalised by s
    best = scales[likelihood.argmax()]
    assert stretch(parse(conditional), f"l{p}") == pytest.approx(best, rel=0.02)


@pytest.mark.parametrize("experiment, tier, settings", SYNTHETIC[::7])
def test_models_of_experiments_can_be_built(experiment, tier, settings):
    small = replace(settings, batch=4)
    mixing = make_mixing(settings.dim, np.random.default_rng(0), draws=2)
    encoder = make_encoder(small, mixing, 0)
    if settings.loss == "identity":
        assert settings.loss not in OBJECTIVES
        return
    batch = next(synthetic.batches(small.process, mixing, 4, 0)(0))
    embedded = [encoder(view) for view in batch.views]
    assert torch.isfinite(make_objective(small)(embedded, batch.latents))


def test_a_batch_depends_on_seed_and_step_alone():
    settings = experiments.EXPERIMENTS["table2/3"].tiers["cpu"]
    mixing = make_mixing(settings.dim, np.random.default_rng(0), draws=2)
    source = synthetic.batches(settings.process, mixing, 8, 3)
    stream = source(0)
    third = [next(stream) for _ in range(3)][2]
    again = next(source(2))
    assert torch.equal(third.views[1], again.views[1])
    other = next(synthetic.batches(settings.process, mixing, 8, 4)(2))
    assert not torch.equal(third.views[1], other.views[1])


def test_a_whitened_encoder_starts_as_a_rotation():
    settings = replace(experiments.EXPERIMENTS["table1/5"].tiers["cpu"], size=1.0)
    mixing = make_mixing(settings.dim, np.random.default_rng(0), draws=2)
    encoder = make_encoder(settings, mixing, 0)
    rng = np.random.default_rng(1)
    features = encoder(mixing(synthetic.as_tensor(settings.process.anchors(20_000, rng))))
    torch.testing.assert_close(torch.cov(features.T), torch.eye(settings.dim), atol=0.05, rtol=0)


def test_true_latents_have_no_gap_to_themselves():
    settings = experiments.EXPERIMENTS["aninfonce/bimodal"].tiers["cpu"]
    settings = replace(settings, batch=64)
    objective = make_objective(settings)
    objective.similarity.raw.data = synthetic_run._true_similarity(settings).raw.data
    mixing = make_mixing(settings.dim, np.random.default_rng(0), draws=2)

    class Inverse(torch.nn.Linear):
        def forward(self, x):
            return mixing.inverse(x).float()

    scores = synthetic_run.against_truth(settings, mixing, Inverse(1, 1), objective, 0)
    assert scores["loss_gap"] == pytest.approx(0, abs=1e-4)
    assert scores["metric_error"] == pytest.approx(0, abs=1e-5)


def test_blocks_are_dimensions_that_no_process_tells_apart():
    settings = experiments.EXPERIMENTS["aninfonce/ensemble/ensemble"].tiers["cpu"]
    assert settings.blocks == [[0, 1], [2, 3, 4], [5, 6, 7]]


def test_hard_negatives_move_the_optimum_to_the_difference():
    settings = hard_negatives.HardNegatives(steps=10, anchors=3000)
    scores = hard_negatives.run(settings, 0, None, "")["scores"]
    assert scores["optimum"] == pytest.approx(50, rel=0.05)


def test_mass_difference_equals_a_count_of_samples():
    rng = np.random.default_rng(0)
    anchors = np.tile(Sphere().centre(4), (200_000, 1))
    heights = parse("vmf:5").sample(anchors, rng, Sphere())[:, 0]
    uniform = Sphere().uniform(200_000, 4, rng)[:, 0]
    bins = np.linspace(-1, 1, 41)
    counts = [np.histogram(h, bins)[0] / 200_000 for h in (heights, uniform)]
    expected = np.abs(counts[0] - counts[1]).sum() / 2
    assert marginals.mass_difference(5, 4) == pytest.approx(expected, abs=0.01)


def test_settings_are_changed_by_text():
    experiment = experiments.EXPERIMENTS["table1/5"]
    changes = {"steps": "7", "widths": "8,9", "size": "none", "learnable": "false"}
    changed = experiment.settings("paper", changes)
    assert (changed.steps, changed.widths, changed.size) == (7, (8, 9), None)
    assert plain(changed)["widths"] == [8, 9]
    with pytest.raises(ValueError, match="`steps` must be of type int"):
        experiment.settings("paper", {"steps": "many"})
    with pytest.raises(ValueError, match="`setting` must be one of"):
        experiment.settings("paper", {"stepz": "1"})


@pytest.mark.slow
def test_a_row_reaches_its_bar_in_a_few_hundred_steps():
    settings = experiments.EXPERIMENTS["table1/5"].settings("cpu", {"steps": "300"})
    scores = synthetic_run.run(settings, 0, None, "")["scores"]
    assert scores["r2"] > 0.98
    assert scores["mcc"] < 0.9


def test_hard_negatives_join_half_way_in_the_paper_tier():
    process = experiments.EXPERIMENTS["aninfonce/hard-negatives/with"].settings("paper").process
    rng = np.random.default_rng(0)
    assert [len(view) for view in process.views(4, rng, step=149_999)] == [4, 4]
    assert [len(view) for view in process.views(4, rng, step=150_000)] == [4, 4, 12]
