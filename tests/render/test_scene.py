import colorsys
import math

import numpy as np
import pytest
from ident3d.render.scene import (
    TEAPOT_SIZE,
    injective_color,
    look_at,
    published_color,
    scene_state,
)


def test_the_middle_of_the_box():
    state = scene_state(np.zeros(10))
    assert state.object_place == pytest.approx((0, 0, 2.22106), abs=1e-4)
    assert state.object_turn == (0, 0, 0)
    assert state.spotlight_place == pytest.approx((0, 4, 10.4421), abs=1e-4)
    assert state.object_color == (1, 0, 0)
    assert state.spotlight_color == pytest.approx((1, 0.2, 0.2))
    assert state.ground_color == pytest.approx((1, 0.4, 0.4))


def test_every_factor_drives_its_own_part():
    latents = np.array([0.5, -0.5, 1, 0.2, -0.4, 1, 1 / 3, 0.1, -0.2, 0.7])
    state = scene_state(latents)
    assert state.object_place == pytest.approx((1.5, -1.5, 3 + TEAPOT_SIZE / 2))
    assert state.object_turn == pytest.approx((0.1 * math.pi, -0.2 * math.pi, math.pi / 2))
    assert state.spotlight_place[:2] == pytest.approx((2, 4 * math.cos(math.pi / 6)))
    assert state.object_color == pytest.approx(colorsys.hsv_to_rgb(0.025, 1, 1))
    assert state.spotlight_color == pytest.approx(colorsys.hsv_to_rgb(0.95, 0.8, 1))
    assert state.ground_color == pytest.approx(colorsys.hsv_to_rgb(0.175, 0.6, 1))


def test_unknown_hue_is_named():
    with pytest.raises(ValueError, match="`hue` must be one of injective, published"):
        scene_state(np.zeros(10), "publish")


@pytest.mark.parametrize("saturation", [0.6, 0.8, 1.0])
def test_injective_colors_move_evenly(saturation):
    angles = np.linspace(-math.pi / 2, math.pi / 2, 181)
    colors = np.array([injective_color(angle, saturation) for angle in angles])
    steps = np.abs(np.diff(colors, axis=0)).max(axis=1)
    assert steps == pytest.approx(steps[0])  # no standing still, no jump
    assert colors.min() >= 0
    assert colors.max() <= 1


def test_published_colors_have_the_released_defect():
    angles = np.linspace(-math.pi / 3, 0, 20)[1:-1]
    colors = {published_color(angle, 1.0) for angle in angles}
    assert colors == {(1, 0, 0)}  # a third of the hues is one red
    left, right = (published_color(2 * math.pi * h, 1.0) for h in (-1 / 6 - 1e-9, -1 / 6 + 1e-9))
    assert left == pytest.approx((1, 0, 1), abs=1e-6)  # and jumps to magenta
    assert right == pytest.approx((1, 0, 0), abs=1e-6)


def test_conventions_agree_where_the_hue_is_positive():
    for angle in np.linspace(0, math.pi / 2, 9):
        assert published_color(angle, 0.6) == injective_color(angle, 0.6)


def test_look_at_points_minus_z_at_the_target():
    rotation = look_at((8, 0, 8), (0, 0, 0), (0, 0, 1))
    assert rotation @ [0, 0, -1] == pytest.approx(np.array([-1, 0, -1]) / math.sqrt(2))
    assert rotation.T @ rotation == pytest.approx(np.eye(3))
    assert np.linalg.det(rotation) == pytest.approx(1)
    assert (rotation @ [0, 1, 0])[2] > 0


def test_the_spotlight_can_always_be_pointed():
    """Its up direction must never lie along the beam, wherever teapot and spotlight are."""
    for latents in np.random.default_rng(0).choice([-1.0, 0.0, 1.0], (200, 10)):
        state = scene_state(latents)
        beam = np.subtract(state.spotlight_place, state.object_place)
        assert np.linalg.norm(np.cross(beam, (1, 0, 0))) > 1
