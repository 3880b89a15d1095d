import json
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from ident3d.benchmark.encoders.heads import Whitening
from ident3d.benchmark.losses import OBJECTIVES, InfoNCE, make_objective
from ident3d.benchmark.settings.run_settings import Loss, Training
from ident3d.benchmark.settings.schedules import SCHEDULES
from ident3d.benchmark.training import checkpoints, loop
from ident3d.benchmark.training.distributed import Ranks
from ident3d.benchmark.training.gradients import backward
from ident3d.benchmark.training.loop import Batch, train
from torch import nn

from ident3d.errors import DataError
from tests.support.interruptions import Killed, cut_off

SETTINGS = Training(steps=12, lr=1e-2, evaluations=4, schedule="one-cycle", device="cpu")


def make_encoder():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.LeakyReLU(), nn.Dropout(0.1), nn.Linear(8, 3))


def batches(first):
    step = first
    while True:
        rng = np.random.default_rng([7, step])
        x = torch.tensor(rng.normal(size=(16, 3)), dtype=torch.float32)
        yield Batch((x, x + 0.1), torch.cat([x, x + 0.1]))
        step += 1


def norm(encoder):
    return {"norm": sum(p.square().sum().item() for p in encoder.parameters())}


def run(settings=SETTINGS, checkpoint=None, source=batches, evaluate=norm):
    encoder = make_encoder()
    history = train(
        encoder, InfoNCE(Loss(), 3), source, settings, evaluate=evaluate, checkpoint=checkpoint
    )
    return history, encoder.state_dict()


@pytest.mark.parametrize("kill_at", [1, 5, 11])
def test_a_run_cut_off_at_any_step_ends_with_the_same_numbers(tmp_path, kill_at):
    settings = replace(SETTINGS, checkpoint_seconds=0)
    whole, weights = run()
    with pytest.raises(Killed):
        run(settings, tmp_path / "c", cut_off(batches, kill_at))
    again, weights_again = run(settings, tmp_path / "c")
    assert again.curves == whole.curves
    assert all(torch.equal(weights[key], weights_again[key]) for key in weights)


def test_curves_have_a_point_for_each_evaluation():
    history, _ = run()
    assert history.curves["step"] == [3, 6, 9, 12]
    assert set(history.curves) == {"step", "loss", "norm"}


def test_a_log_file_gets_lines_of_progress(monkeypatch, capsys):
    monkeypatch.setattr("ident3d.progress.LINE_EVERY", 0)
    run(evaluate=lambda encoder: {"r2": 0.5, "mcc": 0.25})
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 12 and lines[2].startswith("training: 3 of 12 steps")
    assert "r2" not in lines[1] and "r2 0.5000, mcc 0.2500" in lines[2]


def test_a_checkpoint_of_another_model_is_refused(tmp_path):
    run(replace(SETTINGS, checkpoint_seconds=0), tmp_path / "c")
    other = nn.Linear(3, 3)
    with pytest.raises(DataError, match="another model"):
        train(
            other,
            make_objective(Loss(name="supervised"), 3),
            batches,
            SETTINGS,
            evaluate=norm,
            checkpoint=tmp_path / "c",
        )


@pytest.mark.parametrize("damage", [b"", b"garbage", b"\x80\x04pickle"])
def test_a_damaged_checkpoint_is_refused(tmp_path, damage):
    (tmp_path / "c").write_bytes(damage)
    with pytest.raises(DataError, match="no checkpoint"):
        run(checkpoint=tmp_path / "c")


def test_a_flipped_bit_in_a_checkpoint_is_found(tmp_path):
    run(replace(SETTINGS, checkpoint_seconds=0), tmp_path / "c")
    content = bytearray((tmp_path / "c").read_bytes())
    content[-1] ^= 1  # of a tensor: the header is whole
    (tmp_path / "c").write_bytes(content)
    with pytest.raises(DataError, match="its digest disagrees"):
        run(checkpoint=tmp_path / "c")


