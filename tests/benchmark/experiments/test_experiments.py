import dataclasses
import pickle

import numpy as np
import pytest
import scipy.stats
import torch
from ident3d.benchmark.data import synthetic
from ident3d.benchmark.data.mixing import make_mixing
from ident3d.benchmark.data.synthetic import Process
from ident3d.benchmark.encoders.heads import make_head
from ident3d.benchmark.encoders.theory import stretch
from ident3d.benchmark.experiments import hard_negatives, marginal
from ident3d.benchmark.experiments import select as experiments
from ident3d.benchmark.experiments.tables_1_2 import PAPER
from ident3d.benchmark.losses import OBJECTIVES, Metric, make_objective, make_similarity
from ident3d.benchmark.results import load
from ident3d.benchmark.settings.composed import plain
from ident3d.benchmark.settings.run_settings import ImageSettings, SyntheticSettings
from ident3d.benchmark.settings.tiers import TIERS
from ident3d.benchmark.training import image_run, synthetic_run
from ident3d.benchmark.training.jobs import Job, run

from ident3d.conditionals import parse
from ident3d.spaces import Sphere, Unbounded

SYNTHETIC = [
    (experiment, tier, settings)
    for experiment in experiments.EXPERIMENTS.values()
    for tier, settings in experiment.tiers.items()
    if isinstance(settings, SyntheticSettings)
]


def test_every_run_can_be_sent_to_a_worker(tmp_path):
    for experiment in experiments.EXPERIMENTS.values():
        for tier, settings in experiment.tiers.items():
            job = Job(experiment, tier, settings, 0, tmp_path, "a command")
            assert pickle.loads(pickle.dumps(job)).key == job.key


def test_a_long_command_is_kept_in_part_and_a_setting_of_no_record_is_refused_first(tmp_path):
    row = experiments.EXPERIMENTS["table1/5/identity"]
    settings = row.tiers["cpu"].with_(scored=64)
    path = run(Job(row, "cpu", settings, 0, tmp_path, "ident3d\t" + "x" * 5_000))
    command = load(path).command
    assert command.startswith("ident3d\\tx") and command.endswith("x...") and len(command) == 4_000
    odd = dataclasses.replace(row, method="m" * 200)
    with pytest.raises(ValueError, match="`method`"):
        run(Job(odd, "cpu", settings, 0, tmp_path, ""))
    assert not list(tmp_path.glob(".running/*"))


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
        paper, cpu = (plain(experiment.tiers[tier]) for tier in ("paper", "cpu"))
        for name in ("space", "marginal", "model_space", "similarity", "loss", "tau"):
            assert paper[name] == cpu[name], (experiment.id, name)
        families = [[c.split(":")[0] for c in s["conditionals"]] for s in (paper, cpu)]
        assert families[0] == families[1]


def test_paper_tier_has_the_settings_of_the_papers():
    row = experiments.EXPERIMENTS["table2/2"].tiers["paper"]
    assert (row.training.batch, row.training.steps, row.training.lr) == (6144, 300_000, 1e-4)
    assert (row.model.dim, row.model.size) == (10, 1.0)
    row = experiments.EXPERIMENTS["aninfonce/bimodal"].tiers["paper"]
    assert (row.training.batch, row.training.steps) == (1000, 300_000)
    assert (row.model.dim, row.training.objective_lr) == (10, 1e-3)
    assert Process.read(row).metrics == [[2.5] * 5 + [12.5] * 5]  # released: a factor 1/2
    assert (row.loss.symmetric, row.loss.negatives, row.loss.tau) == (True, "both", 1.0)
    assert row.loss.metric_start == pytest.approx(0.69 / 2, abs=0.01)
    cpu = experiments.EXPERIMENTS["aninfonce/bimodal"].tiers["cpu"]
    assert Process.read(cpu).metrics == [[5.0] * 5 + [25.0] * 5]


def test_paper_tier_does_what_the_released_code_does():
    chosen = experiments.select(["table1", "table2", "table4"])
    ours = ("/without-self", "/turned")  # beside a row: what it would be if one thing were not so
    rows = {e.id: e.tiers["paper"] for e in chosen if not e.id.endswith(ours)}
    for name, row in rows.items():
        assert row.loss.self_negative and row.model.size_as == "raw", name
        assert row.loss.include_positive and not row.loss.root and row.loss.tau == 1, name
        if row.model.space == "unbounded":  # no scale
            assert (row.model.size, row.model.learnable) == (1.0, False), name
        if row.loss.name == "supervised":
            assert row.loss.anchors_only, name
            steps = 200_000 if name.startswith("table4") else 100_001
            assert row.training.steps == steps, name
    assert rows["table2/1"].model.learnable and rows["table1/1"].model.learnable
    for name in ("table4/4", "table4/5"):  # normalised, no learned radius
        assert (rows[name].model.size, rows[name].model.learnable) == (1.0, False)
    for name in rows:
        note = experiments.EXPERIMENTS[name].note("paper")
        assert "released" in note or name.endswith("/identity"), name
        assert ("200,000 steps by the paper" in note) == name.startswith("table4"), name


