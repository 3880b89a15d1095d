"""Table 3 on small sets of walkers: its rows, a run that is cut off, its cost, its chance."""

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from ident3d.benchmark.commands.benchmark_command import benchmark
from ident3d.benchmark.data.images import Splits
from ident3d.benchmark.encoders import make_encoder
from ident3d.benchmark.encoders.trained import load_encoder
from ident3d.benchmark.experiments.select import EXPERIMENTS, pick_tier
from ident3d.benchmark.results import load_all
from ident3d.benchmark.scoring.chance import turned_mcc
from ident3d.benchmark.sequences.walkers import SHAPE, STEP, make_sequences, reflect, steps
from ident3d.benchmark.training import wide_start
from ident3d.benchmark.training.image_run import run
from scipy.stats import gennorm

from ident3d.errors import DataError
from ident3d.metrics import mcc
from ident3d.published import import_published
from ident3d.published.masks import FILE, write_masks
from tests.support.interruptions import killed

ROWS = [f"table3/{number}" for number in range(1, 11)]
SMALL = {"steps": "6", "batch": "4", "evaluations": "2", "train_rows": "40", "watched": "40"}


@pytest.fixture(scope="module")
def walkers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("walkers")
    for split, seed in (("train", 3), ("test", 4)):
        write_masks(folder / FILE, make_sequences(3, seed), f"walkers {seed}")
        import_published(folder / FILE, folder / "data", split)
    return folder / "data"


def small(name, data, **changes):
    return EXPERIMENTS[name].tiers["cpu"].read({"data": str(data)} | SMALL | changes)


def test_every_row_is_there_with_its_published_number_and_settings():
    assert [e for e in EXPERIMENTS if e.startswith("table3/")] == ROWS
    numbers = [EXPERIMENTS[name].published["mcc_spearman"][0] * 100 for name in ROWS]
    assert numbers == pytest.approx([66.1, 77.1, 74.1, 58.3, 59.9, 79.6, 79.4, 80.9, 60.2, 68.4])
    for number, name in enumerate(ROWS):
        paper, cpu = (EXPERIMENTS[name].tiers[tier] for tier in ("paper", "cpu"))
        assert (paper.training.batch, paper.training.steps, paper.training.lr) == (
            32,
            300_000,
            1e-4,
        )
        assert (
            paper.data.conditionals == cpu.data.conditionals == (f"time:{1 if number < 5 else 5}",)
        )
        for part in ("encoder", "dim", "space"):
            assert getattr(paper.model, part) == getattr(cpu.model, part)
        assert paper.loss == cpu.loss and paper.loss.self_negative
        assert paper.model.dim == 10 and paper.training.batch == cpu.training.batch
        slow = EXPERIMENTS[name].method == "SlowVAE"
        assert slow == (number % 5 == 0) == (paper.loss.name == "slow-vae")
        assert (paper.loss.beta, paper.loss.gamma, paper.loss.rate) == (1, 10, 6)
        assert "our own making" in EXPERIMENTS[name].note("cpu")


def test_the_encoder_is_the_published_one(walkers):
    sample = torch.zeros(2, 3, 64, 64, dtype=torch.uint8)
    for name, outputs in (("table3/2", 10), ("table3/1", 20)):
        encoder = make_encoder(EXPERIMENTS[name].tiers["paper"].model, sample, 1.0)
        kernels = [tuple(p.shape) for p in encoder.parameters() if p.ndim == 4]
        assert kernels == [
            (32, 1, 4, 4), (32, 32, 4, 4), (64, 32, 4, 4), (64, 64, 4, 4), (256, 64, 4, 4),
        ]  # fmt: skip
        assert encoder.train()(sample).shape == (2, outputs)
        assert encoder.eval()(sample).shape == (2, 10)  # of a posterior, the means
        with pytest.raises(ValueError, match="64 x 64"):
            make_encoder(EXPERIMENTS[name].tiers["cpu"].model, sample[..., :32, :32], 1.0)