def test_a_kill_while_saving_leaves_the_old_checkpoint(tmp_path, monkeypatch):
    encoder = make_encoder()
    optimizer = torch.optim.Adam(encoder.parameters())
    checkpoints.save(tmp_path / "c", {"encoder": encoder}, optimizer, {"step": 1})

    def die(*arguments):
        raise Killed

    monkeypatch.setattr("ident3d.files.os.replace", die)
    with pytest.raises(Killed):
        checkpoints.save(tmp_path / "c", {"encoder": encoder}, optimizer, {"step": 2})
    assert checkpoints.restore(tmp_path / "c", {"encoder": encoder}, optimizer) == {"step": 1}


def test_time_budget_ends_training_early_and_anneals():
    def slow(first):
        for batch in batches(first):
            time.sleep(0.05)
            yield batch

    history, _ = run(replace(SETTINGS, steps=10_000, seconds=0.4), source=slow)
    assert 2 <= history.step <= 9
    assert history.curves["step"][-1] == history.step


def test_a_loss_that_is_not_finite_stops_the_run():
    def poisoned(first):
        for batch in batches(first):
            yield Batch((batch.views[0] * torch.nan, batch.views[1]))

    with pytest.raises(DataError, match="not finite"):
        run(source=poisoned)


def test_one_cycle_rises_and_falls_to_nothing():
    values = [SCHEDULES["one-cycle"](done) for done in np.linspace(0, 1, 101)]
    assert np.argmax(values) == 10
    assert values[10] == pytest.approx(1)
    assert values[-1] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("piece", [5, 16, 31])
def test_gradients_in_pieces_equal_those_in_one_piece(piece):
    objective = InfoNCE(Loss(), 3)
    views = next(batches(0)).views
    gradients = []
    for rows in (None, piece):
        encoder = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 3)).double()
        torch.manual_seed(1)
        for parameter in encoder.parameters():
            nn.init.normal_(parameter)
        doubled = [view.double() for view in views]
        backward(encoder, encoder, doubled, objective, micro_batch=rows)
        gradients.append([p.grad for p in encoder.parameters()])
    for whole, pieces in zip(*gradients, strict=True):
        torch.testing.assert_close(whole, pieces, rtol=1e-10, atol=1e-12)


def test_pieces_draw_the_same_dropout_twice():
    encoder = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
    seen = []
    encoder[1].register_forward_hook(lambda module, inputs, output: seen.append(output.detach()))
    backward(encoder, encoder, [torch.randn(8, 3)], square, micro_batch=4)
    first, second = seen[:2], seen[2:]
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def square(embedded):
    return embedded[0].pow(2).mul(torch.arange(len(embedded[0]))[:, None]).mean()


@pytest.mark.parametrize("momentum", [0.1, None])  # None: the mean of all batches so far
@pytest.mark.parametrize(("norm_rows", "piece"), [(4, 4), (4, 8), (5, 10), (6, 12)])
def test_pieces_of_whole_groups_leave_batch_norm_as_it_is(norm_rows, piece, momentum):
    x = torch.randn(24, 3, generator=torch.Generator().manual_seed(0)).double()
    found = []
    for micro_batch in (None, piece):
        torch.manual_seed(1)
        norm = nn.BatchNorm1d(8, momentum=momentum)
        encoder = nn.Sequential(nn.Linear(3, 8), norm, nn.Tanh(), nn.Linear(8, 2)).double()
        for _ in range(2):
            value = backward(
                encoder, encoder, [x], square, micro_batch=micro_batch, norm_rows=norm_rows
            )
        gradients = {name: p.grad for name, p in encoder.named_parameters()}
        found.append({"loss": value, **gradients, **dict(encoder.named_buffers())})
    assert {"1.running_mean", "1.running_var", "1.num_batches_tracked"} < set(found[0])
    for name, whole in found[0].items():
        torch.testing.assert_close(found[1][name], whole, rtol=1e-10, atol=1e-12, msg=name)
    groups = [encoder[0](part) for part in x.split(norm_rows)]  # what `norm_rows` means
    normal = torch.cat([(g - g.mean(0)) / (g.var(0, False) + norm.eps).sqrt() for g in groups])
    with torch.no_grad():
        expected = square([encoder[2:](normal)])
    torch.testing.assert_close(found[1]["loss"], expected)


