"""What a `cpu` row starts from: the same if the truth is another and the observations are not.

Latents, conditional and mixing are replaced, the observations kept as they are. Whatever an
encoder, a size or a loss took from the truth would show.
"""

from dataclasses import replace

import pytest
import torch
from ident3d.benchmark.data.synthetic import Process
from ident3d.benchmark.encoders.baselines import BASELINES
from ident3d.benchmark.experiments.select import EXPERIMENTS
from ident3d.benchmark.settings.run_settings import SyntheticSettings
from ident3d.benchmark.training import sizes, synthetic_run

from ident3d.conditionals import parse
from ident3d.spaces import Unbounded

TOLD = "starts at the size computed from the true conditional"
ROWS = {
    name: experiment.tiers["cpu"]
    for name, experiment in EXPERIMENTS.items()
    if isinstance(experiment.tiers.get("cpu"), SyntheticSettings)
}
LEARNED = {name: s for name, s in ROWS.items() if s.loss.name not in BASELINES}


class Fixed(torch.nn.Module):
    """Observations that depend on how many there are, and on nothing else."""

    def forward(self, latents):
        generator = torch.Generator().manual_seed(len(latents))
        return torch.randn(latents.shape, generator=generator)


class Reached(Exception):
    """The run has come to its first step."""


def wider(process):
    """The process with another width of its noise."""
    conditionals = tuple(parse("normal:0.7") for _ in process.conditionals)
    return replace(process, conditionals=conditionals, hard=process.hard and parse("normal:0.9"))


def another(process):
    """A process with nothing in common but its counts: other space, latents and widths."""
    return replace(wider(process), space=Unbounded(), marginal=parse("normal:3"))


def start(settings, monkeypatch, truth):
    """Return everything that training begins with, as numbers."""
    found = {}

    def stop(encoder, objective, batches, training, **_):
        found.update(encoder=encoder.state_dict(), objective=objective.state_dict())
        found["views"] = next(batches(0)).views
        found["training"] = training
        raise Reached

    read = Process.read.__func__
    with monkeypatch.context() as patch:
        patch.setattr(sizes, "train", stop)
        patch.setattr(synthetic_run, "SAMPLE", 200)
        patch.setattr(synthetic_run, "make_mixing", lambda dim, rng: Fixed())
        patch.setattr(Process, "read", classmethod(lambda cls, s: truth(read(cls, s))))
        with pytest.raises(Reached):
            synthetic_run.run(settings.with_(batch=16, scored=32), 0, None, "")
    return found


def differences(settings, monkeypatch, truth=another):
    """Return which numbers of the start are not the same with another truth."""
    ours, other = (start(settings, monkeypatch, t) for t in (lambda process: process, truth))
    assert ours["training"] == other["training"]
    for one, two in zip(ours["views"], other["views"], strict=True):
        assert torch.equal(one, two)  # or the test would compare nothing
    return [
        name
        for part in ("encoder", "objective")
        for name, value in ours[part].items()
        if not torch.equal(value, other[part][name])
    ]


@pytest.mark.parametrize("name", LEARNED)
def test_a_row_starts_from_observations_alone(name, monkeypatch):
    if TOLD in EXPERIMENTS[name].note("cpu"):
        assert differences(LEARNED[name], monkeypatch), "its note says so, but it does not"
    else:
        assert differences(LEARNED[name], monkeypatch) == []


def test_a_size_from_the_true_conditional_is_found(monkeypatch):
    settings = LEARNED["table2/3"].with_(size="theory")
    assert differences(settings, monkeypatch, wider) == ["head.log_size"]


def test_an_encoder_that_saw_the_latents_is_found(monkeypatch):
    build = synthetic_run.build

    def leak(settings, process, mixing, seed):
        return build(settings, process, torch.nn.Identity(), seed)

    monkeypatch.setattr(synthetic_run, "build", leak)
    assert "whiten" in differences(LEARNED["table2/3"], monkeypatch)


def test_a_size_that_was_fit_to_latents_is_found(monkeypatch):
    fit = sizes.fit_size

    def leak(encoder, objective, batches, training):
        seen = (
            replace(batch, views=batch.latents.split([len(view) for view in batch.views]))
            for batch in batches
        )
        return fit(encoder, objective, seen, training)

    monkeypatch.setattr(sizes, "fit_size", leak)
    assert differences(LEARNED["table2/3"], monkeypatch) == ["head.log_size"]
