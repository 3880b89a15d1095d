import numpy as np
import pytest

from ident3d.factors import FACTORS, as_latents, columns, to_scene, to_unit, varying


def test_scene_ranges_are_those_of_the_paper():
    scene = to_scene(np.array([[-1.0] * 10, [0.0] * 10, [1.0] * 10]))
    assert np.allclose(scene[0], -scene[2])
    assert np.allclose(scene[1], 0)
    assert np.allclose(scene[2], [3] * 3 + [np.pi / 2] * 7)


def test_unit_and_scene_are_inverse():
    latents = np.random.default_rng(0).uniform(-1, 1, (50, 10))
    assert np.allclose(to_unit(to_scene(latents)), latents)


@pytest.mark.parametrize("convert", [to_scene, to_unit])
def test_a_column_for_each_factor(convert):
    with pytest.raises(ValueError, match=r"must have shape \(n, 10\), got \(4, 1\)"):
        convert(np.zeros((4, 1)))


def test_columns_by_name_and_group():
    assert columns("position") == [0, 1, 2]
    assert columns("object_hue,x") == [0, 7]
    assert columns(["hue", "object_hue"]) == [7, 8, 9]
    assert columns("all") == list(range(10))


def test_unknown_factor_names_the_nearest():
    with pytest.raises(ValueError, match="Did you mean 'object_hue'"):
        columns("objekt_hue")


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda z: z[:, :9], r"shape \(n, 10\), got \(4, 9\)"),
        (lambda z: np.where(np.arange(40).reshape(4, 10) == 13, np.nan, z), "row 1 holds NaN"),
        (lambda z: np.where(np.arange(40).reshape(4, 10) == 27, 1.5, z), "row 2 has object_hue"),
    ],
)
def test_bad_latents_are_one_sentence(change, rule):
    with pytest.raises(ValueError, match=rule):
        as_latents(change(np.zeros((4, len(FACTORS)))))


def test_factors_that_vary():
    latents = np.zeros((3, 4), np.float32)
    latents[1, 2] = latents[:, 0] = 0.5
    assert varying(latents).tolist() == [False, False, True, False]
    assert not varying(latents[:0]).any()
