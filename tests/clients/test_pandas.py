"""The factors as a table."""

import numpy as np

from tests.support.helpers import make_dataset


def test_a_table_of_factors_and_classes(tmp_path):
    data = make_dataset(tmp_path, classes=3)
    frame = data.to_frame()
    assert list(frame.columns) == [*(factor.name for factor in data.factors), "class"]
    assert frame.index.name == "row"
    np.testing.assert_array_equal(frame.index, data.rows)
    np.testing.assert_array_equal(frame["object_hue"], data.latents[:, 7])
    assert frame["class"].tolist() == [data.class_names[label] for label in data.classes]
    assert frame.groupby("class", observed=True)["x"].mean().shape == (3,)
    near = frame.query("x > 0")
    np.testing.assert_array_equal(data.images[near.index], data.images[data.latents[:, 0] > 0])
