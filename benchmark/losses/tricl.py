"""TriCL: a learned importance of each dimension, and decorrelation (Zhang et al. 2023)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ident3d.errors import choose

from .infonce import infonce
from .objective import Objective
from .similarities import Similarity
from .spectral import spectral


def tricl(
    anchors: Tensor,
    positives: Tensor,
    *,
    similarity: Similarity,
    form: str = "spectral",
    tau: float = 1.0,
    decorrelation: float = 1.0,
) -> Tensor:
    """Return the tri-factor loss: s(x, y) = x' S y, plus decorrelation.

    Args:
        anchors: z, (n, d).
        positives: z+, (n, d).
        similarity: S, an `Importance`.
        form: "spectral", for which their theorem holds, or "infonce".
        tau: Temperature of the InfoNCE form.
        decorrelation: Weight of |mean_i z_i z_i' - I|_F^2, over anchors and positives together.
    """
    forms = {
        "spectral": lambda: spectral(anchors, positives, similarity=similarity),
        "infonce": lambda: infonce(anchors, positives, similarity=similarity, tau=tau),
    }
    loss = choose(forms, form, "form")()
    z = torch.cat([anchors, positives])
    moment = z.T @ z / len(z)  # (d, d)
    excess = moment - torch.eye(z.shape[1], dtype=z.dtype, device=z.device)
    return loss + decorrelation * excess.square().sum()


class TriCL(Objective):
    """The spectral form."""

    function = staticmethod(tricl)
    prescribed = "importance"

    def forward(self, views: Sequence[Tensor], latents: Tensor | None = None) -> Tensor:
        """Return the loss."""
        return tricl(*self.pair(views), similarity=self.similarity)
