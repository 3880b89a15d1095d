"""What further outputs tell of pairs beyond what the model's own tell already.

InfoNCE finds a factor slowly that it hardly sees yet. An output that holds a share r of a factor's
variance is alike in a positive by r rho, and the loss falls by the square of that: of a share of a
twentieth, by next to nothing. Meanwhile the products of factors that are known already are far more
alike, and take up every output that is free; the features turn towards them and away from the rest.

So training gives the model further outputs u, for as long as it lasts. They are whitened, and the
logits of what the model knows, s(z, z'), are given, not learned:

    l_ij = s(z_i, z_j) / tau + scale u_i . u_j.

With a small scale, the loss falls by scale times the covariance of u in positives, less that in
negatives as likely as positives by all that z tells. A function of z gains nothing by that. Any
factor that is missing does, in proportion to r rho and not to its square, and the features learn it
for the model's own outputs to find. Slow features that are not functions of slower ones are due to
Sprekeler, Zito and Wiskott (2014), who project the functions out.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from .infonce import InfoNCE
from .objective import Objective

OUTPUTS = 24  # in a group of those that are added
SCALE = 0.1  # of what they add to a logit: 24 products of deviation 1 have one of 5


def beyond(known: Tensor, more: Tensor, scale: float = SCALE) -> Tensor:
    """Return by how much further outputs change the loss of given logits, over `scale`.

    Args:
        known: Logits of all rows with all rows, (2 n, 2 n): anchors first, then positives in their
            order. Every row is told from all others; its own column does not count.
        more: u, (2 n, k), of deviation 1 in each direction.
        scale: Of u_i . u_j in a logit.
    """
    rows = len(more)
    partner = torch.arange(rows, device=more.device).roll(rows // 2)
    known = known.masked_fill(torch.eye(rows, dtype=torch.bool, device=more.device), -torch.inf)
    with_more = functional.cross_entropy(known + scale * more @ more.T, partner)
    return (with_more - functional.cross_entropy(known, partner)) / scale


class Beyond(nn.Module):
    """InfoNCE of a model's outputs, and by some weight `beyond` of those that follow them.

    Its value is InfoNCE's: the rest has a gradient alone, as it is no loss of the model.
    """

    def __init__(self, objective: Objective, dim: int, weight: float) -> None:
        super().__init__()
        if not isinstance(objective, InfoNCE) or objective.processes != 1:
            raise ValueError("`beyond` must be 0: it is for InfoNCE of one conditional.")
        if not weight > 0:
            raise ValueError(f"`beyond` must be 0 or above, got {weight}.")
        self.objective, self.dim, self.weight = objective, dim, weight

    def forward(self, views: Sequence[Tensor], latents: Tensor | None = None) -> Tensor:
        """Return the loss of anchors and positives, each (n, dim + groups OUTPUTS)."""
        z = [view[:, : self.dim] for view in views]
        loss = self.objective(z, latents)
        given = torch.cat(z[:2]).detach()
        similarity, tau = self.objective.similarity, self.objective.settings.tau
        known = similarity.pairs(given[:, None], given[None]).detach() / tau
        more = torch.cat([view[:, self.dim :] for view in views[:2]])
        gains = [beyond(known.to(more.dtype), group) for group in more.split(OUTPUTS, dim=1)]
        rest = self.weight * torch.stack(gains).sum()
        return loss + rest - rest.detach()
