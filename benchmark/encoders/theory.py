"""What the theory predicts of a trained model: the size of its space.

At the optimum the model's conditional is the true one (Zimmermann et al. 2021, proposition 1), so
exp(-|s d|_p^p / tau) must be as wide as the noise d: the size s is known before training.
"""

import math

from ident3d.conditionals import VMF, Anisotropic, Conditional, GenNorm, Laplace, Normal
from ident3d.errors import choose


def absolute_moment(conditional: Conditional, p: float) -> float:
    """Return E|d|^p of one coordinate of the noise, away from any boundary."""
    exponent, scale = _general_normal(conditional)
    return scale**p * math.gamma((p + 1) / exponent) / math.gamma(1 / exponent)


def stretch(conditional: Conditional, similarity: str, tau: float = 1.0) -> float:
    """Return how many times larger than the latents the embedding becomes.

    For `-|x - y|_p^p` it is the most likely s for noise d under exp(-|s d|_p^p / tau): the exact
    one if the noise is of that family, the best one if it is not. For a dot product it is
    sqrt(tau kappa), the radius of the sphere.
    """
    powers = {"l1": 1.0, "l2": 2.0, "l3": 3.0, "dot": 2.0}
    p = choose(powers, similarity, "similarity")
    if similarity == "dot":
        return math.sqrt(tau * concentration(conditional))
    return (tau / (p * absolute_moment(conditional, p))) ** (1 / p)


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