def test_every_learned_metric_has_a_learned_temperature_and_fixed_ones_beside_it():
    learned = [
        name
        for name, e in experiments.EXPERIMENTS.items()
        if name.startswith("aninfonce/") and "hard-negatives" not in name
        if plain(e.tiers["paper"] if "paper" in e.tiers else e.tiers["cpu"])["loss"] == "infonce"
        and plain(next(iter(e.tiers.values())))["similarity"] == "metric"
    ]
    assert "aninfonce/sweep/5" in learned and "aninfonce/linear" in learned
    for name in learned:
        row = name.removesuffix("/aninfonce")
        for tier in ("cpu", "paper"):
            settings = experiments.EXPERIMENTS[f"{row}/temperature"].tiers[tier]
            assert settings.model.learnable and settings.loss.similarity == "dot"
            assert settings.data == experiments.EXPERIMENTS[name].tiers[tier].data
            for tau in (0.5, 1, 2, 5):
                fixed = experiments.EXPERIMENTS[f"{row}/infonce/tau-{tau:g}"].tiers[tier]
                assert (fixed.loss.tau, fixed.model.size, fixed.model.learnable) == (tau, 1, False)
    for name, experiment in experiments.EXPERIMENTS.items():
        logged = name in ("aninfonce/bimodal", "aninfonce/linear")
        assert experiment.source == ("released log" if logged else "paper"), name


def test_rows_that_take_a_setting_from_the_truth_say_so(monkeypatch):
    def refuse(*_):
        raise AssertionError("the truth was read")

    monkeypatch.setattr(synthetic_run, "predicted_size", refuse)
    monkeypatch.setattr(synthetic_run, "SAMPLE", 200)
    monkeypatch.setattr(image_run, "predicted_size", refuse)
    seen = set()
    for name, experiment in experiments.EXPERIMENTS.items():
        for tier, settings in experiment.tiers.items():
            if tier == "paper" or not isinstance(settings, SyntheticSettings | ImageSettings):
                continue
            said = "starts at the size computed from the true conditional" in experiment.note(tier)
            assert said == (settings.model.size == "theory"), (name, tier)
            seen.add(said)
            try:
                if isinstance(settings, ImageSettings):
                    image_run.start_size(settings)
                else:
                    process = Process.read(settings)
                    synthetic_run.build(settings, process, torch.nn.Identity(), 0)
                read = False
            except AssertionError:
                read = True
            assert read == said, (name, tier)
    assert seen == {True, False}


@pytest.mark.parametrize("table", ["table1", "table2"])
def test_rows_of_the_tables_differ_in_nothing_but_what_the_table_says(table):
    """At the published size and widths; what the cpu tier changes in single rows has a note."""
    table_says = {"space", "marginal", "conditionals", "model_space", "similarity"}
    shared = TIERS["cpu"].tables
    for experiment in experiments.select([table]):
        cpu, paper = (plain(experiment.tiers[tier]) for tier in ("cpu", "paper"))
        assert cpu["dim"] == 10 and cpu["conditionals"] == paper["conditionals"]
        if experiment.id.endswith(("/identity", "/supervised")):
            continue
        assert cpu["size"] == "fit" and cpu["learnable"], experiment.id
        expected = plain(PAPER.with_(**shared, learnable=True))
        own = {k for k in cpu | expected if cpu.get(k) != expected.get(k)} - table_says
        assert not own or experiment.note("cpu"), (experiment.id, own)


def test_turned_noise_has_the_axes_of_its_rotation():
    settings = experiments.EXPERIMENTS["table2/1/turned"].tiers["cpu"]
    process = Process.read(settings)
    anchors, positives = process.views(20_000, np.random.default_rng(0), 0)
    assert process.space.contains(positives).all()
    # Draws that would leave the box are redrawn, which trims the tails; in the middle few are.
    inner = (np.abs(anchors - 0.5) < 0.4).all(1)
    noise = (positives - anchors)[inner]  # (about 2,000, 10)
    kurtosis = [scipy.stats.kurtosis(x, axis=0).mean() for x in (noise @ process.turn, noise)]
    assert kurtosis[0] > 1.5 > 2 * kurtosis[1]  # heavy-tailed along its own axes, round elsewhere
    np.testing.assert_allclose(process.turn @ process.turn.T, np.eye(10), atol=1e-12)


