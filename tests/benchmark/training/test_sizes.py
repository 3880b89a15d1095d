"""Start sizes: where the loss of observations is least, without a look at the truth."""

import numpy as np
import pytest
import torch
from ident3d.benchmark.data import synthetic
from ident3d.benchmark.data.synthetic import Process
from ident3d.benchmark.encoders import theory
from ident3d.benchmark.encoders.heads import head_of
from ident3d.benchmark.experiments import select as experiments
from ident3d.benchmark.losses import make_objective
from ident3d.benchmark.training import synthetic_run
from ident3d.benchmark.training.loop import Batch, make_optimizer
from ident3d.benchmark.training.sizes import best_scale, fit_size


def fitted(settings, mixing, seed=0):
    """The size that `fit` finds, and the encoder it was found for."""
    torch.manual_seed(seed)
    process = Process.read(settings)
    encoder = synthetic_run.build(settings, process, mixing, seed)
    objective = make_objective(settings.loss, process.dim)
    source = synthetic.batches(process, mixing, settings.training.batch, seed)
    return fit_size(encoder, objective, source(0), settings.training), encoder


# With few dimensions and no mixing, the untrained `whitened` encoder is the latents, turned.
@pytest.mark.parametrize(
    ("row", "dim", "expected", "near"),
    [
        ("table1/5", 2, 14.14 / 12**0.5, 0.15),  # stretch times the deviation of a uniform
        ("table1/2", 3, 10**0.5, 0.15),  # the root of the concentration
        ("table2/3", 2, 14.14, 0.3),  # the stretch of a box 1 wide, which a sigmoid bends
    ],
)
def test_fit_lands_near_a_size_that_is_known(row, dim, expected, near):
    settings = experiments.EXPERIMENTS[row].tiers["cpu"].with_(size="fit", dim=dim)
    size, encoder = fitted(settings, torch.nn.Identity())
    assert size == pytest.approx(expected, rel=near)
    assert (head_of(encoder).size == 1).all()  # told, not changed


def test_fit_sees_observations_alone_and_is_the_same_every_time(monkeypatch):
    def refuse(*_):
        raise AssertionError("the truth was read")

    settings = experiments.EXPERIMENTS["table2/3"].tiers["cpu"]
    settings = settings.with_(size="fit", dim=3, batch=64, learnable=True)
    first, _ = fitted(settings, torch.nn.Identity())
    monkeypatch.setattr(Batch, "latents", property(refuse, lambda *_: None))
    monkeypatch.setattr(synthetic_run, "predicted_size", refuse)
    for name in ("stretch", "absolute_moment", "concentration", "predicted_size"):
        monkeypatch.setattr(theory, name, refuse)
    state = torch.get_rng_state()
    assert fitted(settings, torch.nn.Identity())[0] == first
    torch.set_rng_state(state)
    with pytest.raises(AssertionError, match="the truth was read"):
        fitted(settings.with_(size="theory"), torch.nn.Identity())
    with pytest.raises(ValueError, match="set size=theory"):
        fitted(settings.with_(loss="supervised"), torch.nn.Identity())


def test_best_scale_is_that_of_a_parabola():
    views = [[torch.ones(1)], [torch.ones(1)]]
    for best in (0.3, 5.0, 100.0):
        found = best_scale(lambda v, b=best: (v[0].log2() - np.log2(b)).square().sum(), views)
        assert found == pytest.approx(best, rel=0.01)
    assert best_scale(lambda v: -v[0].sum(), views) == 128  # the end of what is tried


def test_a_run_starts_at_the_size_that_is_fit():
    settings = experiments.EXPERIMENTS["table2/3"].tiers["cpu"]
    changes = {"size": "fit", "dim": 2, "batch": 128, "steps": 1, "evaluations": 1, "scored": 64}
    settings = settings.with_(**changes, learnable=True, lr=1e-9)
    fields = synthetic_run.run(settings, 0, None, "")
    assert fields[-1]["scores"]["size"] > 4  # not 1, where no fit would leave it


def test_sizes_have_a_learning_rate_of_their_own():
    settings = experiments.EXPERIMENTS["table2/3"].tiers["cpu"].with_(learnable=True, size=2.0)
    encoder = synthetic_run.build(settings, Process.read(settings), torch.nn.Identity(), 0)
    whole = make_optimizer({"encoder": encoder}, settings.training)
    assert len(whole.param_groups) == 1
    training = settings.with_(size_lr=1e-3).training
    rest, own = make_optimizer({"encoder": encoder}, training).param_groups
    assert [p is head_of(encoder).log_size for p in own["params"]] == [True]
    assert (own["base_lr"], rest["base_lr"]) == (1e-3, training.lr)
    assert len(rest["params"]) + 1 == len(whole.param_groups[0]["params"])
