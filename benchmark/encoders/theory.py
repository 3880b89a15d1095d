"""What the theory predicts of a trained model: the size of its space, and its metric.

At the optimum the model's conditional is the true one (Zimmermann et al. 2021, proposition 1), so
exp(-|s d|_p^p / tau) must be as wide as the noise d. That gives the size s for infinitely many
negatives and no boundary, and it needs the true conditional (docs/science.md: sizes need no truth).
"""

import math
from collections.abc import Sequence

from ident3d.conditionals import VMF, Anisotropic, Conditional, GenNorm, Laplace, Normal, Product
from ident3d.factors import FACTORS
from ident3d.spaces import Box, Space

from ..losses.similarities import Dot, Lp, Similarity, make_similarity
from ..settings.run_settings import Loss, Model


def absolute_moment(conditional: Conditional, p: float) -> float:
    """Return E|d|^p of one coordinate of the noise, away from any boundary."""
    exponent, scale = _general_normal(conditional)
    return scale**p * math.gamma((p + 1) / exponent) / math.gamma(1 / exponent)


def stretch(conditional: Conditional, similarity: Similarity, tau: float = 1.0) -> float:
    """Return how many times larger than the latents the embedding becomes.

    For `-|x - y|_p^p` it is the most likely s for noise d under exp(-|s d|_p^p / tau): the exact
    one if the noise is of that family, the best one if it is not. For a dot product it is
    sqrt(tau kappa), the radius of the sphere.
    """
    if isinstance(similarity, Dot):
        return math.sqrt(tau * concentration(conditional))
    if isinstance(similarity, Lp) and similarity.power:
        p = similarity.p
        return (tau / (p * absolute_moment(conditional, p))) ** (1 / p)
    raise ValueError(
        f"`size` must be given for {similarity.conditional}, whose width is not known; set size=1."
    )


def predicted_size(
    model: Model, loss: Loss, space: Space, conditional: Conditional, deviation: float
) -> float:
    """Return the size of the model's space at the optimum: that of the latents, stretched."""
    factor = 1.0  # of what is supervised
    if loss.name != "supervised":
        similarity = make_similarity(loss.similarity, model.dim, loss.metric_start, root=loss.root)
        factor = stretch(conditional, similarity, loss.tau)
    return factor * latent_size(model.space, space, deviation)


def latent_size(model_space: str, space: Space, deviation: float) -> float:
    """Return how large the latents are, in the sense in which a model's space has a size.

    A box is as wide as theirs. An unbounded model's features start with standard deviation 1, so
    its size is a deviation.
    """
    if model_space != "box":
        return 1.0 if model_space == "sphere" else deviation
    if not isinstance(space, Box):
        raise ValueError(f"`size` must be given for a box around latents on {space}.")
    return space.high - space.low


def true_diagonal(conditional: Conditional, factors: Sequence[str]) -> list[float] | None:
    """Return L of a conditional exp(-d'Ld), one number for each factor; None if it is no such."""
    if isinstance(conditional, Normal):
        return [0.5 / conditional.scale**2] * len(factors)
    if isinstance(conditional, Anisotropic) and len(conditional.concentrations) == len(factors):
        return list(conditional.concentrations)
    if isinstance(conditional, Product):
        groups = {factor.name: factor.group for factor in FACTORS}
        parts = conditional.parts
        chosen = [parts.get(n) or parts.get(groups[n]) or conditional.others for n in factors]
        widths = [part.scale for part in chosen if isinstance(part, Normal)]
        if len(widths) == len(factors):
            return [0.5 / width**2 for width in widths]
    return None


def concentration(conditional: Conditional) -> float:
    """Return the kappa of the von Mises-Fisher distribution of the same width."""
    if isinstance(conditional, VMF):
        return conditional.concentration
    if isinstance(conditional, Anisotropic):  # exp(-L |x - y|^2) = exp(2 L x.y + constant)
        return 2 * sum(conditional.concentrations) / len(conditional.concentrations)
    return 1 / absolute_moment(conditional, 2)


def _general_normal(conditional: Conditional) -> tuple[float, float]:
    """Return exponent and scale of exp(-|d / scale|^exponent)."""
    if isinstance(conditional, Normal):
        return 2.0, math.sqrt(2) * conditional.scale
    if isinstance(conditional, Laplace):
        return 1.0, conditional.scale
    if isinstance(conditional, GenNorm):
        return conditional.exponent, conditional.scale
    raise ValueError(f"`conditional` must be normal, laplace or gennorm here, got {conditional}.")
