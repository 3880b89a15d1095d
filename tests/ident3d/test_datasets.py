"""The published sets in torchvision's manner, downloaded from a local server and imported."""

import hashlib
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import transforms
from torchvision.datasets import VisionDataset
from torchvision.transforms import v2

from ident3d.datasets import Causal3DIdent, Multimodal3DIdent, ThreeDIdent
from ident3d.errors import DataError
from ident3d.published.catalogue import CATALOGUE
from tests.support.helpers import painted_row
from tests.support.published_sets import causal, latents, multimodal, tar_bytes, three_d_ident
from tests.support.server import Behaviour, serving


@pytest.fixture
def publish(monkeypatch):
    """Serve a small archive as the published one of a data set, under its own MD5."""

    def prepare(name, files):
        data = tar_bytes(files)
        md5 = hashlib.md5(data).hexdigest()
        published = CATALOGUE[name]
        archives = {split: (archive, md5) for split, (archive, _) in published.archives.items()}
        monkeypatch.setitem(CATALOGUE, name, replace(published, archives=archives))
        return Behaviour(data=data)

    return prepare


def test_it_downloads_imports_and_is_a_vision_dataset(tmp_path, publish):
    with serving(server := publish("3dident", three_d_ident(12))) as url:
        data = ThreeDIdent(tmp_path, download=True, url=url)
        assert [request["path"] for request in server.requests] == ["/files/3dident_train.tar"]
        ThreeDIdent(tmp_path, download=True, url=url)  # is there: nobody is asked
        assert len(server.requests) == 1
    assert isinstance(data, VisionDataset)
    assert len(data) == 12
    image, target = data[7]
    assert isinstance(image, Image.Image)
    assert painted_row(np.asarray(image)) == 7
    torch.testing.assert_close(target, torch.from_numpy(latents(12)[7]))
    assert "Split: train" in repr(data)
    again = pickle.loads(pickle.dumps(ThreeDIdent(str(tmp_path))))
    assert painted_row(np.asarray(again[3][0])) == 3
    with pytest.raises(IndexError):
        data[12]


def test_without_download_it_says_how(tmp_path):
    with pytest.raises(DataError, match=r"has no split 'test'; `download=True` downloads"):
        ThreeDIdent(tmp_path, "test")
    with pytest.raises(ValueError, match="`split` must be one of train, test"):
        ThreeDIdent(tmp_path, "val")


def test_a_wrong_file_is_not_imported(tmp_path, publish):
    server = publish("3dident", three_d_ident(12))
    server.data = tar_bytes(three_d_ident(13))
    with serving(server) as url, pytest.raises(DataError, match="third party"):
        ThreeDIdent(tmp_path, download=True, url=url)


@pytest.mark.parametrize(
    ("kind", "files", "split", "rows"),
    [(Causal3DIdent, causal(11), "train", 77), (Multimodal3DIdent, multimodal(13), "val", 13)],
)
def test_kin_have_classes(tmp_path, publish, kind, files, split, rows):
    with serving(publish(kind.name, files)) as url:
        data = kind(tmp_path, split, download=True, url=url)
    assert len(data) == rows
    image, (target, label) = data[9]
    assert painted_row(np.asarray(image)) == 9
    assert target.shape == (10,)
    assert label == data.data.classes[9]
    images, (targets, labels) = next(
        iter(torch.utils.data.DataLoader(kind(tmp_path, split, transforms.ToTensor()), 8))
    )
    assert images.shape == (8, 3, 8, 8)
    assert targets.shape == (8, 10)
    assert labels.tolist() == data.data.classes[:8].tolist()


CLASSIC = transforms.Compose([transforms.RandomCrop(4), transforms.ToTensor()])
MODERN = v2.Compose([v2.ToImage(), v2.RandomCrop(4), v2.ToDtype(torch.float32, scale=True)])


@pytest.mark.parametrize("transform", [CLASSIC, MODERN], ids=["classic", "v2"])
def test_transforms_of_both_generations(tmp_path, publish, transform):
    with serving(publish("3dident", three_d_ident(12))) as url:
        data = ThreeDIdent(tmp_path, "train", transform, lambda target: target[:3], True, url=url)
    image, target = data[5]
    assert image.shape == (3, 4, 4)
    assert image.max() == pytest.approx(5 / 255)
    assert target.shape == (3,)
