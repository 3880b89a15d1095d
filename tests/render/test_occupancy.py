import pytest
from ident3d.render import render_command
from ident3d.render.blender import Gpu
from ident3d.render.estimate import Occupancy, climb, fewest_samples, find_occupancy
from ident3d.render.presets import Quality, quality
from ident3d.render.workers import WorkerSlot

from tests.support.cards import CardSettings

SLOT = WorkerSlot(gpu=Gpu("CUDA", "0", "stand-in"))


def ideal(preparation, sampling):
    """Images a second of a card that samples one at a time."""
    return lambda workers: min(workers / (preparation + sampling), 1 / sampling)


@pytest.mark.parametrize(
    ("preparation", "sampling", "workers"),
    [(0.0, 1.0, 1), (1.0, 1.0, 2), (3.0, 1.0, 4), (0.02, 1.0, 1), (99.0, 1.0, 8)],
)
@pytest.mark.parametrize("guess", [1, 3, 8])
def test_the_card_is_full_and_not_crowded(preparation, sampling, workers, guess):
    assert climb(ideal(preparation, sampling), guess, most=8) == workers


def test_fewest_samples_keep_the_passes():
    assert fewest_samples(quality("standard", 224)).teapot_samples == 2
    assert fewest_samples(quality("published", 224)).teapot_samples == 0


@pytest.mark.slow
def test_a_trial_with_a_stand_in_card(tmp_path):
    """Real workers whose card samples for a tenth of a second, after three of preparation."""
    quality = Quality(100, 0, light_tree=False, prefilter="NONE", denoiser="FAST")
    settings = CardSettings(tmp_path / "card", 0.3, 0.001, quality)
    found = find_occupancy(settings, SLOT, cores=4)
    assert found.not_sampling == pytest.approx(0.75, abs=0.15)
    assert found.workers > 1
    assert found.rate > 1.5 * found.rate_of_one


def test_it_is_said_in_a_sentence():
    assert str(Occupancy(3, 0.625, 1.0, 2.5)) == (
        "62% of an image's time is not sampling, so a card gets 3 workers: "
        "2.5 images/s in a trial on one card, 1 with one."
    )


def test_workers_auto_tries_a_card_and_gives_all_of_them_as_many(monkeypatch, capsys):
    cards = [WorkerSlot(gpu=Gpu("CUDA", str(number), "stand-in")) for number in (0, 1)]
    monkeypatch.setattr(render_command, "find_slots", lambda device, workers: ("cuda", cards[:]))
    monkeypatch.setattr(render_command, "count_cores", lambda: 16)
    asked = []

    def found(settings, slot, cores):
        asked.append((slot, cores))
        return Occupancy(3, 0.625, 1.0, 2.5)

    monkeypatch.setattr(render_command, "find_occupancy", found)
    options = render_command.RenderOptions(workers="auto")
    _, slots = render_command._slots(options, render_command.spec_of(options))
    assert slots == cards * 3
    assert asked == [(cards[0], 8)]
    assert "a card gets 3 workers" in capsys.readouterr().err


def test_workers_auto_is_one_for_each_core_where_there_is_no_card():
    options = render_command.RenderOptions(workers="auto", device="cpu")
    _, slots = render_command._slots(options, render_command.spec_of(options))
    assert len(slots) == render_command.count_cores()
