import pytest

from ident3d import progress
from ident3d.progress import Tracker, duration, size


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.25, "0.25 s"),
        (9.96, "10 s"),
        (59.6, "1 min"),
        (90, "1 min 30 s"),
        (599.7, "10 min"),
        (3599, "1 h"),
        (12_000, "3 h 20 min"),
        (86_400, "24 h"),
        (388_800, "4.5 days"),
    ],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 bytes"), (120, "120 bytes"), (999.7e3, "1 MB"), (1.5e9, "1.5 GB"), (3e12, "3 TB")],
)
def test_sizes(count, text):
    assert size(count) == text


def test_a_log_gets_a_line_now_and_then(monkeypatch, capfd):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with Tracker(100, "train", "step", done=40) as tracker:
        for now[0] in (30.0, 59.0, 60.0, 61.0):
            tracker.advance(5)
        tracker.note = "loss 0.5"
        now[0] = 120.0
        tracker.advance(10)
    assert capfd.readouterr().err.splitlines() == [
        "train: 55 of 100 steps, 0.25 steps/s, 3 min left",
        "train: 70 of 100 steps, 0.25 steps/s, 2 min left, loss 0.5",
    ]