def test_numbers_that_came_from_the_truth_are_named():
    """Sizes and metrics that are plain numbers, and differ between rows, have their reason told."""
    for name, experiment in experiments.EXPERIMENTS.items():
        for tier, settings in experiment.tiers.items():
            if tier == "paper" or not isinstance(settings, SyntheticSettings | ImageSettings):
                continue
            model, loss, note = settings.model, settings.loss, experiment.note(tier)
            free = ("theory", "fit", 1.0, 2.0)  # [0, 2] is the box of a learned metric on images
            if loss.name != "tricl" and model.size not in free:
                assert "computed from the true conditional" in note, (name, tier)
            if loss.similarity == "metric" and loss.metric_start not in (1.0, 10.0):
                assert "computed from the true conditional" in note, (name, tier)


def test_published_numbers_are_fractions():
    assert experiments.published("table1/9") == {"r2": (pytest.approx(0.9902), pytest.approx(1e-4))}
    assert experiments.published("table9/1") == {}
    assert experiments.title("table1").startswith("Table 1")


def test_selection_by_id_prefix_and_pattern():
    def ids(*names):
        return [experiment.id for experiment in experiments.select(names)]

    beside = ["without-self", "identity", "supervised"]
    assert ids("table1/1") == ["table1/1", *(f"table1/1/{name}" for name in beside)]
    assert ids("table1/10") == ["table1/10", "table1/10/without-self"]
    assert ids("table2/4", "table1/2/w*") == [
        *("table1/2/without-self", "table2/4", "table2/4/without-self")
    ]
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
    assert stretch(parse(conditional), make_similarity(similarity, 2)) == pytest.approx(expected)


@pytest.mark.parametrize("conditional", ["normal:0.05", "laplace:0.05", "gennorm:3:0.05"])
@pytest.mark.parametrize("p", [1, 2, 3])
def test_predicted_stretch_is_the_most_likely_one(conditional, p):
    noise = parse(conditional).sample(np.zeros((200_000, 1)), np.random.default_rng(0), Unbounded())
    scales = np.linspace(5, 60, 1101)
    moment = (np.abs(noise) ** p).mean()
    likelihood = np.log(scales) - scales**p * moment  # of exp(-|s d|^p), normalised by s
    best = scales[likelihood.argmax()]
    assert stretch(parse(conditional), make_similarity(f"l{p}", 2)) == pytest.approx(best, rel=0.02)


@pytest.mark.parametrize("experiment, tier, settings", SYNTHETIC[::7])
def test_models_of_experiments_can_be_built(experiment, tier, settings):
    process = Process.read(settings)
    mixing = make_mixing(process.dim, np.random.default_rng(0), draws=2)
    encoder = synthetic_run.build(settings, process, mixing, 0)
    if settings.loss.name == "identity":
        assert settings.loss.name not in OBJECTIVES
        return
    batch = next(synthetic.batches(process, mixing, 4, 0)(0))
    embedded = [encoder(view) for view in batch.views]
    objective = make_objective(settings.loss, process.dim, len(process.conditionals))
    assert torch.isfinite(objective(embedded, batch.latents))


def test_a_batch_depends_on_seed_and_step_alone():
    settings = experiments.EXPERIMENTS["table2/3"].tiers["cpu"]
    process = Process.read(settings)
    mixing = make_mixing(process.dim, np.random.default_rng(0), draws=2)
    source = synthetic.batches(process, mixing, 8, 3)
    stream = source(0)
    third = [next(stream) for _ in range(3)][2]
    again = next(source(2))
    assert torch.equal(third.views[1], again.views[1])
    other = next(synthetic.batches(process, mixing, 8, 4)(2))
    assert not torch.equal(third.views[1], other.views[1])


