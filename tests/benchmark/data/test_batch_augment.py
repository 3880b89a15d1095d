import numpy as np
import pytest
import torch
from ident3d.benchmark.data.batch_augment import SimCLR, blur, chosen, crop, grey, turn_hue


@pytest.fixture
def images():
    torch.manual_seed(0)
    return torch.rand(64, 3, 32, 32)


def test_every_image_is_augmented_differently():
    torch.manual_seed(0)
    one = np.random.default_rng(0).integers(0, 256, (1, 32, 32, 3), dtype=np.uint8)
    found = SimCLR().train()(torch.from_numpy(np.repeat(one, 8, 0)))
    assert found.shape == (8, 3, 32, 32) and found.min() >= 0 and found.max() <= 1
    flat = found.flatten(1)
    distances = torch.cdist(flat, flat) + torch.eye(8) * 10
    assert distances.min() > 0.1


def test_evaluation_changes_nothing(images):
    assert SimCLR().eval()(images) is images


def test_crops_of_a_ramp_are_ramps_inside_it():
    torch.manual_seed(0)
    ramp = torch.linspace(0, 1, 32).expand(200, 3, 32, 32)
    found = crop(ramp)[:, 0]
    widths = (found[:, :, -1] - found[:, :, 0]).mean(1)
    assert (widths < 0).float().mean().item() == pytest.approx(0.5, abs=0.12)  # flipped
    assert widths.abs().min() > 0.15 and widths.abs().max() <= 1
    assert torch.allclose(found[:, 0], found[:, -1], atol=1e-5)  # straight down nothing changes


def test_hue_turns_and_returns(images):
    half = turn_hue(images, torch.full((64,), 0.0))
    assert torch.allclose(half, images, atol=1e-5)
    red = torch.zeros(1, 3, 2, 2)
    red[:, 0] = 0.5
    green = turn_hue(red, torch.tensor([1 / 3]))
    assert torch.allclose(green[0, :, 0, 0], torch.tensor([0.0, 0.5, 0.0]), atol=1e-5)


def test_grey_and_blur(images):
    assert torch.allclose(grey(torch.ones(1, 3, 2, 2)), torch.ones(1, 1, 2, 2), atol=1e-3)
    smooth = blur(images)
    assert smooth.shape == images.shape
    assert smooth.std() < 0.8 * images.std()
    assert smooth.mean().item() == pytest.approx(images.mean().item(), abs=0.01)


def test_chosen_takes_the_share_asked_for():
    torch.manual_seed(0)
    taken = chosen(0.2, torch.ones(2000, 1, 1, 1), torch.zeros(2000, 1, 1, 1))
    assert taken.mean().item() == pytest.approx(0.2, abs=0.03)