@pytest.mark.parametrize("name", ["table3/1", "table3/8"])
def test_a_run_that_is_cut_off_goes_on_to_the_same_numbers(walkers, tmp_path, monkeypatch, name):
    settings = small(name, walkers, checkpoint_seconds="0")
    whole = run(settings, 5, tmp_path / "whole", "whole")[-1]
    with killed(monkeypatch, Splits, "batches", 4):
        run(settings, 5, tmp_path / "cut", "cut")
    assert (tmp_path / "cut").exists()
    seen = []
    monkeypatch.setattr(wide_start, "train", _watched(wide_start.train, seen))
    again = run(settings, 5, tmp_path / "cut", "cut")[-1]
    assert seen == [True]  # it had a checkpoint to go on from
    assert again["curves"] == whole["curves"]
    np.testing.assert_array_equal(again["embeddings"], whole["embeddings"])


def _watched(train, seen):
    def watched(*arguments, checkpoint=None, **options):
        seen.append(checkpoint.exists())
        return train(*arguments, checkpoint=checkpoint, **options)

    return watched


def test_a_row_runs_from_the_command_line_and_its_encoder_comes_back(walkers, tmp_path):
    changes = [word for pair in SMALL.items() for word in ("--set", "=".join(pair))]
    options = ["--tier", "small", "--data", str(walkers), "--out", str(tmp_path), *changes]
    done = CliRunner().invoke(benchmark, ["run", "table3/6", *options])
    assert done.exit_code == 0, done.output
    (result,) = load_all(tmp_path)
    assert (result.tier, result.protocol) == ("cpu", "held-out")
    assert result.factors == ["vertical", "horizontal", "area"]
    assert {"mcc_spearman", "mcc_spearman_train", "mcc_turned", "mcc_turned_95"} <= set(
        result.scores
    )
    assert result.data["made_by"] == "walkers 4"
    encoder = load_encoder(next(tmp_path.glob("*.safetensors")))
    assert encoder(torch.zeros(1, 3, 64, 64)).shape == (1, 10)
    done = CliRunner().invoke(benchmark, ["controls", "table3/7", *options])
    assert done.exit_code == 0, done.output
    controls = {r.method for r in load_all(tmp_path) if r.control}
    assert len(controls) == 6 and "Control: linear slow features" in controls


def test_the_cost_is_told_without_data_and_what_lacks_says_how_to_make_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(benchmark, ["run", "table3/1", "--tier", "paper", "--dry-run"])
    assert done.exit_code == 0, done.output
    assert "steps: 300,000, each 32 pairs (64 images)" in done.output
    assert "rows of 64 px" in done.output and "time: " in done.output
    with pytest.raises(DataError, match=r"sequences\.walkers"):
        pick_tier(EXPERIMENTS["table3/2"], None, {})


def test_turning_at_random_forgets_the_axes_and_nothing_else():
    rng = np.random.default_rng(0)
    z = rng.uniform(-1, 1, (4_000, 3))
    wide = np.column_stack([z, 1e-3 * rng.normal(size=(4_000, 7))])
    found = turned_mcc(z, wide)
    assert mcc(z, wide, method="spearman") == pytest.approx(1)
    assert 0.7 < found["mcc_turned"] < found["mcc_turned_95"] < 0.99
    noise = turned_mcc(z, rng.normal(size=(4_000, 10)))
    assert noise["mcc_turned_95"] < 0.06


def test_walkers_step_as_they_say_and_stay_inside():
    moves = np.diff(
        np.concatenate([steps(50, np.random.default_rng(n)) for n in range(200)]), axis=0
    )
    moves = np.delete(moves, np.arange(49, len(moves), 50), axis=0)  # between walkers
    for column, scale in enumerate(STEP):
        spread = np.median(np.abs(moves[:, column]))
        assert spread == pytest.approx(gennorm.ppf(0.75, SHAPE, scale=scale), rel=0.1)
    folded = reflect(np.array([-1.0, 0.5, 3.0, 4.5, 9.0]), np.array(2.0))
    np.testing.assert_allclose(folded, [1.0, 0.5, 1.0, 0.5, 1.0])
