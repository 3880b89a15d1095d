"""SlowVAE (Klindt et al. 2021): a variational autoencoder of pairs whose latents change sparsely.

Its posterior of each frame is normal, q(z | x) = N(mean, variance). Three terms are minimised: the
reconstruction of both frames, the divergence of their posteriors from a standard normal prior, and
their distance in time, where each posterior meets a Laplace prior around the other one's mean.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from ident3d.augment import to_float

from ..settings.run_settings import Loss
from .objective import Objective


class Posterior(NamedTuple):
    """Normal posteriors of some frames, (n, d) each."""

    mean: Tensor
    log_variance: Tensor

    @classmethod
    def read(cls, embedded: Tensor) -> "Posterior":
        """Take the halves of what an encoder returned, (n, 2 d)."""
        return cls(*embedded.chunk(2, dim=1))

    def sample(self) -> Tensor:
        """Draw one latent for each frame, so that gradients pass."""
        return self.mean + (self.log_variance / 2).exp() * torch.randn_like(self.mean)

    def entropy(self) -> Tensor:
        """Return the entropies in nats, (n, d)."""
        return 0.5 * (self.log_variance + math.log(2 * math.pi * math.e))


class Terms(NamedTuple):
    """The parts of the loss, scalars, in nats."""

    reconstruction: Tensor
    normal: Tensor
    transition: Tensor


def reconstruction(logits: Tensor, masks: Tensor) -> Tensor:
    """Return the mean over frames of -log p(x | z), Bernoulli in every pixel."""
    summed = functional.binary_cross_entropy_with_logits(logits, masks, reduction="sum")
    return summed / len(masks)


def normal_divergence(posterior: Posterior) -> Tensor:
    """Return KL(q || N(0, 1)), summed over dimensions, (n,)."""
    mean, log_variance = posterior
    return 0.5 * (mean.square() + log_variance.exp() - log_variance - 1).sum(1)


def laplace_cross_entropy(posterior: Posterior, centre: Tensor, rate: float) -> Tensor:
    """Return E_q[-log Laplace(z; centre, 1 / rate)], (n, d).

    It is -log(rate / 2) + rate E|z - centre|, and the mean of a folded normal is known:
    s sqrt(2 / pi) exp(-m^2 / 2 s^2) + m erf(m / s sqrt(2)), with m the mean of z - centre.
    """
    shift, deviation = posterior.mean - centre, (posterior.log_variance / 2).exp()
    ratio = shift / deviation
    near = deviation * math.sqrt(2 / math.pi) * torch.exp(-ratio.square() / 2)
    return rate * (near + shift * torch.erf(ratio / math.sqrt(2))) - math.log(rate / 2)


def transition(first: Posterior, second: Posterior, rate: float) -> Tensor:
    """Return how badly Laplace priors in time explain pairs, a scalar.

    As released: the cross-entropies of both directions are added, and of the entropies, which
    would make divergences of them, their mean is subtracted once.
    """
    both = laplace_cross_entropy(first, second.mean, rate)
    both = both + laplace_cross_entropy(second, first.mean, rate)
    entropy = (first.entropy() + second.entropy()) / 2
    return (both - entropy).sum(1).mean()


def slow_vae(
    anchors: Tensor,
    positives: Tensor,
    masks: Tensor,
    decoder: nn.Module,
    *,
    beta: float = 1.0,
    gamma: float = 10.0,
    rate: float = 6.0,
) -> Tensor:
    """Return the loss: twice the reconstruction, as released, and the others by their weights.

    Arguments are those of `slow_vae_terms`, and the weights of the standard normal prior and of
    the Laplace prior in time.
    """
    terms = slow_vae_terms(anchors, positives, masks, decoder, rate)
    return 2 * terms.reconstruction + beta * terms.normal + gamma * terms.transition


def slow_vae_terms(
    anchors: Tensor, positives: Tensor, masks: Tensor, decoder: nn.Module, rate: float = 6.0
) -> Terms:
    """Return the three terms for a batch of pairs.

    Args:
        anchors: Means and log-variances of the earlier frames, (n, 2 d).
        positives: Those of the later ones, (n, 2 d).
        masks: All frames, anchors first, in [0, 1], (2 n, ...).
        decoder: From latents, (2 n, d), to the logits of the masks.
        rate: Of the Laplace prior in time.
    """
    posterior = Posterior.read(torch.cat([anchors, positives]))
    return Terms(
        reconstruction(decoder(posterior.sample()), masks),
        normal_divergence(posterior).mean(),
        transition(Posterior.read(anchors), Posterior.read(positives), rate),
    )


def mask_decoder(dim: int) -> nn.Sequential:
    """Return the published decoder, the encoder in reverse: (n, dim) to logits (n, 1, 64, 64)."""
    layers: list[nn.Module] = [nn.Linear(dim, 256), nn.Unflatten(1, (256, 1, 1)), nn.ReLU()]
    layers += [nn.ConvTranspose2d(256, 64, 4), nn.ReLU()]
    for inputs, outputs in ((64, 64), (64, 32), (32, 32)):
        layers += [nn.ConvTranspose2d(inputs, outputs, 4, 2, 1), nn.ReLU()]
    return nn.Sequential(*layers, nn.ConvTranspose2d(32, 1, 4, 2, 1))


class SlowVAE(Objective):
    """SlowVAE, with the decoder that it learns."""

    function = staticmethod(slow_vae)
    prescribed = "l1"  # none is used
    reconstructs = True

    def __init__(self, settings: Loss, dim: int, processes: int = 1) -> None:
        super().__init__(settings, dim, processes)
        self.decoder = mask_decoder(dim)

    def forward(self, views: Sequence[Tensor], latents: Tensor | None = None) -> Tensor:
        """Return the loss; `latents` are the images of all views, (2 n, 3, 64, 64)."""
        if latents is None:
            raise ValueError("`latents` must be the images: this loss reconstructs them.")
        weights = {name: getattr(self.settings, name) for name in ("beta", "gamma", "rate")}
        return slow_vae(*self.pair(views), to_float(latents)[:, :1], self.decoder, **weights)
