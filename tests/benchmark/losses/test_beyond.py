import math

import numpy as np
import pytest
import torch
from ident3d.benchmark.losses import make_objective
from ident3d.benchmark.losses.beyond import OUTPUTS, Beyond, beyond
from ident3d.benchmark.settings.run_settings import Loss


def slowly(known, more, scale):
    """The definition, row by row."""
    rows, total = len(more), 0.0
    for i in range(rows):
        partner = (i + rows // 2) % rows
        others = [j for j in range(rows) if j != i]
        more_logits = {j: known[i][j] + scale * float(more[i] @ more[j]) for j in others}
        with_more = math.log(sum(math.exp(v) for v in more_logits.values())) - more_logits[partner]
        without = math.log(sum(math.exp(known[i][j]) for j in others)) - known[i][partner]
        total += with_more - without
    return total / rows / scale


@pytest.mark.parametrize("n", [1, 2, 9])
def test_it_is_what_its_definition_says(n):
    rng = np.random.default_rng(n)
    known, more = rng.normal(size=(2 * n, 2 * n)), rng.normal(size=(2 * n, 3))
    found = beyond(torch.tensor(known), torch.tensor(more), scale=0.3)
    assert found.item() == pytest.approx(slowly(known.tolist(), more, 0.3), abs=1e-12)


def test_only_what_is_missing_gains():
    """A factor that z does not hold gains, and a function of z does not, however alike in pairs."""
    rng, n, width = np.random.default_rng(0), 600, 0.3
    anchors = rng.uniform(0, 1, (n, 3))
    positives = anchors + width * rng.normal(size=(n, 3))
    positives = 1 - np.abs(positives % 2 - 1)  # reflected at the walls: uniform as well
    latents = torch.tensor(np.concatenate([anchors, positives]))
    z, missing = latents[:, :2], latents[:, 2:]
    known = -torch.cdist(z, z).square() / (2 * width**2)  # the truth of two factors of three

    def gain(outputs):
        return -beyond(known, (outputs - outputs.mean(0)) / outputs.std(0)).item()

    product = (z[:, :1] - 0.5) * (z[:, 1:] - 0.5)
    noise = torch.tensor(rng.normal(size=(2 * n, 1)))
    shared = 0.3 * (missing - 0.5) / missing.std() + 0.95 * noise  # a share of 0.09 of the factor
    assert np.corrcoef(product[:n, 0], product[n:, 0])[0, 1] > 0.2
    assert gain(missing) > 0.4 and abs(gain(product)) < 0.1
    assert gain(shared) > gain(noise) + 0.02  # in proportion to the share, not to its square


def views(dim, n=8):
    torch.manual_seed(0)
    return [torch.randn(n, dim + 2 * OUTPUTS, requires_grad=True) for _ in range(2)]


@pytest.mark.parametrize("similarity", ["l2", "dot"])
def test_its_value_and_the_gradient_of_the_models_outputs_are_those_of_infonce(similarity):
    plain = make_objective(Loss(similarity=similarity, tau=0.5, symmetric=True), 3)
    both, ours = views(3), views(3)
    loss = plain([view[:, :3] for view in both])
    widened = Beyond(plain, 3, weight=3.0)(ours)
    loss.backward()
    widened.backward()
    assert widened.item() == pytest.approx(loss.item())
    for one, other in zip(both, ours, strict=True):
        torch.testing.assert_close(one.grad[:, :3], other.grad[:, :3])
        assert (other.grad[:, 3:] != 0).all()  # every group is rewarded


@pytest.mark.parametrize("name", ["supervised", "ensemble", "spectral"])
def test_other_losses_are_refused(name):
    with pytest.raises(ValueError, match="`beyond` must be 0"):
        Beyond(make_objective(Loss(name=name), 3, 2 if name == "ensemble" else 1), 3, 1.0)


@pytest.mark.parametrize("weight", [-1.0, math.nan])
def test_a_weight_that_would_punish_what_is_missing_is_refused(weight):
    with pytest.raises(ValueError, match="`beyond` must be 0 or above"):
        Beyond(make_objective(Loss(), 3), 3, weight)
