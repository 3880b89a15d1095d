import numpy as np
import pytest
import torch
from ident3d.benchmark.data.mixing import best_conditioned, condition_numbers, make_mixing


def mixing(dim=5, seed=0, **options):
    return make_mixing(dim, np.random.default_rng(seed), **{"draws": 200, **options})


def test_forward_is_what_the_papers_describe():
    network = mixing(3, layers=3)
    first, second, third = (weight.numpy() for weight in network.weights)
    x = np.random.default_rng(1).normal(size=(20, 3))
    expected = []
    for row in x:
        hidden = first @ row
        hidden = second @ np.where(hidden < 0, 0.2 * hidden, hidden)
        expected.append(third @ np.where(hidden < 0, 0.2 * hidden, hidden))
    assert np.allclose(network(torch.tensor(x)), expected, rtol=1e-12)


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("dim", [1, 2, 10])
def test_inverse_undoes_it(dim, layers):
    network = mixing(dim, layers=layers)
    latents = torch.randn(100, dim, dtype=torch.float64)
    assert torch.allclose(network.inverse(network(latents)), latents, rtol=1e-9, atol=1e-9)
    assert network(latents.float()).dtype == torch.float32


def test_columns_have_length_one():
    for weight in mixing(10).weights:
        assert np.allclose(np.linalg.norm(weight, axis=0), 1)


def test_the_best_conditioned_draw_is_taken():
    matrix = best_conditioned(4, np.random.default_rng(3), 300)
    rng = np.random.default_rng(3)
    draws = rng.uniform(-1, 1, (300, 4, 4))
    conditions = [np.linalg.cond(draw / np.linalg.norm(draw, axis=0)) for draw in draws]
    assert np.linalg.cond(matrix) == pytest.approx(min(conditions))


def test_condition_numbers_equal_numpys():
    matrices = np.random.default_rng(0).normal(size=(50, 6, 6))
    assert np.allclose(condition_numbers(matrices), [np.linalg.cond(m) for m in matrices])
    singular = np.ones((1, 6, 6))
    assert condition_numbers(singular)[0] > 1e7


def test_layers_differ_and_the_seed_decides():
    one, same, other = mixing(seed=1), mixing(seed=1), mixing(seed=2)
    for a, b in zip(one.weights, same.weights, strict=True):
        assert torch.equal(a, b)
    assert not torch.equal(one.weights[0], one.weights[1])
    assert not torch.equal(one.weights[0], other.weights[0])


def test_nothing_is_trained_and_state_comes_back():
    network, other = mixing(seed=1), mixing(seed=2)
    assert not list(network.parameters())
    other.load_state_dict(network.state_dict())
    x = torch.randn(5, 5)
    assert torch.equal(network(x), other(x))


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="`dim`, `layers` and `draws` must be at least 1"):
        mixing(0)
