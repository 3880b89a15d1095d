import json
import re

import numpy as np
import pytest
import torch
from ident3d.benchmark.results import load_all
from safetensors.torch import save_file

from ident3d.cli import main
from tests.support.helpers import make_dataset

ENCODERS = """
import numpy as np
import torch

def rows(images):
    return np.sin(images[:, 0, 0, :1] * np.arange(1, 13))

class Linear(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm2d(3)
        self.map = torch.nn.Linear(3, 10)
    def forward(self, images):
        return self.map(self.norm(images)[:, :, 0, 0])

one_number = 3

def wrong(images):
    return images
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_dataset(tmp_path_factory.mktemp("data"), rows=240, shard_size=120, size=4)


def run(capsys, *arguments):
    """The command's exit code, output and error."""
    code = 0
    try:
        main(["benchmark", "score", *map(str, arguments)])
    except SystemExit as stop:
        code = stop.code
    out, err = capsys.readouterr()
    return code, out, err


def scores(capsys, data, embeddings, tmp_path, *arguments):
    path = tmp_path / "e.npy"
    np.save(path, embeddings)
    code, out, err = run(capsys, "--data", data.path, "--embeddings", path, "--json", *arguments)
    assert code == 0, err
    return json.loads(out)


def test_affine_map_of_the_latents_has_r2_1(capsys, data, tmp_path):
    rng = np.random.default_rng(0)
    embeddings = data.latents @ rng.normal(size=(10, 10)) + 3
    found = scores(capsys, data, embeddings, tmp_path)
    assert found["r2"] == pytest.approx(1, abs=5e-4)
    assert found["mcc"] < 0.9
    assert min(found["r2_per_factor"].values()) > 0.999


def test_signed_permutation_has_mcc_1(capsys, data, tmp_path):
    rng = np.random.default_rng(0)
    embeddings = data.latents[:, rng.permutation(10)] * rng.choice([-1, 1], 10)
    found = scores(capsys, data, embeddings, tmp_path, "--protocol", "as-released")
    assert found["mcc"] == pytest.approx(1, abs=5e-4)
    assert found["dci_disentanglement"] > 0.5


def test_an_encoder_is_scored_as_its_embeddings_are(capsys, data, tmp_path, monkeypatch):
    (tmp_path / "ordered.py").write_text(ENCODERS)
    monkeypatch.syspath_prepend(tmp_path)
    as_released = ("--data", data.path, "--json", "--protocol", "as-released")
    embedded = np.sin(data.images[:][:, 0, 0, :1] * np.arange(1, 13))
    expected = scores(capsys, data, embedded, tmp_path, "--protocol", "as-released")
    code, out, err = run(
        capsys, *as_released, "--encoder", "ordered:rows", "--out", tmp_path / "out"
    )
    assert code == 0, err
    assert json.loads(out)["mcc"] == pytest.approx(expected["mcc"], abs=1e-6)
    # What it kept stands in the protocol's order, and the record beside it says so.
    (kept,) = (tmp_path / "out").glob("*.npy")
    code, out, err = run(capsys, *as_released, "--embeddings", kept)
    assert code == 0 and json.loads(out)["mcc"] == pytest.approx(expected["mcc"], abs=1e-6)
    code, _, err = run(capsys, "--data", data.path, "--embeddings", kept)
    assert code == 1 and "add --protocol as-released" in err


def test_noise_scores_near_0(capsys, data, tmp_path):
    found = scores(capsys, data, np.random.default_rng(0).normal(size=(240, 10)), tmp_path)
    assert found["r2"] < 0.1 and found["mcc"] < 0.2 and found["kernel_r2"] < 0.1


@pytest.mark.parametrize(
    ("embeddings", "reason"),
    [
        (np.zeros((239, 10)), "a row for each of the 240 images, got 239"),
        (np.zeros(240), "shape \\(n, k\\)"),
        (np.full((240, 10), np.nan), "row 0 holds nan"),
        (np.full((240, 10), 1e200), "below 1e\\+15"),
        (np.zeros((240, 10), bool), "must hold real numbers, got bool"),
        (np.array([{}] * 240), "must hold real numbers, got object"),
    ],
)
def test_what_does_not_fit_is_refused(capsys, data, tmp_path, embeddings, reason):
    path = tmp_path / "e.npy"
    np.save(path, embeddings, allow_pickle=True)
    code, out, err = run(capsys, "--data", data.path, "--embeddings", path)
    assert code in (1, 2) and not out
    assert len(err.strip().splitlines()) == 1 and "Traceback" not in err
    assert re.search(reason, err)


def test_another_fingerprint_is_refused(capsys, data, tmp_path):
    np.save(tmp_path / "e.npy", data.latents)
    where = ["--data", data.path, "--embeddings", tmp_path / "e.npy"]
    code, _, err = run(capsys, *where, "--fingerprint", "0" * 64)
    assert code == 1 and "0000000000000000" in err and data.fingerprint[:16] in err
    code, _, _ = run(capsys, *where, "--fingerprint", data.fingerprint, "--out", tmp_path / "r")
    assert code == 0
    record = next((tmp_path / "r").glob("*.json"))  # its fingerprint goes with its embeddings
    other = make_dataset(tmp_path / "other", rows=240, shard_size=120, size=4, seed=1)
    embeddings = record.with_suffix(".npy")
    code, _, err = run(capsys, "--data", other.path, "--embeddings", embeddings)
    assert code == 1 and "embeddings are of data" in err


