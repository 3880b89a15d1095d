import numpy as np
import pytest
from ident3d.render.presets import quality
from ident3d.render.spec import Spec
from scipy.stats import truncnorm

from ident3d.factors import FACTORS
from ident3d.rows import row_latents

DRAFT = quality("draft", 224)


def test_anchors_are_the_rows_latents():
    spec = Spec(DRAFT, seed=3, split="test")
    rows = np.array([7, 8, 100])
    assert np.array_equal(spec.anchors(rows), row_latents(3, "test", rows))


def test_factors_that_do_not_vary_are_held():
    rows = np.arange(50)
    spec = Spec(DRAFT, factors="position", held={"gamma": 0.5})
    latents = spec.anchors(rows)
    assert np.array_equal(latents[:, :3], row_latents(0, "train", rows)[:, :3])
    assert (latents[:, 5] == 0.5).all()
    assert (latents[:, [3, 4, 6, 7, 8, 9]] == 0).all()


def test_positives_have_the_spread_of_the_truncated_normal():
    spec = Spec(DRAFT, pairs="normal:0.1")
    rows = np.arange(2000)
    anchors, positives = spec.anchors(rows), spec.positives(rows)
    sides = (-1 - anchors) / 0.1, (1 - anchors) / 0.1
    expected = np.sqrt(truncnorm(*sides, anchors, 0.1).var().mean(axis=0))
    means = truncnorm(*sides, anchors, 0.1).mean()
    measured = np.sqrt(((positives - means) ** 2).mean(axis=0))
    assert measured == pytest.approx(expected, rel=0.05)
    assert np.abs(positives).max() <= 1


def test_positives_depend_on_nothing_but_seed_split_and_row():
    spec = Spec(DRAFT, pairs="laplace:0.05")
    alone = spec.positives(np.array([41]))
    assert np.array_equal(spec.positives(np.arange(50))[41], alone[0])
    assert not np.array_equal(
        Spec(DRAFT, pairs="laplace:0.05", seed=1).positives(np.array([41])), alone
    )


def test_positives_keep_what_is_held_and_fixed():
    rows = np.arange(20)
    spec = Spec(DRAFT, factors="x,y", pairs="x=normal:0.1,others=fixed")
    anchors, positives = spec.anchors(rows), spec.positives(rows)
    moved = (anchors != positives).any(axis=0)
    assert moved.tolist() == [True] + 9 * [False]


def test_what_is_held_is_told_with_every_digit():
    described = Spec(DRAFT, factors="x", held={"object_hue": 0.1234567}).description()
    assert described.settings["held"] == "object_hue=0.1234567"


def test_description_tells_every_setting():
    described = Spec(DRAFT, hue="published", pairs="normal:0.1").description("a command")
    assert described.seed == 0
    assert described.pairs == "normal:0.1"
    assert described.factors == FACTORS
    assert described.settings["hue"] == "published"
    assert described.settings["samples"] == DRAFT.samples
    assert described.settings["blender"].startswith("4.5")


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        ({"hue": "pubished"}, "Did you mean 'published'"),
        ({"factors": "positon"}, "Did you mean 'position'"),
        ({"factors": "x", "held": {"x": 0.5}}, "`hold` must name factors that do not vary; x does"),
        ({"factors": "x", "held": {"y": 2.0}}, r"unit latents in \[-1, 1\], got y=2.0"),
        ({"factors": "x", "held": {"yy": 0.0}}, "`hold` must be one of"),
        ({"pairs": "vmf:10"}, "sphere"),
        ({"pairs": "norml:1"}, "norml"),
        ({"given": np.zeros((1, 10)), "factors": "x"}, "leave `factors` and `hold` out"),
    ],
)
def test_wrong_settings_are_named(wrong, rule):
    with pytest.raises(ValueError, match=rule):
        Spec(DRAFT, **wrong)