@pytest.mark.parametrize(("norm_rows", "piece"), [(None, 4), (8, 4), (8, 12), (48, 8)])
def test_pieces_that_batch_norm_would_notice_are_refused(norm_rows, piece):
    encoder = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    with pytest.raises(ValueError, match=r"`micro_batch` must be a multiple of `norm_rows`, the"):
        backward(
            encoder, encoder, [torch.randn(24, 3)], square, micro_batch=piece, norm_rows=norm_rows
        )


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_loss_goes_through_a_checkpoint(name, tmp_path):
    settings = Loss(name=name, similarity="metric")
    kept, other = (make_objective(settings, 3, 2) for _ in range(2))
    parameters = list(kept.parameters())
    for number, parameter in enumerate(parameters):
        parameter.data += number + 1.0
    modules = {"encoder": nn.Linear(3, 3), "objective": kept}
    optimizer = loop.make_optimizer(modules, SETTINGS)
    checkpoints.save(tmp_path / "c", modules, optimizer, {})
    checkpoints.restore(tmp_path / "c", modules | {"objective": other}, optimizer)
    for restored, parameter in zip(other.parameters(), parameters, strict=True):
        assert torch.equal(restored, parameter)


def test_pieces_that_whitening_would_notice_are_refused():
    encoder = nn.Sequential(nn.Linear(3, 3), Whitening(3, 1.0))
    with pytest.raises(ValueError, match="batch-norm or `whiten` normalise together, got 8"):
        backward(encoder, encoder, [torch.randn(24, 3)], square, micro_batch=8)


def test_without_batch_norm_any_pieces_will_do():
    encoder = nn.Linear(3, 3)
    backward(encoder, encoder, [torch.randn(24, 3)], square, micro_batch=5, norm_rows=8)


def test_mixed_precision_trains():
    def loss_of(encoder):
        x = next(batches(99)).views
        return {"fit": InfoNCE(Loss(), 3)([encoder(v) for v in x]).item()}

    history, _ = run(replace(SETTINGS, precision="bfloat16", steps=60), evaluate=loss_of)
    assert history.curves["fit"][-1] < history.curves["fit"][0]


def test_whitened_outputs_are_refused_where_ranks_share_a_batch(monkeypatch):
    monkeypatch.setattr(loop, "here", lambda: Ranks(rank=0, world=2))
    encoder = nn.Sequential(make_encoder(), Whitening(2, 1.0))
    with pytest.raises(ValueError, match="`whiten` must be false"):
        train(encoder, InfoNCE(Loss(), 2), batches, SETTINGS)


def test_an_unknown_device_is_refused():
    with pytest.raises(ValueError, match="`device` 'gpu'"):
        run(replace(SETTINGS, device="gpu"))


KILLED_RUN = """
import os, signal, sys
from ident3d.benchmark.training import wide_start
from ident3d.cli import main

draw, limit = wide_start.train, int(sys.argv[1])
steps = 0

def dying(*arguments, **options):
    source = arguments[2]
    def batches(first):
        for batch in source(first):
            global steps
            steps += 1
            if steps == limit:
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch
    return draw(arguments[0], arguments[1], batches, *arguments[3:], **options)

wide_start.train = dying
main(sys.argv[2:])
"""


@pytest.mark.slow
def test_killed_by_the_system_an_experiment_goes_on(tmp_path):
    options = ["benchmark", "run", "table1/[2]", "--set", "steps=30", "--set", "batch=32"]
    options += ["--set", "checkpoint_seconds=0", "--out"]

    def execute(limit, out):
        command = [sys.executable, "-c", KILLED_RUN, str(limit), *options, str(out)]
        return subprocess.run(command, capture_output=True, text=True, timeout=300)

    def records(out):
        found = {path.name: json.loads(path.read_text()) for path in out.glob("*.json")}
        kept = ("scores", "curves", "points", "correlation")
        return {name: {key: one[key] for key in kept} for name, one in found.items()}

    assert execute(0, tmp_path / "whole").returncode == 0
    for kill_at in (2, 17):
        assert execute(kill_at, tmp_path / "cut").returncode == -9
        assert not list((tmp_path / "cut").glob("*.json"))
    finished = execute(0, tmp_path / "cut")
    assert finished.returncode == 0, finished.stderr
    assert records(tmp_path / "cut") == records(tmp_path / "whole") != {}
    assert not any((tmp_path / "cut" / ".running").iterdir())
    assert "0 runs to do, 1 already" in execute(0, tmp_path / "cut").stdout
