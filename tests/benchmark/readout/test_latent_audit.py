"""The audit of augmentations: closed forms, a reader that is known, kills, the figure."""

import dataclasses

import numpy as np
import pytest
import torch
from ident3d.benchmark.experiments.select import EXPERIMENTS
from ident3d.benchmark.readout import audit_figure, latent_audit, solids
from ident3d.benchmark.readout.image_sources import ImageSet
from ident3d.benchmark.readout.latent_audit import audit, implied
from ident3d.benchmark.readout.latent_readers import Supervision
from ident3d.benchmark.results import Result
from PIL import Image

from ident3d.errors import DataError
from ident3d.factors import FACTORS
from tests.support.interruptions import killed


def test_the_implied_conditional_is_that_of_known_noise():
    rng, n = np.random.default_rng(0), 40_000
    truth = rng.uniform(-1, 1, (n, 2))
    own = truth + rng.normal(0.05, 0.1, (n, 2))
    moves = np.stack([rng.laplace(0.2, 0.3, (4, n)), rng.normal(0, 0.2, (4, n))], -1)
    found = implied(truth, own, own + moves)
    np.testing.assert_allclose(found["bias"], (0.25, 0.05), atol=0.01)
    np.testing.assert_allclose(found["net"], (0.3 * 2**0.5, 0.2), atol=0.01)
    np.testing.assert_allclose(found["spread"] ** 2, found["net"] ** 2 + 0.01, atol=0.003)
    np.testing.assert_allclose(found["kurtosis"], (3, 0), atol=0.35)
    noise = np.array([0.18, 0.04]) + 0.01
    np.testing.assert_allclose(found["r2"], (1 / 3) / (1 / 3 + noise), atol=0.01)


class Centre(torch.nn.Module):
    """Reads where the light of an image is, from left (-1) to right (1), and how much there is."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))

    def forward(self, images):
        grid = torch.linspace(-1, 1, images.shape[3]) * self.weight
        level = images.mean(1)
        places = (level * grid).sum((1, 2)) / level.sum((1, 2)).clamp(min=1e-6)
        return torch.stack([places, level.mean((1, 2))], 1)


def test_a_known_reader_sees_what_each_augmentation_does():
    rng = np.random.default_rng(0)
    columns, images = rng.integers(2, 30, 60), np.zeros((60, 32, 32, 3), np.uint8)
    images[np.arange(60), :, columns] = rng.integers(100, 200, (60, 1, 1))
    latents = Centre()(torch.from_numpy(images).permute(0, 3, 1, 2) / 255).detach().numpy()
    bars = ImageSet("bars", "all", images, "0" * 64, None, latents, FACTORS[1:3])
    scores, points = audit(Centre(), bars, np.arange(60), 2, 0)
    assert max(scores["own_error"].values()) < 1e-6
    deviation = latents[:, 0].std()
    assert scores["flip_net"]["y"] == pytest.approx(2 * deviation, rel=1e-3)  # y becomes -y
    assert scores["flip_r2"]["y"] == pytest.approx(1) and scores["flip_net"]["z"] < 1e-6
    for name in ("grayscale", "brightness", "saturation", "hue"):
        assert scores[f"{name}_net"]["y"] < 0.02, name
    assert scores["brightness_net"]["z"] > 0.005 > scores["hue_net"]["z"]
    assert scores["simclr_r2"]["y"] < 0.2  # half of the views are flipped
    assert len(points["true"]) == len(points["predicted"]) == 60


def test_a_hardened_reader_is_asked_only_for_what_a_view_leaves_alone():
    views = [torch.zeros(3, 10, requires_grad=True) for _ in range(3)]
    Supervision(FACTORS, "hardened")(views, torch.ones(9, 10)).backward()
    asked = [(view.grad != 0).all(0).tolist() for view in views]
    hues = [factor.group == "hue" for factor in FACTORS]
    assert asked == [[True] * 10, [not hue for hue in hues], hues]
    with pytest.raises(ValueError, match="reader"):
        Supervision(FACTORS, "soft")


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Settings of an audit of few solids."""
    folder = tmp_path_factory.mktemp("solids") / "set"
    solids.make_solids(folder, {"trainset": 6, "testset": 4})
    settings = EXPERIMENTS["augmentation-audit/hardened"].tiers["cpu"]
    return settings.with_(data=str(folder), steps=4, batch=8, views=1, checkpoint_seconds=0)


def test_an_audit_that_is_cut_off_ends_with_the_same_numbers(tmp_path, monkeypatch, small):
    (whole,) = latent_audit.run(small, 0, None, "whole")
    with killed(monkeypatch, latent_audit, "reader_batches", 2):
        latent_audit.run(small, 0, tmp_path / "c", "cut")
    (again,) = latent_audit.run(small, 0, tmp_path / "c", "again")
    assert again["scores"] == whole["scores"] and again["points"] == whole["points"]

    fields = {"method": "reader", "tier": "cpu", "protocol": "held-out", "seed": 0}
    del whole["encoder"]
    records = [
        Result(**fields, experiment=f"augmentation-audit/{name}", **whole)
        for name in ("plain", "hardened")
    ]
    path = tmp_path / "figure.png"
    audit_figure.draw(records, path)
    with Image.open(path) as figure:
        assert figure.size == (1650, 960)
    table = audit_figure.markdown_table(audit_figure.records(records, "plain")).splitlines()
    assert len(table) == 12 and table[2].startswith("| `x` | ") and table[2].count("|") == 9
    with pytest.raises(DataError, match="no records"):
        audit_figure.draw([], path)


def test_an_audit_needs_factors(small):
    digits = dataclasses.replace(small.data, source="digits")
    with pytest.raises(DataError, match="no factors"):
        latent_audit.run(dataclasses.replace(small, data=digits), 0, None, "digits")
    with pytest.raises(ValueError, match="`dim` must be 10"):
        latent_audit.run(small.with_(dim=4), 0, None, "narrow")
