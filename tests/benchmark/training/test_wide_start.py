import itertools

import numpy as np
import pytest
import torch
from ident3d.benchmark.encoders import make_encoder
from ident3d.benchmark.encoders.heads import make_head
from ident3d.benchmark.experiments import EXPERIMENTS
from ident3d.benchmark.losses import make_objective
from ident3d.benchmark.settings.run_settings import Loss, Model, SyntheticData, SyntheticSettings
from ident3d.benchmark.settings.run_settings import Training as Told
from ident3d.benchmark.training.loop import Batch, History
from ident3d.benchmark.training.wide_start import train_run, wide_start
from torch import nn

from ident3d import metrics
from tests.support.interruptions import Killed, cut_off

MIXING = np.random.default_rng(1).normal(size=(6, 6))


def observe(z, rng):
    """Two latents, bent, among four numbers that no pair shares."""
    return np.column_stack([z, z**3, rng.normal(size=(len(z), 2))])[:, :6] @ MIXING


def batches(first):
    rng = np.random.default_rng([7, first])
    while True:
        z = rng.uniform(-1, 1, (64, 2))
        views = (observe(z + 0.1 * rng.normal(size=(64, 2)), rng) for _ in range(2))
        yield Batch(tuple(torch.tensor(view, dtype=torch.float32) for view in views))


def settings(**training):
    told = {"steps": 1, "wide_steps": 60, "wide_lr": 1e-2, "batch": 64} | training
    return SyntheticSettings(
        data=SyntheticData(space="box"),
        model=Model(dim=2, widths=(16,)),
        loss=Loss(symmetric=True, negatives="both"),
        training=Told(**told, device="cpu"),
    )


def by_step(first):
    return (next(batches(step)) for step in itertools.count(first))


def run(told, source, checkpoint=None):
    torch.manual_seed(1)
    encoder = make_encoder(told.model, torch.rand(20, 6), 1.0)
    objective = make_objective(told.loss, 2)

    def evaluate(scored):
        assert scored is encoder  # and not what is trained
        return {"width": scored(torch.zeros(1, 6)).shape[1]}

    how = {"evaluate": evaluate, "checkpoint": checkpoint}
    return encoder, train_run(told, encoder, objective, source, source, **how)


def same_weights(one, other):
    state = other.state_dict()
    return all(torch.equal(value, state[name]) for name, value in one.state_dict().items())


def test_a_wide_start_leaves_the_slowest_directions_in_the_last_map():
    rng = np.random.default_rng(0)
    z = rng.uniform(-1, 1, (1000, 2))
    observed = torch.tensor(observe(z, rng), dtype=torch.float32)
    torch.manual_seed(0)
    encoder = make_encoder(settings().model, observed, 1.0)

    def r2():
        with torch.no_grad():
            return metrics.linear_r2(z, encoder(observed).numpy())

    before = r2()
    wide_start(settings(), encoder, batches, batches)
    with torch.no_grad():
        out = encoder[:-1](observed)
    assert r2() > max(0.9, before + 0.1)
    assert (out.std(0) - 1.7).abs().max() < 0.3  # what a box's sigmoid spreads evenly


def test_a_wide_start_is_the_same_every_time():
    def weights():
        torch.manual_seed(3)
        encoder = make_encoder(settings().model, torch.rand(20, 6), 1.0)
        wide_start(settings(wide_steps=3), encoder, batches, batches)
        return encoder[-2].weight

    assert torch.equal(weights(), weights())


def test_an_encoder_without_a_last_map_is_refused():
    encoder = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), make_head("box", 4))
    with pytest.raises(ValueError, match="`wide_steps` must be none"):
        wide_start(settings(), encoder, batches, batches)


def test_rows_of_the_demo_start_alike_and_supervision_needs_no_start():
    told = {
        row: EXPERIMENTS[f"table4/{row}"].tiers["demo"] for row in ("1", "2", "4", "supervised")
    }
    assert {told[row].training.wide_steps for row in ("1", "2", "4")} == {300}
    assert told["supervised"].training.wide_steps is None
    assert not told["supervised"].model.whiten


def test_further_outputs_are_gone_after_training_and_a_run_cut_off_ends_the_same(tmp_path):
    told = settings(wide_steps=None, steps=8, evaluations=2, checkpoint_seconds=0)
    told = told.with_(beyond=3.0)

    encoder, fields = run(told, by_step)
    assert fields["curves"]["width"] == [2, 2]
    with pytest.raises(Killed):
        run(told, cut_off(by_step, 5), tmp_path / "c")
    again, resumed = run(told, by_step, tmp_path / "c")
    assert resumed["curves"] == fields["curves"]
    assert same_weights(again, encoder)


def test_a_run_cut_off_in_its_wide_start_goes_on_there(tmp_path):
    told = settings(wide_steps=8, steps=4, checkpoint_seconds=0)
    asked = []

    def watched(first):
        asked.append(first)
        return by_step(first)

    encoder, fields = run(told, by_step)
    with pytest.raises(Killed):
        run(told, cut_off(by_step, 5), tmp_path / "c.safetensors")
    again, resumed = run(told, watched, tmp_path / "c.safetensors")
    assert 5 in asked  # where it was, and not at 0 again
    assert resumed["curves"] == fields["curves"]
    assert same_weights(again, encoder)


def test_a_time_budget_is_shared_by_the_wide_start_and_what_follows(monkeypatch):
    budgets = []

    def noted(encoder, objective, source, told, **how):
        budgets.append(told.seconds)
        return History(seconds=1.0)

    monkeypatch.setattr("ident3d.benchmark.training.wide_start.train", noted)
    _, fields = run(settings(wide_steps=30, steps=70, seconds=10.0), by_step)
    assert budgets == pytest.approx([3, 7])
    assert fields["seconds"] >= 1
