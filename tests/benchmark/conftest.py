"""What several tests of the benchmark train on."""

import pytest

from tests.support.blobs import make_blobs


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A small image data set: 300 rows with exact pairs to train on, 240 to test on."""
    root = tmp_path_factory.mktemp("blobs")
    make_blobs(root, "train", 300, "normal:0.2")
    make_blobs(root, "test", 240)
    return root
