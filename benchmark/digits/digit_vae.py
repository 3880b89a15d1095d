"""The VAE of the digits: three fully connected layers each way; its decoder is the mixing.

Trained once for a seed, by the loop of all training, and kept below the results: every row of that
seed has the same. A training that is killed goes on.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path

import torch
from torch import Tensor, nn

from ident3d.files import Lock, canonical_sha256

from ..data.synthetic import stream
from ..encoders.backbones import mlp
from ..encoders.tensor_files import read_tensors, write_tensors
from ..losses.slow_vae import Posterior, normal_divergence, reconstruction
from ..settings.composed import plain
from ..settings.run_settings import Training
from ..training.distributed import here
from ..training.loop import Batch, Batches, train
from .digit_images import PIXELS, Digits, flat
from .digit_settings import DigitSettings

KIND = "vae"
STREAM = 7  # of a seed: the order of the digits
OWN = ("digits", "fingerprints", "dim")  # settings that a VAE depends on, beside its own part

Augment = Callable[[Tensor], Tensor]  # (n, 784) in [0, 1], the same out


class Vae(nn.Module):
    """A Gaussian encoder and a Bernoulli decoder, both of three layers with leaky ReLU."""

    def __init__(self, dim: int, widths: Sequence[int]) -> None:
        super().__init__()
        self.encoder = mlp(2 * dim, nn.Identity(), inputs=PIXELS, widths=widths)
        self.decoder = mlp(PIXELS, nn.Identity(), inputs=dim, widths=widths[::-1])

    def forward(self, images: Tensor) -> Tensor:
        """Return logits of the pixels, means and log variances side by side, (n, 784 + 2 dim)."""
        mean, log_variance = self.encoder(images).chunk(2, 1)
        noise = torch.randn_like(mean) * (log_variance / 2).exp() if self.training else 0.0
        return torch.cat([self.decoder(mean + noise), mean, log_variance], 1)

    def means(self, images: Tensor) -> Tensor:
        """Return where images lie in the latent space, (n, dim)."""
        return self.encoder(images).chunk(2, 1)[0]


class Decoder(nn.Module):
    """The mixing g: latents on the unit sphere, times sqrt(dim), decoded to pixels in (0, 1).

    A standard normal vector of `dim` numbers has about that length, and the decoder knows no other.
    """

    def __init__(self, vae: Vae) -> None:
        super().__init__()
        self.decoder = vae.decoder.requires_grad_(False)

    def forward(self, latents: Tensor) -> Tensor:
        """Mix latents, (n, dim) -> (n, 784)."""
        return self.decoder(latents * math.sqrt(latents.shape[1])).sigmoid()


class NegativeElbo(nn.Module):
    """The VAE's loss: cross-entropy of the pixels, and the prior's divergence, weighted.

    The weight rises from 0 to 1 over the first `rise` calls: they are counted in a buffer, which a
    checkpoint keeps.
    """

    calls: Tensor

    def __init__(self, dim: int, rise: float) -> None:
        super().__init__()
        self.dim, self.rise = dim, rise
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, views: Sequence[Tensor], latents: Tensor) -> Tensor:
        """Return the loss of what `Vae` returns for images, which stand in place of latents."""
        self.calls += 1
        weight = (self.calls / self.rise).clamp(max=1.0) if self.rise else 1.0
        logits, *code = views[0].split([PIXELS, self.dim, self.dim], 1)
        divergence = normal_divergence(Posterior(*code)).mean()
        return reconstruction(logits, latents) + weight * divergence


def vae_batches(digits: Digits, size: int, seed: int, augment: Augment | None = None) -> Batches:
    """Return the endless batches of a training, from any step on: of each, a rank's part.

    Every epoch has an order of its own; its last, smaller batch is left out.
    """
    ranks, pixels = here(), flat(digits.images)
    per_epoch = max(1, len(pixels) // size)

    def source(first: int) -> Iterator[Batch]:
        for step in itertools.count(first):
            epoch, place = divmod(step, per_epoch)
            order = stream(seed, STREAM, epoch).permutation(len(pixels))
            rows = order[place * size : (place + 1) * size]
            images = pixels[rows[ranks.share(len(rows))]]
            images = images if augment is None else augment(images)
            yield Batch((images,), images)

    return source


def get_vae(
    settings: DigitSettings, seed: int, work: Path | None, augment: Augment | None = None
) -> Vae:
    """Return the VAE of a seed: from its file below `work`, or trained, and kept there.

    `work` is a folder for files that runs share; None: nothing is kept. `augment` is what is done
    to every digit that it learns from.
    """
    torch.manual_seed(seed)
    vae = Vae(settings.model.dim, settings.vae.widths)
    if work is None:
        return _trained(vae, settings, seed, None, augment)
    work.mkdir(parents=True, exist_ok=True)
    path, ranks = work / f"{_name(settings, seed, augment)}.safetensors", here()
    with Lock(path.with_suffix(".lock"), wait=True) if ranks.first else nullcontext():
        (done,) = ranks.agree([path.exists()])
        if done:
            vae.load_state_dict(read_tensors(path, KIND)[1])
            return vae.eval()
        checkpoint = path.with_suffix(".checkpoint")
        _trained(vae, settings, seed, checkpoint, augment)
        if ranks.first:
            write_tensors(path, KIND, {}, vae.state_dict())
            checkpoint.unlink(missing_ok=True)
    return vae


def _trained(
    vae: Vae, settings: DigitSettings, seed: int, checkpoint: Path | None, augment: Augment | None
) -> Vae:
    digits = settings.real_digits()
    training = vae_training(settings, len(digits.images))
    objective = NegativeElbo(settings.model.dim, settings.vae.warm_up * training.steps)
    batches = vae_batches(digits, training.batch, seed, augment)
    train(vae, objective, batches, training, checkpoint=checkpoint, label=f"VAE seed {seed}")
    return vae.cpu().eval()


def vae_training(settings: DigitSettings, digits: int) -> Training:
    """Return what the loop does for a VAE of so many digits."""
    own, shared = settings.vae, settings.training
    batch = min(own.batch, digits)
    return Training(
        steps=own.epochs * (digits // batch),
        batch=batch,
        lr=own.lr,
        schedule="one-cycle",
        device=shared.device,
        checkpoint_seconds=shared.checkpoint_seconds,
    )


def _name(settings: DigitSettings, seed: int, augment: Augment | None) -> str:
    own = {k: v for k, v in plain(settings).items() if k.startswith("vae_") or k in OWN}
    kind = "vae" if augment is None else "vae-augmented"
    return f"{kind}-s{seed}-{canonical_sha256(own)[:16]}"