def test_other_embeddings_do_not_replace_a_record(capsys, data, tmp_path):
    where = ["--data", data.path, "--embeddings", tmp_path / "e.npy", "--out", tmp_path / "r"]
    np.save(tmp_path / "e.npy", data.latents)
    assert run(capsys, *where, "--method", "A b")[0] == 0
    assert run(capsys, *where, "--method", "A b")[0] == 0  # the same once more
    kept = {path.name: path.read_bytes() for path in (tmp_path / "r").glob("*.npy")}
    np.save(tmp_path / "e.npy", -data.latents)
    code, out, err = run(capsys, *where, "--method", "A b")
    assert code == 1 and "another `--seed`" in err
    assert "mcc" in out  # the scores are shown all the same
    assert {path.name: path.read_bytes() for path in (tmp_path / "r").glob("*.npy")} == kept


def test_encoders_from_outside(capsys, data, tmp_path, monkeypatch):
    (tmp_path / "their_encoders.py").write_text(ENCODERS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("rows", "Linear"):
        code, out, err = run(capsys, "--data", data.path, "--encoder", f"their_encoders:{name}")
        assert code == 0, err
        assert "kernel_r2" in out
    for name, reason in [
        ("wrong", "\\(n, k\\)"),
        ("one_number", "callable"),
        ("nothing", "does not have"),
    ]:
        code, _, err = run(capsys, "--data", data.path, "--encoder", f"their_encoders:{name}")
        assert code == 2
        assert re.search(reason, err)
    code, _, err = run(capsys, "--data", data.path, "--encoder", "math:sqrt")
    assert code == 1 and "The encoder failed: TypeError" in err
    code, _, err = run(capsys, "--data", data.path, "--encoder", "no_such_module:f")
    assert code == 2 and "neither installed" in err


def test_weights_are_loaded_and_checked(capsys, data, tmp_path, monkeypatch):
    (tmp_path / "their_weights.py").write_text(ENCODERS)
    monkeypatch.syspath_prepend(tmp_path)
    import their_weights

    model = their_weights.Linear()
    save_file(model.state_dict(), tmp_path / "w.safetensors")
    save_file({"map.weight": torch.zeros(2, 2)}, tmp_path / "bad.safetensors")
    (tmp_path / "pickle.safetensors").write_bytes(b"not safetensors at all")
    arguments = ["--data", data.path, "--encoder", "their_weights:Linear", "--json", "--weights"]
    twice = [run(capsys, *arguments, tmp_path / "w.safetensors")[1] for _ in range(2)]
    assert twice[0] == twice[1] and json.loads(twice[0])["r2"] is not None
    for name, reason in [("bad", "does not fit"), ("pickle", "no safetensors file")]:
        code, _, err = run(capsys, *arguments, tmp_path / f"{name}.safetensors")
        assert code == 1 and reason in err


def test_seeds_of_other_weights_are_one_row(capsys, data, tmp_path, monkeypatch):
    (tmp_path / "seeded_weights.py").write_text(ENCODERS)
    monkeypatch.syspath_prepend(tmp_path)
    import seeded_weights

    for seed in range(2):
        torch.manual_seed(seed)
        weights = tmp_path / f"w{seed}.safetensors"
        save_file(seeded_weights.Linear().state_dict(), weights)
        arguments = ["--encoder", "seeded_weights:Linear", "--weights", weights, "--seed", seed]
        run(capsys, "--data", data.path, *arguments, "--method", "Mine", "--out", tmp_path / "out")
    first, second = load_all(tmp_path / "out")
    assert first.group == second.group and first.scores["r2"] != second.scores["r2"]


def test_one_source_of_embeddings(capsys, data):
    code, _, err = run(capsys, "--data", data.path)
    assert code == 2 and "--embeddings" in err


def test_old_names_of_protocols_are_taken_with_a_note(capsys, data, tmp_path):
    np.save(tmp_path / "z.npy", data.latents)
    where = ["--data", str(data.path), "--embeddings", str(tmp_path / "z.npy")]
    main(["benchmark", "score", *where, "--protocol", "paper", "--out", str(tmp_path / "r")])
    assert "Protocol 'paper' is called 'as-released' now." in capsys.readouterr().err
    (path,) = (tmp_path / "r").glob("*.json")
    assert json.loads(path.read_text())["protocol"] == "as-released"
    assert len(np.load(path.with_suffix(".npy"))) == len(data)
    with pytest.raises(SystemExit):
        main(["benchmark", "score", *where, "--protocol", "mine"])
    assert "`protocol` must be one of held-out, as-released" in capsys.readouterr().err
