"""Encoders: a backbone, and a head that puts its output into the model's space.

A builder takes the model's settings, its head, and a sample of what it will see, to take
statistics from: observations (n, dim), or images (n, 3, H, W), uint8 or float in [0, 1]. A new
backbone is a builder here, and its line in ENCODERS.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from ident3d.augment import to_float
from ident3d.errors import choose

from ..settings.run_settings import Model
from ..training.shared_norm import SharedBatchNorm2d
from .heads import Whitening, make_head
from .projected import PROJECTED, Pixels

SLOPE = 0.01  # of every leaky ReLU of ours
# sigmoid(1.7 x) is close to the normal distribution's function, so whitened features start out
# nearly uniform in a box model.
SPREAD = {"box": 1.7, "sphere": 1.0, "unbounded": 1.0}
PRINCIPAL = 64  # components that `principal` sees, at most
COARSE = 16  # pixels along each side that `compact` looks at
COMPONENTS = 4  # principal components that it keeps for each factor
NOISE = 0.4  # added to them in training, in units of their deviation
WIDTH = 128  # of its hidden layers, and of the last one of `look`
LOOK = (32, 64, 64, 128)  # channels of `look`, each layer half as wide as the one before
LOOK_SIDE = 32  # pixels along each side that it looks at


class Components(nn.Module):
    """Whitened principal components of coarse pixels, as `sample` has them.

    Whitening makes what changes few pixels, such as the distance to the camera, as loud as what
    changes many; noise in training keeps a small net from overfitting its few pairs.
    """

    centre: Tensor
    whiten: Tensor

    def __init__(self, sample: Tensor, count: int) -> None:
        super().__init__()
        flat = self._coarse(sample).double()  # (n, 3 COARSE^2)
        centre = flat.mean(0)
        _, deviations, directions = torch.linalg.svd(flat - centre, full_matrices=False)
        scale = (deviations[:count] / len(flat) ** 0.5).clamp(min=1e-6)
        self.register_buffer("centre", centre.float())
        self.register_buffer("whiten", (directions[:count].T / scale).float())

    def forward(self, images: Tensor) -> Tensor:
        """Return (n, count)."""
        found = (self._coarse(images) - self.centre) @ self.whiten
        return found + NOISE * torch.randn_like(found) if self.training else found

    @staticmethod
    def _coarse(images: Tensor) -> Tensor:
        return functional.adaptive_avg_pool2d(to_float(images), COARSE).flatten(1)


def mlp(
    dim: int,
    head: nn.Module,
    *,
    inputs: int | None = None,
    widths: Sequence[int] | None = None,
) -> nn.Sequential:
    """Return the papers' multilayer perceptron, from `inputs` (default `dim`) to `dim`, plus head.

    `widths` are the hidden widths; the papers' are (10, 50, 50, 50, 50, 10) times `dim`.
    """
    widths = [k * dim for k in (10, 50, 50, 50, 50, 10)] if widths is None else list(widths)
    sizes = [inputs or dim, *widths]
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), nn.LeakyReLU(SLOPE)]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], dim), head)


class Bent(nn.Module):
    """head(linear(x) + MLP(x)) of whitened x; the linear map is a rotation and the MLP 0 at first.

    A random MLP folds the latent space, and unfolding it takes most of a small budget. A linear map
    does not fold it (the projection of a sphere's head still does), and the MLP learns the bend.
    """

    centre: Tensor
    whiten: Tensor

    def __init__(
        self,
        centre: Tensor,
        whiten: Tensor,
        linear: nn.Linear,
        bend: nn.Sequential,
        head: nn.Module,
    ) -> None:
        super().__init__()
        self.register_buffer("centre", centre.float())
        self.register_buffer("whiten", whiten.float())
        self.linear, self.bend, self.head = linear, bend, head
        for parameter in (linear.bias, *bend[-2].parameters()):
            nn.init.zeros_(parameter)

    def forward(self, x: Tensor) -> Tensor:
        """Embed observations, (n, p) -> (n, dim)."""
        x = (x - self.centre) @ self.whiten
        return self.head(self.linear(x) + self.bend(x))


def variances(sample: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the mean of rows, (p,), and of their covariance inverse root eigenvalues and vectors.

    Ascending by variance, so that the principal components stand last: (p,) and (p, p).
    """
    sample = sample.double()
    centred = sample - sample.mean(0)  # not torch.cov, which has no shapes-only form
    values, vectors = torch.linalg.eigh(centred.T @ centred / (len(sample) - 1))
    return sample.mean(0), values.clamp(min=1e-12).rsqrt(), vectors


def resnet18(dim: int, head: nn.Module) -> nn.Sequential:
    """Return the papers' image encoder: ResNet18, 10 `dim` outputs, leaky ReLU, linear to `dim`."""
    from torchvision.models import resnet18 as build

    body = build(weights=None, num_classes=10 * dim, norm_layer=SharedBatchNorm2d)
    return nn.Sequential(body, nn.LeakyReLU(SLOPE), nn.Linear(10 * dim, dim), head)


class Strided(nn.Sequential):
    """The convolutions of SlowVAE's encoder, for masks of 64 x 64 pixels, to `outputs` numbers.

    It looks at one channel: masks are grey. Weights start as released, normal of He's variance.
    """

    def __init__(self, outputs: int) -> None:
        layers: list[nn.Module] = []
        for before, after in ((1, 32), (32, 32), (32, 64), (64, 64)):
            layers += [nn.Conv2d(before, after, 4, 2, 1), nn.ReLU()]
        layers += [nn.Conv2d(64, 256, 4), nn.ReLU(), nn.Flatten(), nn.Linear(256, outputs)]
        super().__init__(*layers)
        for layer in layers:
            if isinstance(layer, nn.Conv2d | nn.Linear):
                nn.init.kaiming_normal_(layer.weight)
                assert layer.bias is not None  # it has one unless told otherwise
                nn.init.zeros_(layer.bias)

    def forward(self, images: Tensor) -> Tensor:
        """Return (n, outputs)."""
        return super().forward(to_float(images)[:, :1])


class PosteriorMeans(nn.Module):
    """A backbone of 2 d outputs, means and log-variances: both in training, else the means."""

    def __init__(self, backbone: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.backbone, self.head = backbone, head

    def forward(self, images: Tensor) -> Tensor:
        """Return (n, 2 d) in training, (n, d) otherwise."""
        found = self.backbone(images)
        return found if self.training else self.head(found.chunk(2, dim=1)[0])


def _mlp(model: Model, head: nn.Module, sample: Tensor) -> nn.Module:
    return mlp(model.dim, head, inputs=sample.shape[1], widths=model.widths)


def _whitened(model: Model, head: nn.Module, sample: Tensor) -> nn.Module:
    """Return an encoder of as many observations as latents."""
    centre, scales, vectors = variances(sample)
    dim, widths = len(centre), model.widths or (64, 64, 64)
    # The inverse root of the covariance is V diag(1 / sqrt(values)) V', (dim, dim). Features start
    # with a standard deviation that suits the model's space.
    whiten, linear = vectors @ torch.diag(scales) @ vectors.T, nn.Linear(dim, dim)
    nn.init.orthogonal_(linear.weight, SPREAD[model.space])
    return Bent(centre, whiten, linear, mlp(dim, nn.Identity(), widths=widths), head)


def _rotated(model: Model, head: nn.Module, sample: Tensor) -> nn.Module:
    """Return `whitened` with one linear map more before its head, the identity at the start.

    To turn the axes of `whitened`, all weights of two layers must agree; here `dim` squared do it.
    """
    turn = nn.Linear(model.dim, model.dim, bias=False)
    nn.init.eye_(turn.weight)
    return _whitened(model, nn.Sequential(turn, head), sample)


def _principal(model: Model, head: nn.Module, sample: Tensor) -> nn.Module:
    """Return an encoder of observations of more dimensions than there are latents, such as pixels.

    The first `dim` of the whitened components are what it starts from, and the MLP learns the bend
    from all of them.
    """
    dim, count = model.dim, min(PRINCIPAL, sample.shape[1])
    bend = mlp(dim, nn.Identity(), inputs=count, widths=model.widths or (WIDTH, WIDTH))
    centre, scales, vectors = variances(sample)
    linear, start = nn.Linear(count, dim), torch.zeros(dim, count)
    start[:, :dim] = nn.init.orthogonal_(torch.empty(dim, dim))
    with torch.no_grad():
        linear.weight.copy_(start)
    return Bent(centre, (vectors * scales)[:, -count:].flip(1), linear, bend, head)


def _resnet18(model: Model, head: nn.Module, sample: Tensor) -> nn.Module:
    """Normalise the channels as the data has them, then the papers' encoder."""
    if model.widths is not None:
        raise ValueError("`widths` must be none for resnet18, whose layers are as published.")
    body = resnet18(model.dim, head)
    # Images come channels-last, the faster layout to convolve.
    return nn.Sequential(Pixels(sample), *body).to(memory_format=torch.channels_last)


def _compact(model: Model, head: nn.Module, sample: Tensor) -> nn.Module:
    """Return a small net that learns positions in seconds: for the demo, on any computer.

    A ResNet18 of random weights sees where the teapot is in the picture, and takes many epochs to
    see how far away it is; by then it has overfitted a few hundred pairs.
    """
    count = COMPONENTS * model.dim
    widths = model.widths or (WIDTH, WIDTH, 10 * model.dim)
    body = mlp(model.dim, head, inputs=count, widths=widths)
    return nn.Sequential(Components(sample, count), *body)


def _look(model: Model, head: nn.Module, sample: Tensor) -> nn.Module:
    """Return a small net of convolutions that sees how a thing is turned: for the demo.

    Features are normalised before the last map, so that a start by slow features suits its rate.
    """
    widths = model.widths or LOOK
    layers: list[nn.Module] = [Pixels(sample), nn.AdaptiveAvgPool2d(LOOK_SIDE)]
    side = LOOK_SIDE
    for before, after in pairwise((3, *widths)):
        convolution = nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False)
        layers += [convolution, SharedBatchNorm2d(after), nn.ReLU()]
        side = (side + 1) // 2
    layers += [nn.Flatten(), nn.Linear(widths[-1] * side**2, WIDTH), nn.LeakyReLU(SLOPE)]
    norm = [nn.Unflatten(1, (WIDTH, 1, 1)), SharedBatchNorm2d(WIDTH), nn.Flatten()]
    return nn.Sequential(*layers, *norm, nn.Linear(WIDTH, model.dim), head)


def _strided(model: Model, head: nn.Module, sample: Tensor) -> nn.Module:
    _check_masks(model, sample)
    return nn.Sequential(Strided(model.dim), head)


def _strided_posterior(model: Model, head: nn.Module, sample: Tensor) -> nn.Module:
    _check_masks(model, sample)
    return PosteriorMeans(Strided(2 * model.dim), head)


def _check_masks(model: Model, sample: Tensor) -> None:
    if model.widths is not None or tuple(sample.shape[1:]) != (3, 64, 64):
        raise ValueError(
            f"`encoder` {model.encoder} takes images of 64 x 64 pixels and has its own widths; "
            f"got {tuple(sample.shape[1:])} and widths {model.widths}."
        )


ENCODERS: dict[str, Callable[[Model, nn.Module, Tensor], nn.Module]] = {
    "mlp": _mlp,
    "whitened": _whitened,
    "rotated": _rotated,
    "principal": _principal,
    "resnet18": _resnet18,
    "compact": _compact,
    "look": _look,
    "strided": _strided,
    "strided-posterior": _strided_posterior,
    **PROJECTED,
}


def make_encoder(model: Model, sample: Tensor, size: float) -> nn.Module:
    """Return an encoder for what `sample` is like, its space starting at some size."""
    head: nn.Module = make_head(
        model.space, model.dim, size=size, learnable=model.learnable, size_as=model.size_as
    )
    if model.whiten:
        head = nn.Sequential(Whitening(model.dim, SPREAD[model.space]), head)
    return choose(ENCODERS, model.encoder, "encoder")(model, head, sample)
