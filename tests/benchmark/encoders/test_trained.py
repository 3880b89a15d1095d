import json
import subprocess
import sys

import ident3d.benchmark
import numpy as np
import pytest
import torch
from ident3d.benchmark.encoders import make_encoder
from ident3d.benchmark.encoders.tensor_files import write_tensors
from ident3d.benchmark.encoders.trained import KIND, Trained, read_trained
from ident3d.benchmark.results import load_all
from ident3d.benchmark.settings.composed import plain
from ident3d.benchmark.settings.run_settings import ImageSettings, Model, Training

from ident3d.cli import main
from ident3d.errors import DataError

TRAINING = Training(steps=1)
MODELS = {
    "mlp": (Model(dim=3, widths=(5, 4)), (20, 6)),
    "whitened": (Model(dim=4, encoder="whitened", space="sphere"), (20, 4)),
    "rotated": (Model(dim=4, encoder="rotated", widths=(8,), space="sphere"), (20, 4)),
    "principal": (Model(dim=4, encoder="principal", widths=(8,), space="sphere"), (20, 9)),
    "resnet18": (Model(dim=2, encoder="resnet18", space="unbounded"), (4, 3, 32, 32)),
    "compact": (Model(dim=3, encoder="compact", size="theory"), (40, 3, 20, 20)),
    "look": (Model(dim=3, encoder="look", whiten=True), (40, 3, 20, 20)),
}
EMBED = """
import sys
import numpy as np
import ident3d.benchmark
from ident3d.benchmark.scoring.embedding import embed
import ident3d

encoder = ident3d.benchmark.load_encoder(sys.argv[1])
np.save(sys.argv[3], embed(encoder, ident3d.load(sys.argv[2]).images))
"""


def make(name):
    model, shape = MODELS[name]
    torch.manual_seed(0)
    encoder = make_encoder(model, torch.rand(shape), 2.0)
    return Trained(encoder, plain(ImageSettings(model=model, training=TRAINING)), shape)


@pytest.mark.parametrize("name", MODELS)
def test_what_is_read_embeds_to_the_bit_as_what_was_saved(tmp_path, name):
    trained = make(name)
    trained.encoder(torch.rand(trained.sample))  # moves running statistics
    trained.save(tmp_path / "e.safetensors")
    torch.manual_seed(1)  # what is read depends on nothing else
    again = ident3d.benchmark.load_encoder(tmp_path / "e.safetensors")
    assert not again.training
    x = torch.rand(trained.sample)
    if len(trained.sample) == 4:
        x = x.to(memory_format=torch.channels_last)
    with torch.no_grad():
        assert torch.equal(trained.encoder.eval()(x), again(x))


@pytest.fixture(scope="module")
def results(data, tmp_path_factory):
    """Two seeds of a row of table 4, with batch-norm, trained for a moment."""
    out = tmp_path_factory.mktemp("results")
    options = ["--tier", "tiny", "--data", data, "--seeds", "2", "--out", out]
    changes = {"steps": 2, "batch": 16, "encoder": "resnet18", "train_rows": 20}
    options += [word for name, value in changes.items() for word in ("--set", f"{name}={value}")]
    main(["benchmark", "run", "table4/1", *map(str, options)])
    return out


def files(results, suffix):
    return sorted(results.glob(f"*held-out*.{suffix}"))


def test_a_run_keeps_its_encoder_and_a_fresh_process_embeds_the_same(results, data, tmp_path):
    assert len(list(results.glob("*.safetensors"))) == 2
    path = files(results, "safetensors")[0]
    arguments = [path, data / "test", tmp_path / "found.npy"]
    subprocess.run([sys.executable, "-c", EMBED, *map(str, arguments)], check=True, timeout=300)
    np.testing.assert_array_equal(
        np.load(tmp_path / "found.npy"), np.load(path.with_suffix(".npy"))
    )


def test_it_is_scored_by_its_file_alone(results, data, capsys):
    path = files(results, "safetensors")[0]
    main(["benchmark", "score", "--data", str(data / "test"), "--encoder", str(path), "--json"])
    scores = json.loads(capsys.readouterr().out)
    kept = json.loads(path.with_suffix(".json").read_text())["scores"]
    assert scores["r2"] == pytest.approx(kept["r2"], abs=1e-12)
    assert scores["mcc"] == pytest.approx(kept["mcc"], abs=1e-12)


def test_it_goes_into_an_entry_and_is_verified(results, data, tmp_path, capsys):
    records = list(map(str, files(results, "json")))
    main(["benchmark", "pack", *records, "--encoders", "--out", str(tmp_path / "entry")])
    verify = ["benchmark", "verify", str(tmp_path / "entry"), "--data", str(data / "test")]
    main(verify)
    assert "agrees" in capsys.readouterr().out
    assert len(load_all(tmp_path)) == 2
    network = tmp_path / "entry" / "encoder-s0.safetensors"
    network.write_bytes(network.read_bytes()[:-4] + b"\0\0\0\0")
    with pytest.raises(SystemExit):
        main(verify)
    assert "encoder-s0.safetensors was changed after packing" in capsys.readouterr().err


