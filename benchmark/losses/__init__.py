"""Every loss of the benchmark: a similarity, and what is done with it.

    similarity = Lp(3)                                  # or Dot(), Lp(1, power=False), Metric(10)
    loss = infonce(f(x), f(x_plus), similarity=similarity, tau=1.0)
    loss.backward()

`Metric` and `Importance` are modules: hand their parameters to the optimiser, read `.value`.
Gradients are exact; second derivatives are not supported. A new loss is a file with a function and
an `Objective`, and its line in OBJECTIVES.
"""

from ident3d.errors import choose

from ..settings.run_settings import Loss
from .alignment_uniformity import AlignmentUniformity, alignment_uniformity
from .ensemble import Ensemble, Pooled, ensemble, pooled
from .infonce import InfoNCE, infonce
from .objective import Objective
from .similarities import SIMILARITIES, Dot, Importance, Lp, Metric, make_similarity
from .slow_vae import SlowVAE, slow_vae
from .spectral import Spectral, spectral
from .supervised import Supervised, supervised
from .tricl import TriCL, tricl

__all__ = [
    "LOSSES", "OBJECTIVES", "SIMILARITIES", "Dot", "Importance", "InfoNCE", "Lp", "Metric",
    "Objective", "alignment_uniformity", "ensemble", "infonce", "make_objective",
    "make_similarity", "pooled", "slow_vae", "spectral", "supervised", "tricl",
]  # fmt: skip

OBJECTIVES: dict[str, type[Objective]] = {
    "infonce": InfoNCE,
    "alignment-uniformity": AlignmentUniformity,
    "spectral": Spectral,
    "tricl": TriCL,
    "ensemble": Ensemble,
    "pooled": Pooled,
    "supervised": Supervised,
    "slow-vae": SlowVAE,
}
LOSSES = {name: objective.function for name, objective in OBJECTIVES.items()}


def make_objective(settings: Loss, dim: int, processes: int = 1) -> Objective:
    """Return what training minimises, for a model of `dim` dimensions and some processes."""
    return choose(OBJECTIVES, settings.name, "loss")(settings, dim, processes)
