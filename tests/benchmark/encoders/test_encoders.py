import pytest
import torch
from ident3d.benchmark.encoders import make_encoder, make_head, mlp, resnet18
from ident3d.benchmark.encoders.backbones import Components, Pixels
from ident3d.benchmark.encoders.heads import Whitening
from ident3d.benchmark.settings.run_settings import Model
from torch import nn

FEATURES = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))


def test_unbounded_scales():
    assert torch.allclose(make_head("unbounded", 3, size=20.0)(FEATURES), 20 * FEATURES)


def test_sphere_has_its_radius():
    out = make_head("sphere", 3, size=4.5)(FEATURES)
    assert torch.allclose(out.norm(dim=1), torch.tensor(4.5))
    assert torch.allclose(nn.functional.cosine_similarity(out, FEATURES), torch.tensor(1.0))


def test_box_is_sigmoid_times_its_sides():
    head = make_head("box", 3, size=20.0)
    assert torch.allclose(head(FEATURES), 20 * FEATURES.sigmoid())
    assert head.size.shape == (3,)  # each side is its own
    far = head(1e3 * FEATURES)
    assert far.min() >= 0
    assert far.max() <= 20 * (1 + 1e-6)


@pytest.mark.parametrize("space", ["unbounded", "sphere", "box"])
def test_sizes_are_learned_or_fixed(space):
    learned, fixed = make_head(space, 3, size=2.0), make_head(space, 3, size=2.0, learnable=False)
    assert [name for name, _ in learned.named_parameters()] == ["log_size"]
    raw = make_head(space, 3, size=2.0, size_as="raw")
    assert [name for name, _ in raw.named_parameters()] == ["raw_size"]
    assert (raw.raw_size == 2).all() and torch.equal(raw(FEATURES), learned(FEATURES))
    raw.resize(5.0)
    torch.testing.assert_close(raw(FEATURES), 2.5 * learned(FEATURES))
    assert not list(fixed.parameters())
    assert torch.allclose(learned.size, torch.tensor(2.0))
    assert torch.equal(learned(FEATURES), fixed(FEATURES))
    learned.load_state_dict(fixed.state_dict())


@pytest.mark.parametrize("size", [0.01, 1.0, 100.0])
def test_a_step_changes_any_size_by_the_same_share(size):
    """The reason why sizes are logarithms: 1 grows to 20 as fast as 10 grows to 200."""
    head = make_head("unbounded", 3, size=size)
    optimizer = torch.optim.Adam(head.parameters(), lr=0.1)
    (head(FEATURES) - 1000 * FEATURES).square().mean().backward()
    optimizer.step()
    assert torch.isclose(head.size / size, torch.tensor(0.1).exp(), rtol=1e-4)


def test_whitened_features_are_uncorrelated_and_equally_wide_in_training():
    whitening = Whitening(3, spread=1.7)
    mixed = FEATURES @ torch.tensor([[1.0, 0.5, 0.0], [0.0, 1.0, 0.3], [0.0, 0.0, 0.7]]) + 5
    mixed.requires_grad_()
    out = whitening(mixed)
    torch.testing.assert_close(out.T.cov(correction=0), 1.7**2 * torch.eye(3), atol=0.05, rtol=0)
    assert out.mean(0).abs().max() < 1e-4
    out[:, 0].square().sum().backward()
    assert mixed.grad.isfinite().all()
    whitening.iterations = 12  # the whole inverse root, and not the first of it
    with torch.autocast("cpu", torch.bfloat16):  # which would round variances
        out = whitening(mixed.detach())
    covariance = out.T.cov(correction=0)
    torch.testing.assert_close(covariance, 1.7**2 * torch.eye(3), atol=0.02, rtol=0)


def test_whitening_is_a_linear_map_once_trained_and_leaves_silence_finite():
    whitening = Whitening(3, spread=1.0)
    silent = FEATURES * torch.tensor([1.0, 1.0, 0.0])
    for _ in range(60):
        whitening(silent)
    whitening.eval()
    a, b = FEATURES[:5], FEATURES[5:10]
    torch.testing.assert_close(whitening(a) + whitening(b), 2 * whitening((a + b) / 2))
    assert (whitening(silent).std(0)[:2] - 1).abs().max() < 0.05
    assert whitening(silent)[:, 2].abs().max() < 1e-3


def test_a_model_is_whitened_before_its_head():
    model = Model(dim=2, encoder="mlp", widths=(4,), whiten=True)
    encoder = make_encoder(model, torch.rand(20, 3), 2.0)
    out = encoder(torch.randn(200, 3))
    assert out.min() >= 0 and out.max() <= 2  # a box still
    assert abs(out.T.corrcoef()[0, 1]) < 0.2


def test_mlp_has_the_papers_widths():
    encoder = mlp(10, make_head("sphere", 10))
    linear = [layer for layer in encoder if isinstance(layer, nn.Linear)]
    assert [layer.out_features for layer in linear] == [100, 500, 500, 500, 500, 100, 10]
    assert {m.negative_slope for m in encoder if isinstance(m, nn.LeakyReLU)} == {0.01}
    assert encoder(torch.randn(4, 10)).shape == (4, 10)


def test_mlp_takes_other_widths_and_inputs():
    encoder = mlp(3, make_head("box", 3), inputs=7, widths=[8, 9])
    linear = [layer for layer in encoder if isinstance(layer, nn.Linear)]
    assert [(layer.in_features, layer.out_features) for layer in linear] == [(7, 8), (8, 9), (9, 3)]


def test_resnet18_is_ten_times_as_wide_as_its_output():
    encoder = resnet18(4, make_head("box", 4, size=2.0)).eval()
    assert encoder[0].fc.out_features == 40
    with torch.no_grad():
        out = encoder(torch.randn(2, 3, 32, 32))
    assert out.shape == (2, 4)
    assert out.min() >= 0
    assert out.max() <= 2


def test_encoders_take_bytes_and_floats_alike():
    torch.manual_seed(0)
    images = torch.randint(0, 256, (20, 3, 32, 32), dtype=torch.uint8)
    for name in ("compact", "resnet18"):
        encoder = make_encoder(Model(encoder=name, dim=3, space="unbounded"), images, 1.0).eval()
        found = encoder(images)
        assert found.shape == (20, 3)
        assert torch.allclose(found, encoder(images.float() / 255), atol=1e-5)
    scaled = Pixels(images)(images)
    assert torch.allclose(scaled.mean((0, 2, 3)), torch.zeros(3), atol=1e-4)
    assert torch.allclose(scaled.std((0, 2, 3)), torch.ones(3), atol=1e-4)
    white = Components(images, 12).eval()(images)
    assert torch.allclose(white.T @ white / 20, torch.eye(12), atol=1e-3)


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="Did you mean 'sphere'"):
        make_head("spheres", 3)
    with pytest.raises(ValueError, match="`size` must be positive"):
        make_head("box", 3, size=0.0)
    images = torch.zeros(2, 3, 8, 8)
    with pytest.raises(ValueError, match="`widths` must be none for resnet18"):
        make_encoder(Model(encoder="resnet18", widths=(8,)), images, 1.0)
    with pytest.raises(
        ValueError,
        match="`encoder` must be one of mlp, whitened, rotated, principal, resnet18, compact",
    ):
        make_encoder(Model(encoder="resnet50"), images, 1.0)