def test_an_encoder_of_another_run_is_not_packed(results, tmp_path, capsys):
    first = files(results, "json")[0]
    for path in (first, first.with_suffix(".npy")):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    make("mlp").save((tmp_path / first.name).with_suffix(".safetensors"))
    out = str(tmp_path / "entry")
    with pytest.raises(SystemExit):
        main(["benchmark", "pack", str(tmp_path / first.name), "--encoders", "--out", out])
    assert "the encoder of another run" in capsys.readouterr().err
    assert not (tmp_path / "entry").exists()


def test_images_of_another_size_are_refused(results, tmp_path, data, capsys):
    make("compact").save(tmp_path / "e.safetensors")
    encoder = str(tmp_path / "e.safetensors")
    with pytest.raises(SystemExit):
        main(["benchmark", "score", "--data", str(data / "test"), "--encoder", encoder])
    assert "takes inputs of shape (3, 20, 20)" in capsys.readouterr().err


HOSTILE = {
    "another width": {"widths": [5, 5]},
    "a width beyond all memory": {"widths": [2**40, 2**40]},
    "a width that overflows": {"widths": [2**62]},
    "no width": {"widths": [0]},
    "a negative width": {"widths": [-1]},
    "a thousand layers": {"widths": [1] * 1000},
    "text for a number": {"dim": "3"},
    "no dimension": {"dim": 0},
    "an unknown encoder": {"encoder": "os.system"},
    "an unknown space": {"model_space": "__import__('os')"},
    "a size that is none": {"size": -1.0},
}


@pytest.mark.parametrize("changes", HOSTILE.values(), ids=HOSTILE)
def test_settings_that_do_not_describe_the_tensors_are_refused(tmp_path, changes):
    trained = make("mlp")
    path = tmp_path / "e.safetensors"
    Trained(trained.encoder, trained.settings | changes, trained.sample).save(path)
    with pytest.raises(DataError, match="no encoder that its settings describe"):
        read_trained(path)


def test_a_trained_encoder_is_as_readable_as_any_file(tmp_path):
    make("mlp").save(tmp_path / "encoder")
    (tmp_path / "other").touch()
    assert (tmp_path / "encoder").stat().st_mode == (tmp_path / "other").stat().st_mode


@pytest.mark.parametrize("sample", [[], [20], [20, 7], [-1, 6], "text", [20, 2**62], [1, 2, 3, 4]])
def test_samples_that_do_not_describe_the_tensors_are_refused(tmp_path, sample):
    trained = make("mlp")
    state = {"settings": trained.settings, "sample": sample}
    write_tensors(tmp_path / "e", KIND, state, trained.encoder.state_dict())
    with pytest.raises(DataError, match="no encoder that its settings describe"):
        read_trained(tmp_path / "e")


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("sample", [[], [5], [5, 0], [5, 3, 4], [5, 1, 16, 16], [5, 3, 0, 16]])
def test_samples_of_a_shape_that_nothing_has_are_refused(tmp_path, name, sample):
    trained = make(name)
    state = {"settings": trained.settings, "sample": sample}
    write_tensors(tmp_path / "e", KIND, state, trained.encoder.state_dict())
    with pytest.raises(DataError, match=r"`sample` must be \(n, dim\) or \(n, 3, H, W\)"):
        read_trained(tmp_path / "e")


def test_other_tensors_and_other_files_are_refused(tmp_path):
    trained, path = make("mlp"), tmp_path / "e.safetensors"
    state = {"settings": trained.settings, "sample": list(trained.sample)}
    tensors = dict(trained.encoder.state_dict())
    for change in (
        {"0.weight": tensors["0.weight"].double()},
        {"0.weight": tensors["0.weight"].T.contiguous()},
        {"more": torch.zeros(3)},
    ):
        write_tensors(path, KIND, state, tensors | change)
        with pytest.raises(DataError, match="not those of its settings' model"):
            read_trained(path)
    write_tensors(path, KIND, state, tensors | {"0.bias": tensors["0.bias"] * torch.nan})
    with pytest.raises(DataError, match="finite"):
        read_trained(path)
    for content in (b"", b"garbage", b"\x80\x04pickle"):
        path.write_bytes(content)
        with pytest.raises(DataError, match="no encoder of this version"):
            read_trained(path)
    with pytest.raises(DataError, match="There is no"):
        read_trained(tmp_path / "gone.safetensors")
    write_tensors(path, "checkpoint", state, tensors)
    with pytest.raises(DataError, match="no encoder of this version"):
        read_trained(path)