@pytest.mark.parametrize("encoder", ["whitened", "rotated"])
def test_a_whitened_encoder_starts_as_a_rotation(encoder):
    settings = experiments.EXPERIMENTS["table1/5"].tiers["cpu"]
    settings = settings.with_(size=1.0, dim=4, encoder=encoder)
    process = Process.read(settings)
    mixing = make_mixing(process.dim, np.random.default_rng(0), draws=2)
    encoder = synthetic_run.build(settings, process, mixing, 0)
    rng = np.random.default_rng(1)
    features = encoder(mixing(synthetic.as_tensor(process.anchors(20_000, rng))))
    torch.testing.assert_close(torch.cov(features.T), torch.eye(process.dim), atol=0.05, rtol=0)


def test_true_latents_have_no_gap_to_themselves():
    settings = experiments.EXPERIMENTS["aninfonce/bimodal"].tiers["cpu"].with_(batch=64)
    process = Process.read(settings)
    objective = make_objective(settings.loss, process.dim)
    objective.similarity = Metric(process.dim, process.metrics[0])
    mixing = make_mixing(process.dim, np.random.default_rng(0), draws=2)

    class Inverse(torch.nn.Linear):
        def forward(self, x):
            return mixing.inverse(x).float()

    scores = synthetic_run.against_truth(settings, mixing, Inverse(1, 1), objective, 0)
    assert scores["loss_gap"] == pytest.approx(0, abs=1e-4)


def test_pairs_told_apart_by_chance_do_not_set_the_size_of_the_true_latents():
    row = experiments.EXPERIMENTS["aninfonce/batch-dimension/d4-l75-b32"]
    settings = row.tiers["cpu"]
    mixing = make_mixing(4, np.random.default_rng(0), draws=2)
    objective, encoder = (
        make_objective(settings.loss, 4),
        torch.nn.Sequential(make_head("sphere", 4)),
    )
    found = synthetic_run.against_truth(settings, mixing, encoder, objective, 0)
    assert 10 < found["size_true"] < 15  # 128, the most that is tried, if fit on a few batches
    assert found["loss_true"] == pytest.approx(0.052, rel=0.2)


def test_a_sphere_model_is_compared_with_the_true_latents_on_a_sphere():
    settings = experiments.EXPERIMENTS["table1/5"].tiers["cpu"]
    settings = settings.with_(batch=64, dim=3, model_space="sphere", similarity="dot")
    process = Process.read(settings)
    objective = make_objective(settings.loss, process.dim)
    mixing = make_mixing(process.dim, np.random.default_rng(0), draws=2)

    class Inverse(torch.nn.Linear):
        def forward(self, x):
            return mixing.inverse(x).float()

    head = make_head("sphere", process.dim)
    encoder = torch.nn.Sequential(Inverse(1, 1), head)
    head.resize(synthetic_run.against_truth(settings, mixing, encoder, objective, 0)["size_true"])
    best = synthetic_run.against_truth(settings, mixing, encoder, objective, 0)
    assert best["loss_gap"] == pytest.approx(0, abs=1e-4)


@pytest.mark.parametrize("row", ["table1/5", "table1/8", "table1/2", "table2/1", "table2/6"])
def test_every_loss_is_compared_with_the_true_latents(row):
    settings = experiments.EXPERIMENTS[row].tiers["cpu"]
    settings = settings.with_(batch=64, dim=3, self_negative=True, model_space="unbounded")
    process = Process.read(settings)
    objective = make_objective(settings.loss, process.dim)
    mixing = make_mixing(process.dim, np.random.default_rng(0), draws=2)

    class Inverse(torch.nn.Linear):
        scale = 1.0

        def forward(self, x):
            return self.scale * mixing.inverse(x).float()

    encoder = Inverse(1, 1)
    first = synthetic_run.against_truth(settings, mixing, encoder, objective, 0)
    assert first["loss"] > first["loss_true"] and first["loss_gap"] > 0.01
    encoder.scale = first["size_true"] / first["size"]
    best = synthetic_run.against_truth(settings, mixing, encoder, objective, 0)
    assert best["loss_true"] == first["loss_true"]
    assert best["loss_gap"] == pytest.approx(0, abs=2e-3)
    assert best["size"] == pytest.approx(best["size_true"], rel=1e-3)
    assert best["size_predicted"] > best["size"]  # a pair's own anchor holds the size down


def test_blocks_are_dimensions_that_no_process_tells_apart():
    settings = experiments.EXPERIMENTS["aninfonce/ensemble/ensemble"].tiers["cpu"]
    assert Process.read(settings).blocks == [[0, 1], [2, 3, 4], [5, 6, 7]]


def test_hard_negatives_move_the_optimum_to_the_difference():
    settings = hard_negatives.ScanSettings().with_(steps=10, anchors=3000)
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
    assert marginal.mass_difference(5, 4) == pytest.approx(expected, abs=0.01)


