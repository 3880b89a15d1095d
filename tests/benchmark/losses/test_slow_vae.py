"""The three terms of SlowVAE: against slow references, and against closed forms."""

import math

import numpy as np
import pytest
import torch
from ident3d.benchmark.losses import make_objective
from ident3d.benchmark.losses.slow_vae import (
    Posterior,
    laplace_cross_entropy,
    mask_decoder,
    normal_divergence,
    reconstruction,
    slow_vae,
    slow_vae_terms,
    transition,
)
from ident3d.benchmark.settings.run_settings import Loss
from scipy.integrate import quad
from scipy.stats import laplace, norm

RATE = 6.0
CASES = [(0.0, 1.0), (0.3, 0.1), (-2.0, 0.5), (1e-3, 3.0), (4.0, 0.02)]


def posterior(*cases):
    means, deviations = torch.tensor(cases, dtype=torch.float64).T
    return Posterior(means[None], 2 * deviations.log()[None])


def integral(density, law, mean, deviation):
    """Integrate -log law against a density, in parts where the integrand bends."""
    low, high = mean - 12 * deviation, mean + 12 * deviation
    bends = [point for point in (0.0, mean) if low < point < high]
    return quad(lambda z: -density(z) * law.logpdf(z), low, high, points=bends, limit=200)[0]


@pytest.mark.parametrize(("mean", "deviation"), CASES)
def test_the_laplace_term_is_the_integral(mean, deviation):
    found = laplace_cross_entropy(posterior((mean, deviation)), torch.zeros(1, 1), RATE).item()
    law = laplace(0, 1 / RATE)
    expected = integral(norm(mean, deviation).pdf, law, mean, deviation)
    assert found == pytest.approx(expected, rel=1e-6)


def test_the_laplace_term_in_closed_form_where_it_is_simple():
    centred = laplace_cross_entropy(posterior((0.0, 0.25)), torch.zeros(1, 1), RATE).item()
    assert centred == pytest.approx(RATE * 0.25 * math.sqrt(2 / math.pi) - math.log(RATE / 2))
    sharp = laplace_cross_entropy(posterior((2.0, 1e-9)), torch.zeros(1, 1), RATE).item()
    assert sharp == pytest.approx(RATE * 2.0 - math.log(RATE / 2))


def test_the_laplace_term_is_the_mean_of_draws():
    rng = np.random.default_rng(0)
    for mean, deviation in CASES:
        drawn = rng.normal(mean, deviation, 400_000)
        costs = -laplace(0.5, 1 / RATE).logpdf(drawn)
        found = laplace_cross_entropy(posterior((mean, deviation)), torch.full((1, 1), 0.5), RATE)
        assert found.item() == pytest.approx(costs.mean(), abs=5 * costs.std() / 400_000**0.5)


@pytest.mark.parametrize(("mean", "deviation"), CASES)
def test_the_normal_term_is_the_divergence(mean, deviation):
    one = posterior((mean, deviation))
    found = normal_divergence(one).item()
    torch_kl = torch.distributions.kl_divergence(
        torch.distributions.Normal(mean, deviation), torch.distributions.Normal(0.0, 1.0)
    )
    assert found == pytest.approx(torch_kl.item(), rel=1e-5, abs=1e-6)
    crossed = integral(norm(mean, deviation).pdf, norm(0, 1), mean, deviation)
    assert found == pytest.approx(crossed - one.entropy().item(), rel=1e-5, abs=1e-6)


def test_the_transition_adds_both_directions_and_takes_one_entropy():
    rng = np.random.default_rng(1)
    means, logs = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 3, 4))
    first, second = (Posterior(*map(torch.tensor, pair)) for pair in zip(means, logs, strict=True))
    total = 0.0
    for n in range(3):
        for d in range(4):
            for a, b in ((0, 1), (1, 0)):
                deviation = math.exp(logs[a, n, d] / 2)
                law = laplace(means[b, n, d], 1 / RATE)
                density, middle = norm(means[a, n, d], deviation).pdf, means[b, n, d]
                low, high = means[a, n, d] - 12 * deviation, means[a, n, d] + 12 * deviation
                bends = [p for p in (middle, means[a, n, d]) if low < p < high]
                total += quad(
                    lambda z, f=density, g=law: -f(z) * g.logpdf(z), low, high, points=bends
                )[0]
                total -= norm(0, deviation).entropy() / 2
    assert transition(first, second, RATE).item() == pytest.approx(total / 3, rel=1e-6)


def test_the_reconstruction_is_the_log_likelihood_of_pixels():
    rng = np.random.default_rng(2)
    logits, masks = rng.normal(size=(3, 1, 5, 5)), rng.integers(0, 2, (3, 1, 5, 5))
    total = 0.0
    for logit, pixel in zip(logits.ravel(), masks.ravel(), strict=True):
        chance = 1 / (1 + math.exp(-logit))
        total -= math.log(chance if pixel else 1 - chance)
    found = reconstruction(torch.tensor(logits), torch.tensor(masks, dtype=torch.float64))
    assert found.item() == pytest.approx(total / 3)


def test_samples_follow_the_posterior_and_pass_gradients():
    torch.manual_seed(0)
    mean, log_variance = torch.full((50_000, 1), 2.0), torch.full((50_000, 1), math.log(0.09))
    log_variance.requires_grad_()
    drawn = Posterior(mean, log_variance).sample()
    assert drawn.mean().item() == pytest.approx(2, abs=0.01)
    assert drawn.std().item() == pytest.approx(0.3, abs=0.005)
    drawn.square().mean().backward()
    # d/dv of E[z^2] = m^2 + exp(v) is exp(v)
    assert log_variance.grad.sum().item() == pytest.approx(0.09, abs=0.01)


def test_the_objective_weighs_its_terms_and_trains_its_decoder():
    settings = Loss(name="slow-vae", beta=0.5, gamma=3.0, rate=2.0)
    torch.manual_seed(0)
    objective = make_objective(settings, 10)
    views = [torch.randn(4, 20), torch.randn(4, 20)]
    images = torch.randint(0, 2, (8, 1, 64, 64), dtype=torch.uint8).expand(8, 3, 64, 64) * 255
    torch.manual_seed(1)
    value = objective(views, latents=images)
    torch.manual_seed(1)
    masks = images[:, :1].float() / 255
    terms = slow_vae_terms(*views, masks, objective.decoder, 2.0)
    expected = 2 * terms.reconstruction + 0.5 * terms.normal + 3.0 * terms.transition
    assert value.item() == pytest.approx(expected.item())
    torch.manual_seed(1)
    weights = {"beta": 0.5, "gamma": 3.0, "rate": 2.0}
    assert slow_vae(*views, masks, objective.decoder, **weights).item() == value.item()
    value.backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in objective.parameters())
    assert mask_decoder(10)(torch.zeros(2, 10)).shape == (2, 1, 64, 64)
    with pytest.raises(ValueError, match="reconstructs"):
        objective(views)
