import numpy as np
import pytest
import torch
from ident3d.benchmark.scoring.embedding import _batches, embed


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm2d(3)

    def forward(self, images):
        return self.norm(images).mean((2, 3))


IMAGES = np.random.default_rng(0).integers(0, 256, (20, 4, 4, 3), dtype=np.uint8)


@pytest.mark.parametrize("rows", [1, 7, 8, 9, 15, 16, 17, 40])
def test_batches_cover_every_row_once_and_none_is_small(rows):
    parts = _batches(rows, 8)
    assert np.concatenate([np.arange(rows)[part] for part in parts]).tolist() == list(range(rows))
    assert min(part.stop - part.start for part in parts) >= min(rows, 8)


def test_modes_and_what_is_left_behind():
    model = Model().train()
    clean = embed(model, IMAGES, batch=5)
    paper = embed(model, IMAGES, train_mode=True, batch=5)
    assert np.allclose(clean, IMAGES.mean((1, 2)) / 255, atol=1e-4)  # fresh running statistics
    assert np.allclose(paper.reshape(4, 5, 3).mean(1), 0, atol=1e-5)  # each batch's own
    assert model.training and (model.norm.running_mean == 0).all()
    assert model.norm.num_batches_tracked == 0


def test_plain_callables_and_wrong_ones():
    found = embed(lambda images: images[:, 0, 0], IMAGES, batch=5)
    assert np.array_equal(found, IMAGES[:, 0, 0].astype(np.float32))
    with pytest.raises(ValueError, match="as many rows"):
        embed(lambda images: images[:1, 0, 0], IMAGES)
