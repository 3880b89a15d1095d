"""Tar files as webdataset reads them."""

import numpy as np
import pytest
import webdataset as wds

import ident3d
from tests.support.exchanged import round_trip
from tests.support.helpers import make_dataset


@pytest.mark.parametrize("kind", ["sample", "pairs", "classes"])
def test_webdataset_reads_every_row(tmp_path, kind):
    if kind == "sample":
        data = ident3d.sample()
    else:
        settings = {"pairs": {"pairs": "normal:0.1"}, "classes": {"classes": 3}}[kind]
        data = make_dataset(tmp_path / "data", **settings)
    out = round_trip(data, tmp_path, "webdataset")
    paths = sorted(map(str, (out / "data").glob("train-*.tar")))
    found = list(wds.WebDataset(paths, shardshuffle=False, empty_check=False).decode("rgb8"))
    assert len(found) == len(data)
    for row, item in enumerate(found):
        assert item["json"]["row"] == data.rows[row]
        np.testing.assert_array_equal(item["png"], data.images[row])
        np.testing.assert_array_equal(item["latents.npy"], data.latents[row])
        if data.pairs is not None:
            np.testing.assert_array_equal(item["positive.png"], data.pairs.images[row])
            np.testing.assert_array_equal(item["positive.latents.npy"], data.pairs.latents[row])
        if data.classes is not None:
            assert item["json"]["class"] == data.classes[row]
