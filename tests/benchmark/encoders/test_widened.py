import copy

import pytest
import torch
from ident3d.benchmark.encoders import make_encoder
from ident3d.benchmark.encoders.heads import make_head
from ident3d.benchmark.encoders.widened import Widened
from ident3d.benchmark.settings.run_settings import Model

RESNET = Model(dim=3, encoder="resnet18", whiten=True)
MLP = Model(dim=3, encoder="mlp", widths=(8,))
INPUTS = {"resnet18": (12, 3, 32, 32), "mlp": (12, 5)}
GROUPS = {"resnet18": 3, "mlp": 1}  # two stages and what the last map reads, or that alone


def widened(model):
    torch.manual_seed(0)
    sample = torch.rand(INPUTS[model.encoder])
    encoder = make_encoder(model, sample, 1.0)
    return encoder, Widened(encoder, 4), torch.rand(INPUTS[model.encoder])


@pytest.mark.parametrize("model", [RESNET, MLP], ids=lambda model: model.encoder)
def test_the_models_outputs_come_first_and_are_what_they_were(model):
    encoder, wide, inputs = widened(model)
    expected = copy.deepcopy(encoder).train()(inputs)
    out = wide.train()(inputs)
    assert out.shape == (12, 3 + 4 * GROUPS[model.encoder])
    torch.testing.assert_close(out[:, :3], expected)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in encoder.modules())


def test_what_the_further_outputs_learn_reaches_every_stage_they_read():
    encoder, wide, inputs = widened(RESNET)
    first, *_ = wide.train()(inputs)[:, 3:].split(4, dim=1)
    first.square().mul(torch.rand(12, 4)).sum().backward()  # the group that reads layer2
    body = encoder[1]
    assert body.layer2[0].conv1.weight.grad.abs().sum() > 0
    assert not body.layer3[0].conv1.weight.grad.any() and not encoder[3].weight.grad.any()


def test_a_reader_sees_the_last_map_itself_and_its_weights_are_the_encoders_alone():
    encoder, wide, _ = widened(MLP)
    names = [name for name, _ in wide.named_parameters()]
    assert len(names) == len({*names}) and all("_last" not in name for name in names)
    assert {name for name in wide.state_dict() if not name.startswith("readers.")} == {
        f"encoder.{name}" for name in encoder.state_dict()
    }


def test_an_encoder_without_a_linear_map_is_refused():
    with pytest.raises(ValueError, match="`beyond` must be 0"):
        Widened(torch.nn.Sequential(torch.nn.ReLU(), make_head("box", 3)), 4)
