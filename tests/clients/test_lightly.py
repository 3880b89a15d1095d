"""lightly: its losses on our pairs, its transforms on our images."""

import torch
from lightly.loss import NTXentLoss
from lightly.transforms import SimCLRTransform

import ident3d
from ident3d.augment import normalize
from ident3d.loaders import ImageDataset, PairLoader


def test_a_loss_falls_on_our_pairs():
    torch.manual_seed(0)
    pairs = ident3d.Pairs(ident3d.sample(), "normal:0.3", seed=0)
    model = torch.nn.Sequential(torch.nn.AvgPool2d(8), torch.nn.Flatten(), torch.nn.Linear(192, 16))
    optimizer, loss_of = torch.optim.Adam(model.parameters(), 1e-2), NTXentLoss(0.5)
    losses = []
    loader = PairLoader(pairs, 32, transform=normalize())
    for _ in range(4):
        for anchors, positives in loader:
            loss = loss_of(model(anchors.images), model(positives.images))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert sum(losses[-3:]) < sum(losses[:3])


def test_its_transforms_take_our_images():
    data = ImageDataset(ident3d.sample(), SimCLRTransform(input_size=32))
    (first, second), latents = next(iter(torch.utils.data.DataLoader(data, 8)))
    assert first.shape == second.shape == (8, 3, 32, 32)
    assert (first != second).any()
    assert latents.shape == (8, 10)