def test_settings_are_changed_by_text():
    paper = experiments.EXPERIMENTS["table1/5"].tiers["paper"]
    changes = {"steps": "7", "widths": "8,9", "size": "none", "learnable": "false"}
    changed = paper.read(changes | {"conditionals": "normal:1;laplace:2", "tau": "1e-3"})
    assert changed.training.steps == 7 and changed.loss.tau == 1e-3
    assert (changed.model.widths, changed.model.size) == ((8, 9), "theory")
    for text, size in (("fit", "fit"), ("theory", "theory"), ("2.5", 2.5)):
        assert paper.read({"size": text}).model.size == size
    for text in ("0", "large", "nan"):
        with pytest.raises(ValueError, match="`size` must be above 0, fit or theory"):
            paper.read({"size": text})
    assert not changed.model.learnable and changed.training.lr == paper.training.lr
    assert changed.data.conditionals == ("normal:1", "laplace:2")
    assert plain(changed)["widths"] == [8, 9]
    for name, text, kind in (
        ("steps", "many", "int"),
        ("learnable", "yes", "bool"),
        ("widths", "a,b", r"tuple\[int, ...\] \| None"),
        ("steps", "none", "int"),
    ):
        with pytest.raises(ValueError, match=f"`{name}` must be of type {kind}, got '{text}'"):
            paper.read({name: text})
    with pytest.raises(ValueError, match="each setting has a --set of its own"):
        paper.read({"steps": "5,batch=3"})
    with pytest.raises(ValueError, match=r"`setting` must be one of .*Did you mean 'steps'"):
        paper.read({"stepz": "1"})


def test_flat_names_are_those_of_older_records_and_none_stands_twice():
    for experiment in experiments.EXPERIMENTS.values():
        for settings in experiment.tiers.values():
            values = [pair for part in vars(settings).values() for pair in vars(part).items()]
            came_later = {
                *(("include_positive", True), ("self_negative", False), ("root", False)),
                *(("anchors_only", False), ("size_as", "log"), ("size_lr", None)),
                *(("norm_rows", None), ("turned", False), ("rows", None)),
                *(("beta", 1.0), ("gamma", 10.0), ("rate", 6.0)),
                *(("whiten", False), ("wide_steps", None), ("wide_lr", None), ("beyond", 0.0)),
            }
            old = [name for name, value in values if (name, value) not in came_later]
            assert len(plain(settings)) == len(old), experiment.id
    record = plain(experiments.EXPERIMENTS["table4/1"].tiers["tiny"])
    assert {"data", "model_space", "loss"} <= set(record)
    changed = experiments.EXPERIMENTS["table1/5"].tiers["cpu"].with_(self_negative=True)
    assert plain(changed)["self_negative"] is True


def test_every_experiment_answers_to_the_same_tiers():
    for experiment in experiments.EXPERIMENTS.values():
        assert set(experiment.tiers) <= set(TIERS)
        figures = ("aninfonce/batch-dimension", "self-negatives", "corners", "amount")  # points
        by_data = ("readout", "content-style", "augmentation-audit")  # whose data has one size
        if experiment.id.startswith((*figures, *by_data)):
            continue
        for name in ("paper", "cpu", "small"):
            found = experiments.pick_tier(experiment, name, {})
            assert found is not None and found[0] in (name, "cpu", "small")


def test_without_a_tier_the_papers_size_is_never_run():
    for experiment in experiments.EXPERIMENTS.values():
        if experiment.check is None:  # synthetic
            found = experiments.pick_tier(experiment, None, {})
            assert found[0] == "cpu" if "cpu" in experiment.tiers else found is None


@pytest.mark.slow
def test_a_row_reaches_its_bar_in_a_few_hundred_steps():
    settings = experiments.EXPERIMENTS["table1/5"].tiers["cpu"].with_(steps=300, dim=4)
    scores = synthetic_run.run(settings, 0, None, "")[-1]["scores"]
    assert scores["r2"] > 0.98
    assert scores["mcc"] < 0.9


def test_hard_negatives_join_half_way_in_the_paper_tier():
    row = experiments.EXPERIMENTS["aninfonce/hard-negatives/with"]
    process = Process.read(row.tiers["paper"])
    rng = np.random.default_rng(0)
    assert [len(view) for view in process.views(4, rng, step=149_999)] == [4, 4]
    assert [len(view) for view in process.views(4, rng, step=150_000)] == [4, 4, 12]
