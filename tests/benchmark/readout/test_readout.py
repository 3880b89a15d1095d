"""Read-outs: the data they see, what can be read, and runs that are cut off."""

import pickle

import numpy as np
import pytest
import torch
from ident3d.benchmark.experiments.select import EXPERIMENTS, published
from ident3d.benchmark.readout import coloured_digits, readout_run, solids
from ident3d.benchmark.readout.image_sources import ImageSet, read_source
from ident3d.benchmark.readout.linear_readout import (
    AUGMENTATIONS,
    Fit,
    accuracy,
    augment_half,
    readout_scores,
)
from ident3d.benchmark.readout.readout_settings import ReadoutData
from PIL import Image

from ident3d.errors import DataError
from tests.support.interruptions import killed


def test_digits_keep_their_ink_and_get_colours_that_tell_no_class():
    images, classes = coloured_digits.coloured_digits()
    assert images.shape == (5000, 32, 32, 3) and np.bincount(classes).tolist() == [500] * 10
    corner = images[:, 0, 0] / 255  # the ground, as no digit reaches it
    assert corner.max() <= 0.41 and np.ptp(corner, axis=1).min() > 0.03  # dark, and never grey
    means = np.stack([corner[classes == digit].mean(0) for digit in range(10)])
    assert np.ptp(means, axis=0).max() < 0.04  # 500 of each: their deviation is 0.005
    assert np.array_equal(images, coloured_digits.coloured_digits()[0])


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_half_of_the_images_are_augmented_and_the_others_left_alone(name):
    images = torch.rand(40, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    before = torch.get_rng_state()
    views, applied = augment_half(images, name, 7)
    assert torch.equal(torch.get_rng_state(), before)
    assert applied.sum() == 20
    changed = (views != images).flatten(1).any(1).numpy()
    assert (changed == applied).all()
    assert torch.equal(views, augment_half(images, name, 7)[0])
    if name == "grayscale":
        assert (np.ptp(views.numpy()[applied], axis=1) < 1e-6).all()


def test_a_linear_classifier_reads_what_is_linear_and_nothing_else():
    rng = np.random.default_rng(0)
    x, new = rng.normal(size=(600, 5)), rng.normal(size=(600, 5))
    assert accuracy(x, x[:, 0] > 0, new, new[:, 0] > 0) > 0.97
    two_sided = accuracy(x, np.abs(x[:, 0]) > 0.67, new, np.abs(new[:, 0]) > 0.67)
    assert two_sided == pytest.approx(0.5, abs=0.07)  # as brightness, which goes both ways
    with pytest.raises(DataError, match="two classes"):
        accuracy(x, np.zeros(600), new, np.zeros(600))


def test_scores_of_known_features():
    """Colourfulness shows that an image was made grey; a constant shows nothing."""
    images, classes = coloured_digits.coloured_digits()
    whole = ImageSet("digits", "all", images[:300], "0" * 64, classes[:300])

    def embed(views):
        colour = (views.amax(1) - views.amin(1)).mean((1, 2))
        return {"backbone": colour[:, None].numpy(), "projected": np.zeros((len(views), 1))}

    found = readout_scores(Fit(whole, whole, 200, 300), embed, 0, 1.0)
    assert found["grayscale_backbone"] > 0.95 and found["chance_augmentations"] == 0.5
    assert found["augmentations_projected"] == pytest.approx(0.5, abs=1e-9)
    mean = np.mean([found[f"{name}_backbone"] for name in AUGMENTATIONS])
    assert found["augmentations_backbone"] == pytest.approx(mean)
    assert found["chance_class"] == np.bincount(classes[:300]).max() / 300
    assert "kernel_r2_backbone" not in found  # digits have no factors


@pytest.fixture(scope="module")
def small_solids(tmp_path_factory):
    folder = tmp_path_factory.mktemp("solids") / "set"
    solids.make_solids(folder, {"trainset": 12, "testset": 6})
    return folder


def test_solids_come_as_causal3dident_does(small_solids):
    train, test = read_source(ReadoutData(source="split", folder=str(small_solids)))
    assert (len(train), len(test)) == (84, 42) and len(train.factors) == 10
    assert np.bincount(train.classes).tolist() == [12] * 7
    assert train.images.shape == (84, 32, 32, 3)
    row = 17  # of class 1
    name = list(solids.SOLIDS)[train.classes[row]]
    assert np.array_equal(train.images[row], solids.draw(name, train.latents[row]))


def test_every_factor_and_class_of_the_solids_is_seen():
    middle = np.full(10, 0.2)
    seen = solids.draw("hook", middle)
    for column in range(10):
        moved = middle.copy()
        moved[column] = -0.6
        assert np.abs(solids.draw("hook", moved).astype(int) - seen).max() > 20, column
    drawn = [solids.draw(name, middle).astype(int) for name in solids.SOLIDS]
    apart = [np.abs(a - b).sum() for k, a in enumerate(drawn) for b in drawn[:k]]
    assert min(apart) > 2_000


def test_one_split_is_divided_without_a_row_in_both(small_solids):
    data = ReadoutData(source="split", folder=str(small_solids), train="test", side=16)
    train, test = read_source(data)
    assert (len(train), len(test)) == (29, 13) and train.images.shape[1:] == (16, 16, 3)
    assert not set(map(tuple, train.latents)) & set(map(tuple, test.latents))


def test_cifar10_is_read_if_its_files_are_the_published_ones(tmp_path, monkeypatch):
    with pytest.raises(DataError, match="no whole CIFAR10"):
        read_source(ReadoutData(source="cifar10", folder=str(tmp_path)))
    from torchvision.datasets import CIFAR10
    from torchvision.datasets.utils import calculate_md5

    folder = tmp_path / CIFAR10.base_folder
    folder.mkdir()
    pixels = np.arange(4 * 3072, dtype=np.uint8).reshape(4, 3072)
    for name, content in {
        "data_batch_1": {"data": pixels, "labels": [1, 2, 3, 0]},
        "test_batch": {"data": pixels[::-1], "labels": [0, 3, 2, 1]},
        "batches.meta": {"label_names": [str(number) for number in range(10)]},
    }.items():
        (folder / name).write_bytes(pickle.dumps(content))
    sums = {path.name: calculate_md5(path) for path in folder.iterdir()}
    monkeypatch.setattr(CIFAR10, "train_list", [["data_batch_1", sums["data_batch_1"]]])
    monkeypatch.setattr(CIFAR10, "test_list", [["test_batch", sums["test_batch"]]])
    meta = {"filename": "batches.meta", "key": "label_names", "md5": sums["batches.meta"]}
    monkeypatch.setattr(CIFAR10, "meta", meta)
    train, test = read_source(ReadoutData(source="cifar10", folder=str(tmp_path)))
    assert train.images.shape == (4, 32, 32, 3) and train.classes.tolist() == [1, 2, 3, 0]
    assert np.array_equal(test.images[::-1], train.images)
    assert train.images[0, 0, 0].tolist() == pixels[0, [0, 1024, 2048]].tolist()
    (folder / "test_batch").write_bytes(b"other")  # never unpickled
    with pytest.raises(DataError, match="no whole CIFAR10"):
        read_source(ReadoutData(source="cifar10", folder=str(tmp_path)))


def test_photographs_are_read_by_folder_and_cut_to_a_square(tmp_path):
    with pytest.raises(DataError, match="folder of images for each class"):
        read_source(ReadoutData(source="photographs", folder=str(tmp_path)))
    for split, count in (("train", 3), ("val", 2)):
        for number, name in enumerate(("cat", "dog")):
            (tmp_path / split / name).mkdir(parents=True)
            for row in range(count):
                shade = np.full((30, 50, 3), 40 + 100 * number + row, np.uint8)
                Image.fromarray(shade).save(tmp_path / split / name / f"{row}.png")
    data = ReadoutData(source="photographs", folder=str(tmp_path), side=24)
    train, test = read_source(data)
    assert train.classes.tolist() == [0, 0, 0, 1, 1, 1] and test.images.shape == (4, 24, 24, 3)
    assert train.images[np.array([5, 0])][:, 12, 12, 0].tolist() == [142, 40]


@pytest.mark.parametrize("objective", ["infonce", "unnormalised"])
def test_a_run_that_is_cut_off_ends_with_the_same_scores(
    tmp_path, monkeypatch, small_solids, objective
):
    settings = EXPERIMENTS[f"content-style/solids/{objective}"].tiers["cpu"]
    settings = settings.with_(data=str(small_solids), steps=4, batch=8, checkpoint_seconds=0)
    (whole,) = readout_run.run(settings, 0, None, "whole")
    with killed(monkeypatch, readout_run, "augmented_batches", 2):
        readout_run.run(settings, 0, tmp_path / "c", "cut")
    (again,) = readout_run.run(settings, 0, tmp_path / "c", "again")
    assert again["scores"] == whole["scores"] and again["curves"] == whole["curves"]
    assert set(whole["scores"]["kernel_r2_per_factor_projected"]) >= {"x", "object_hue"}
    assert whole["scores"]["chance_class"] == pytest.approx(1 / 7)
    assert ("metric" in whole) == (objective == "unnormalised")
    saved = tmp_path / "e.safetensors"
    whole["encoder"].save(saved)
    from ident3d.benchmark.encoders.trained import load_encoder

    images = torch.rand(2, 3, 32, 32)
    assert torch.equal(load_encoder(saved)(images), whole["encoder"].encoder.eval()(images))


def test_controls_train_nothing(small_solids):
    for name in ("pixels", "untrained"):
        settings = EXPERIMENTS[f"content-style/solids/{name}"].tiers["cpu"]
        (fields,) = readout_run.run(settings.with_(data=str(small_solids)), 0, None, name)
        assert fields["seconds"] == 0 and 0 <= fields["scores"]["class_backbone"] <= 1
        assert ("class_projected" in fields["scores"]) == (name == "untrained")


def test_rows_have_the_numbers_of_the_table():
    found = published("readout/cifar10/unnormalised")
    assert found["class_projected"] == (0.791, None) and found["hue_backbone"] == (0.768, None)
    found = published("readout/imagenet/aninfonce")
    assert found["saturation_projected"] == (0.527, None) and len(found) == 14
    for row in ("cifar10/infonce", "cifar10/aninfonce", "imagenet/infonce", "imagenet/aninfonce"):
        numbers = published(f"readout/{row}")
        for kind in ("backbone", "projected"):  # the paper's own means agree with its columns
            mean = np.mean([numbers[f"{name}_{kind}"][0] for name in AUGMENTATIONS])
            assert numbers[f"augmentations_{kind}"][0] == pytest.approx(mean, abs=0.0011), row


@pytest.mark.parametrize("change", [{"beyond": 3.0}, {"wide_steps": 10}])
def test_what_a_readout_does_not_do_is_refused(change):
    with pytest.raises(ValueError, match="a read-out trains without"):
        EXPERIMENTS["readout/digits/infonce"].tiers["cpu"].with_(**change)


def test_a_dry_run_tells_the_cost_at_full_size_without_data(monkeypatch):
    from ident3d.benchmark.readout.readout_run import plan
    from ident3d.benchmark.training import cost

    monkeypatch.setattr(cost, "MEASURED", 4)
    settings = EXPERIMENTS["readout/cifar10/infonce"].tiers["paper"]
    words = plan(settings.with_(data="nowhere"), "cpu")
    assert "taken as 50,000 images of 32 px" in words and "97,000, each 512 pairs" in words
    assert "993.3 passes" in words and "million weights" in words
    words = plan(EXPERIMENTS["readout/digits/pixels"].tiers["cpu"], "cpu")
    assert "3,500 rows of 32 px" in words and "no training" in words
