import math

import numpy as np
import pytest
import torch
from ident3d.benchmark.digits import digit_vae
from ident3d.benchmark.digits.digit_images import load_digits
from ident3d.benchmark.digits.digit_vae import Decoder, NegativeElbo, Vae, get_vae
from ident3d.benchmark.digits.digit_views import augment, shape, two_peaks, view_latents
from ident3d.benchmark.experiments import EXPERIMENTS
from torch.distributions import Bernoulli, Normal, kl_divergence

from tests.support.interruptions import killed

SMALL = (
    EXPERIMENTS["digits/25"]
    .tiers["cpu"]
    .with_(digits=64, vae_epochs=6, vae_batch=16, vae_widths=(8, 6), checkpoint_seconds=1e-9)
)


def test_the_loss_is_the_negative_evidence_bound():
    torch.manual_seed(0)
    vae, images = Vae(3, (7, 5)).eval(), torch.rand(4, 784)
    mean, log_variance = vae.encoder(images).chunk(2, 1)
    slow = 0.0
    for row in range(4):
        logits = vae.decoder(mean[row])
        pixels = images[row]
        likelihood = pixels * torch.log(logits.sigmoid()) + (1 - pixels) * torch.log(
            1 - logits.sigmoid()
        )
        posterior = Normal(mean[row], (log_variance[row] / 2).exp())
        slow += kl_divergence(posterior, Normal(0.0, 1.0)).sum() - likelihood.sum()
    found = NegativeElbo(3, 0.0)([vae(images)], images)
    torch.testing.assert_close(found, slow / 4, rtol=1e-4, atol=0)
    black = torch.zeros(1, 784)
    flat = digit_vae.reconstruction(torch.zeros(1, 784), black)
    assert flat.item() == pytest.approx(784 * math.log(2))  # closed form
    assert Bernoulli(logits=0.0).entropy().item() == pytest.approx(math.log(2))


def test_the_weight_of_the_prior_rises_with_the_calls():
    loss, images = NegativeElbo(1, 4.0), torch.zeros(1, 784)
    view = torch.cat([torch.full((1, 784), -30.0), torch.tensor([[2.0, 0.0]])], 1)
    values = [loss([view], images).item() for _ in range(6)]
    # The divergence of N(2, 1) is 2, and the pixels are certain.
    np.testing.assert_allclose(values, [0.5, 1.0, 1.5, 2.0, 2.0, 2.0], atol=1e-4)


def test_latents_on_the_sphere_are_decoded_at_the_length_of_normal_ones():
    torch.manual_seed(0)
    vae = Vae(9, (8, 6))
    z = torch.nn.functional.normalize(torch.randn(5, 9), dim=1)
    torch.testing.assert_close(Decoder(vae)(z), vae.decoder(3 * z).sigmoid())


def test_a_vae_that_was_cut_off_goes_on_to_the_same_weights(tmp_path, monkeypatch):
    whole = get_vae(SMALL, 3, tmp_path / "whole")
    batches = digit_vae.vae_batches
    with killed(monkeypatch, digit_vae, "vae_batches", 7):
        get_vae(SMALL, 3, tmp_path / "cut")
    assert [path.suffix for path in (tmp_path / "cut").glob("*.checkpoint")] == [".checkpoint"]
    steps = []

    def seen(*arguments):
        def source(first):
            steps.append(first)
            return batches(*arguments)(first)

        return source

    monkeypatch.setattr(digit_vae, "vae_batches", seen)
    again = get_vae(SMALL, 3, tmp_path / "cut")
    assert steps == [7]
    for key, tensor in whole.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[key]), key
    kept = get_vae(SMALL, 3, tmp_path / "cut")  # from its file: nothing is trained
    assert steps == [7] and torch.equal(kept.decoder[0].weight, whole.decoder[0].weight)
    other = get_vae(SMALL, 4, tmp_path / "cut")
    assert not torch.equal(other.decoder[0].weight, whole.decoder[0].weight)


def test_a_vae_learns_to_draw_digits():
    settings = SMALL.with_(digits=512, vae_epochs=40, vae_batch=32, vae_widths=(64, 32))
    vae = get_vae(settings, 0, None)
    digits = load_digits(None, 512)
    images = digit_vae.flat(digits.test_images)
    with torch.no_grad():
        found = vae(images)[:, :784].sigmoid()
    mean = digit_vae.flat(digits.images).mean(0)
    assert (found - images).square().mean() < 0.85 * (mean - images).square().mean()


def test_views_of_a_digit_are_crops_and_flips_of_it_drawn_apart():
    digit = np.zeros((28, 28), np.uint8)
    digit[:, :14] = 255
    torch.manual_seed(0)
    views, latents = view_latents(Vae(3, (8, 6)), digit, 5, 50)
    assert views.shape == (50, 784) and latents.shape == (50, 3)
    brighter_left = views.view(50, 28, 28)[:, :, 0] > views.view(50, 28, 28)[:, :, -1]
    assert 0.2 < brighter_left.float().mean() < 0.8  # some are flipped
    assert len({view.numpy().tobytes() for view in views}) > 25
    again, _ = view_latents(Vae(3, (8, 6)), digit, 5, 50)
    assert torch.equal(views, again)
    assert augment(torch.zeros(2, 784)).shape == (2, 784)


def test_shapes_of_samples_are_told_apart():
    rng = np.random.default_rng(0)
    normal = rng.standard_normal((400, 20))
    halves = normal + 6 * rng.integers(0, 2, (400, 1))
    assert shape([normal]).not_normal < 0.1 and shape([normal]).two_peaks < 0.1
    assert shape([halves]).not_normal == shape([halves]).two_peaks == 1.0
    skewed = rng.exponential(size=(400, 20))
    assert shape([skewed]).not_normal == 1.0 and not two_peaks(normal[:, 0])
