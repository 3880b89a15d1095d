import numpy as np
import pytest
import torch

from ident3d.augment import (
    SimCLR,
    blur,
    crop,
    grey,
    jitter,
    mix,
    normalize,
    simclr,
    to_float,
    turn_hue,
)


@pytest.fixture
def images():
    torch.manual_seed(0)
    return torch.rand(64, 3, 32, 32)


def test_every_image_is_augmented_differently():
    torch.manual_seed(0)
    one = np.random.default_rng(0).integers(0, 256, (1, 3, 32, 32), dtype=np.uint8)
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


def test_mix_takes_the_share_asked_for():
    torch.manual_seed(0)
    taken = mix(0.2, torch.ones(2000, 1, 1, 1), torch.zeros(2000, 1, 1, 1))
    assert taken.mean().item() == pytest.approx(0.2, abs=0.03)


@pytest.mark.parametrize("size", [24, 32, 48])
def test_simclr_gives_the_size_asked_for(size):
    out = simclr(size)(torch.randint(0, 255, (2, 3, 32, 32), dtype=torch.uint8))
    assert out.shape == (2, 3, size, size)


def test_strength_scales_the_jitter(images):
    assert torch.allclose(jitter(images, 0.0), images, atol=1e-5)
    weak, strong = ((jitter(images, s) - images).abs().mean() for s in (0.25, 1.0))
    assert weak < 0.5 * strong


def test_to_float_scales_bytes_alone(images):
    assert to_float(images) is images
    levels = torch.tensor([0, 51, 255], dtype=torch.uint8)
    torch.testing.assert_close(to_float(levels), torch.tensor([0.0, 0.2, 1.0]))


def test_simclr_and_normalize():
    images = torch.randint(0, 255, (6, 3, 32, 32), dtype=torch.uint8)
    images[3:] = images[0]
    out = simclr(24)(images)
    assert out.shape == (6, 3, 24, 24)
    assert out.dtype == torch.float32
    assert (out[3] != out[4]).any()  # equal images, each with its own draws
    flat = normalize(((0.5, 0.5, 0.5), (0.25, 0.5, 1.0)))(torch.full((1, 3, 2, 2), 255).byte())
    torch.testing.assert_close(flat[0, :, 0, 0], torch.tensor([2.0, 1.0, 0.5]))
    with pytest.raises(ValueError, match="Did you mean '3dident'"):
        normalize("3dIdent")
