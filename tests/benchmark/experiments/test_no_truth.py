"""What a `cpu` row starts from: the same if the truth is another and the observations are not.

Latents, conditional and mixing are replaced, the observations kept as they are. Whatever an
encoder, a size or a loss took from the truth would show.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from ident3d.benchmark.data.synthetic import Process
from ident3d.benchmark.encoders.baselines import BASELINES
from ident3d.benchmark.experiments.hard_negatives import ScanSettings
from ident3d.benchmark.experiments.select import EXPERIMENTS
from ident3d.benchmark.readout import readout_run
from ident3d.benchmark.readout.image_sources import ImageSet
from ident3d.benchmark.readout.latent_readers import AuditSettings
from ident3d.benchmark.readout.readout_settings import ReadoutSettings
from ident3d.benchmark.sequences.walkers import make_sequences
from ident3d.benchmark.settings.run_settings import ImageSettings, SyntheticSettings
from ident3d.benchmark.training import image_run, synthetic_run, wide_start

from ident3d.conditionals import parse
from ident3d.dataset import Dataset
from ident3d.factors import FACTORS
from ident3d.published import import_published
from ident3d.published.masks import FILE, write_masks
from ident3d.spaces import Unbounded

TOLD = "starts at the size computed from the true conditional"
ROWS = {name: e.tiers["cpu"] for name, e in EXPERIMENTS.items() if "cpu" in e.tiers}
TRAINED = {
    name: settings
    for name, settings in ROWS.items()
    if not isinstance(settings, ScanSettings) and settings.loss.name not in BASELINES
}


def rows_with(kind):
    """The rows that train, by the kind of their settings."""
    return {name: settings for name, settings in TRAINED.items() if isinstance(settings, kind)}


LEARNED = rows_with(SyntheticSettings)
FRAMES = rows_with(ImageSettings)
READERS = rows_with(AuditSettings)
READOUTS = {name: s for name, s in rows_with(ReadoutSettings).items() if name not in READERS}


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


def first_step(patch, trainer, run, settings):
    """Return everything that training begins with, as numbers."""
    found = {}

    def stop(encoder, objective, batches, training, **_):
        found.update(encoder=encoder.state_dict(), objective=objective.state_dict())
        found["views"] = next(batches(0)).views
        found["training"] = training
        raise Reached

    patch.setattr(trainer, "train", stop)
    with pytest.raises(Reached):
        run(settings, 0, None, "")
    return found


def start(settings, monkeypatch, truth):
    """Return the start of a synthetic row under a truth."""
    read = Process.read.__func__
    with monkeypatch.context() as patch:
        patch.setattr(synthetic_run, "SAMPLE", 200)
        patch.setattr(synthetic_run, "make_mixing", lambda dim, rng: Fixed())
        patch.setattr(Process, "read", classmethod(lambda cls, s: truth(read(cls, s))))
        return first_step(patch, wide_start, synthetic_run.run, settings.with_(batch=16, scored=32))


def differences(settings, monkeypatch, truth=another):
    """Return which numbers of the start are not the same with another truth."""
    return changed(*(start(settings, monkeypatch, t) for t in (lambda process: process, truth)))


def changed(ours, other):
    """Return which numbers of two starts are not the same."""
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
    fit = wide_start.fit_size

    def leak(encoder, objective, batches, training):
        seen = (
            replace(batch, views=batch.latents.split([len(view) for view in batch.views]))
            for batch in batches
        )
        return fit(encoder, objective, seen, training)

    monkeypatch.setattr(wide_start, "fit_size", leak)
    assert differences(LEARNED["table2/3"], monkeypatch) == ["head.log_size"]


@pytest.fixture(scope="module")
def walkers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("walkers")
    for split in ("train", "test"):
        write_masks(folder / FILE, make_sequences(2, 3), "walkers")
        import_published(folder / FILE, folder / "data", split)
    return folder / "data"


def frames_changed(settings, walkers, monkeypatch):
    """Return which numbers of the start change with the latents of the frames."""
    small = settings.with_(data=str(walkers), batch=4, watched=8)

    def begin(truth):
        with monkeypatch.context() as patch:
            latents = property(lambda self: truth(self._column("latents")))
            patch.setattr(Dataset, "latents", latents)
            return first_step(patch, wide_start, image_run.run, small)

    return changed(begin(lambda latents: latents), begin(lambda latents: latents[::-1] / 2))


@pytest.mark.parametrize("name", FRAMES)
def test_a_row_of_frames_starts_from_frames_alone(name, walkers, monkeypatch):
    assert frames_changed(FRAMES[name], walkers, monkeypatch) == []


def test_a_size_that_was_fit_to_latents_of_frames_is_found(walkers, monkeypatch):
    monkeypatch.setattr(
        wide_start, "fit_size", lambda e, o, batches, t: next(batches).latents.std()
    )
    assert frames_changed(FRAMES["table3/3"], walkers, monkeypatch) == ["1.log_size"]


def images_of(order):
    """Forty images, and classes and latents in another order."""
    images = np.random.default_rng(0).integers(0, 256, (40, 32, 32, 3), np.uint8)
    rows = np.arange(40)[order]
    latents = np.random.default_rng(1).uniform(-1, 1, (40, 10)).astype(np.float32)[rows]
    return ImageSet("images", "all", images, "0" * 64, rows % 10, latents, tuple(FACTORS))


@pytest.mark.parametrize("name", READOUTS)
def test_a_read_out_trains_on_images_alone(name, monkeypatch):
    def begin(order):
        whole = images_of(slice(None, None, order))
        with monkeypatch.context() as patch:
            patch.setattr(readout_run, "read_source", lambda data: (whole, whole))
            settings = READOUTS[name].with_(batch=8)
            return first_step(patch, readout_run, readout_run.run, settings)

    assert changed(begin(1), begin(-1)) == []


def test_every_row_that_trains_is_in_one_of_these_tests_or_says_that_it_is_told():
    assert set(TRAINED) == {*LEARNED, *FRAMES, *READOUTS, *READERS}
    for name in READERS:
        assert "the true latents are what it is told" in EXPERIMENTS[name].note("cpu")
    assert {n for n, s in ROWS.items() if isinstance(s, ScanSettings)} == {
        "aninfonce/hard-negatives"  # trains nothing: its title says that it scans the true latents
    }
