import ident3d.benchmark
import numpy as np
import pytest
import torch
from click.testing import CliRunner
from ident3d.benchmark.commands.benchmark_command import benchmark
from ident3d.benchmark.digits import digit_run
from ident3d.benchmark.digits.digit_images import Digits
from ident3d.benchmark.encoders import make_encoder
from ident3d.benchmark.experiments import EXPERIMENTS
from ident3d.benchmark.results import load_all
from ident3d.benchmark.training import control_run, synthetic_run

from ident3d.errors import DataError

TINY = {
    **{"digits": 100, "vae_epochs": 2, "vae_batch": 20, "vae_widths": "8,6"},
    **{"steps": 12, "batch": 16, "widths": "8", "scored": 300, "checkpoint_seconds": 1e-9},
}
SET = [word for name, value in TINY.items() for word in ("--set", f"{name}={value}")]


def invoke(*arguments):
    return CliRunner().invoke(benchmark, [*map(str, arguments)])


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(synthetic_run, "SAMPLE", 400)
    monkeypatch.setattr(synthetic_run, "COMPARED", 2)
    monkeypatch.setattr(control_run, "PAIRS", 500)


def test_a_row_that_was_killed_goes_on_to_the_same_record(tmp_path, monkeypatch):
    rows = ("run", "digits/25/[t]*", "--tier", "cpu", *SET)
    assert invoke(*rows, "--out", tmp_path / "whole").exit_code == 0
    draw, seen, last = synthetic_run.draw_batch, [], [9]

    def killed(process, mixing, size, rng, step=0, ranks=None):
        seen.append(step)
        if step in last:
            raise KeyboardInterrupt
        return draw(process, mixing, size, rng, step)

    monkeypatch.setattr("ident3d.benchmark.data.synthetic.draw_batch", killed)
    assert invoke(*rows, "--out", tmp_path / "cut").exit_code != 0
    dry = invoke(*rows, "--out", tmp_path / "cut", "--dry-run").output
    assert "digits/25/temperature seed 0: goes on" in dry
    assert "VAE: 2 epochs of 100 digits, 10 steps" in dry and "12 steps of 16 pairs" in dry
    seen.clear()
    last.clear()
    done = invoke(*rows, "--out", tmp_path / "cut")
    assert done.exit_code == 0
    trained = seen[seen.index(9) :] if seen.count(9) else []
    assert trained[:3] == [9, 10, 11]  # what was done is not done again
    one, two = (
        {r.protocol: r.scores for r in load_all(tmp_path / name)} for name in ("whole", "cut")
    )
    assert one == two and set(one) == {"held-out", "as-released"}
    scores = one["held-out"]
    assert 0 <= scores["accuracy_knn"] <= 1 and {"r2_content", "r2_style"} <= set(scores)
    kept = next((tmp_path / "cut").glob("*.safetensors"))
    assert ident3d.benchmark.load_encoder(kept)(torch.rand(2, 784)).shape == (2, 10)


def test_controls_of_a_row(tmp_path):
    done = invoke("controls", "digits/25", "--tier", "cpu", *SET, "--out", tmp_path)
    assert done.exit_code == 0, done.exception
    assert "temperature" not in done.output  # shares them
    found = {r.method: r for r in load_all(tmp_path) if r.protocol == "held-out"}
    assert {"Control: identity", "Control: the VAE's own encoder"} < set(found) and len(found) == 7
    assert all(r.control and r.scores["accuracy_knn"] is not None for r in found.values())
    assert found["Control: identity"].scores["mcc"] is None
    assert found["Control: linear slow features"].scores["r2_content"] is not None


def test_neighbours_are_real_digits():
    rng = np.random.default_rng(0)
    classes, test = rng.integers(0, 10, 200), rng.integers(0, 10, 50)
    digits = Digits("made", np.zeros((200, 28, 28)), classes, np.zeros((50, 28, 28)), test)
    told = [np.eye(10)[classes], np.eye(10)[test]]
    assert digit_run.neighbour_accuracy(digits, told) == 1.0
    noise = [rng.normal(size=(200, 10)), rng.normal(size=(50, 10))]
    assert digit_run.neighbour_accuracy(digits, noise) < 0.4


def test_rows_have_their_baselines_and_what_is_published():
    for row, ours, plain in (("linear-50", 0.997, 0.774), ("linear-200", 0.996, 0.763)):
        assert EXPERIMENTS[f"digits/{row}"].published == {"r2": (ours, None)}
        assert EXPERIMENTS[f"digits/{row}/infonce"].published == {"r2": (plain, None)}
    for name in ("5", "25", "50", "linear-50", "linear-200"):
        row, learned, fixed = (
            EXPERIMENTS[f"digits/{name}{below}"].tiers["cpu"]
            for below in ("", "/temperature", "/infonce")
        )
        assert learned.data == fixed.data == row.data and row.loss.similarity == "metric"
        assert learned.model.learnable and learned.model.size == "fit"
        assert (fixed.loss.tau, fixed.model.size, fixed.model.learnable) == (1.0, 1.0, False)
        same = ("steps", "batch", "lr", "schedule")  # as much training for all
        budgets = {tuple(getattr(s.training, k) for k in same) for s in (row, learned, fixed)}
        assert len(budgets) == 1
    paper = EXPERIMENTS["digits/linear-50"].tiers["paper"]
    assert (paper.vae.epochs, paper.model.dim, paper.data.digits) == (50, 10, 60_000)
    assert paper.data.conditionals[0].startswith("anisotropic:2.5,")  # released: a factor 1/2


def test_the_paper_tier_says_what_it_needs(tmp_path):
    done = invoke("run", "digits/50/infonce", "--tier", "paper", "--out", tmp_path)
    assert done.exit_code == 1 and "at most 4,000" in done.output + (done.stderr or "")
    plan = invoke("run", "digits/50/infonce", "--tier", "paper", "--out", tmp_path, "--dry-run")
    assert "50 epochs of 60,000 digits" in plan.output and "300,000 steps" in plan.output
    with pytest.raises(DataError, match="holds no train-images"):
        raise invoke("run", "digits/50", "--data", tmp_path, "--out", tmp_path).exception


def test_an_encoder_of_pixels_starts_as_its_first_principal_components():
    torch.manual_seed(0)
    sample = torch.randn(3000, 100) @ torch.diag(torch.linspace(3, 0.1, 100))
    model = EXPERIMENTS["digits/25"].tiers["cpu"].model
    encoder = make_encoder(model, sample, 1.0)
    features = (sample - encoder.centre) @ encoder.whiten
    torch.testing.assert_close(torch.cov(features.T), torch.eye(64), atol=1e-3, rtol=0)
    assert features.shape[1] == 64
    body = torch.nn.functional.normalize(features[:, :10], dim=1)
    found = encoder(sample)
    torch.testing.assert_close(found @ found.T, body @ body.T, atol=1e-3, rtol=0)  # a rotation
