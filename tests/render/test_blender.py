import dataclasses
import itertools
import math

import numpy as np
import pytest
from ident3d.render import materials, scene
from ident3d.render.blender import Renderer, find_gpus, quiet
from ident3d.render.presets import Quality, quality
from ident3d.render.scene import TEAPOT_SIZE, object_box, scene_state
from ident3d.render.teapot import Mesh
from PIL import Image

from ident3d.rows import row_latents

pytestmark = pytest.mark.slow

QUICK = Quality(4, 0, light_tree=True, prefilter="NONE", denoiser="FAST")
ROWS = row_latents(0, "test", np.arange(8))


@pytest.fixture(scope="module")
def renderer():
    """Blender has one scene per process, so tests that build their own come last."""
    return Renderer(QUICK, 64, threads=1)


def test_what_stands_still(renderer):
    data, shown = renderer.bpy.data, renderer.scene
    assert {thing.name: thing.type for thing in shown.objects} == {
        "teapot": "MESH", "ground": "MESH", "camera": "CAMERA",
        "sun": "LIGHT", "key": "LIGHT", "spotlight": "LIGHT",
    }  # fmt: skip
    camera = data.cameras["camera"]
    assert math.degrees(camera.angle) == pytest.approx(71.08, abs=0.01)
    assert shown.camera.location[:] == (8, 0, 8)
    sun, key, spotlight = (data.lights[name] for name in ("sun", "key", "spotlight"))
    assert (sun.energy, sun.angle) == pytest.approx((0.5, 0.199337))
    assert (key.type, key.energy, key.size) == ("AREA", pytest.approx(39.2699), 1)
    assert data.objects["key"].location[:] == (0, 0, 7)
    assert (spotlight.energy, spotlight.shadow_soft_size) == (3000, 0.5)
    assert math.degrees(spotlight.spot_size) == pytest.approx(35)
    assert spotlight.spot_blend == pytest.approx(0.1)
    assert data.objects["ground"].location.z == pytest.approx(-TEAPOT_SIZE)
    assert data.objects["ground"].dimensions[:2] == (1500, 1500)


def test_teapot_mesh_is_smooth_and_looks_outwards(renderer):
    mesh = renderer.bpy.data.meshes["teapot"]
    assert all(polygon.use_smooth for polygon in mesh.polygons)
    assert not mesh.validate()  # nothing to repair
    renderer.bpy.context.view_layer.update()
    size = max(renderer.bpy.data.objects["teapot"].dimensions)
    assert size == pytest.approx(TEAPOT_SIZE, abs=1e-4)
    lid = max(mesh.vertices, key=lambda vertex: vertex.co.z)
    assert lid.normal[:] == pytest.approx((0, 0, 1), abs=1e-3)
    bottom = min(mesh.vertices, key=lambda vertex: vertex.co.z)
    assert bottom.normal.z < -0.9


def test_rubber(renderer):
    for name in ("teapot", "ground"):
        nodes = renderer.bpy.data.materials[name].node_tree.nodes
        kinds = {node.bl_idname: node for node in nodes}
        assert kinds["ShaderNodeBsdfSheen"].distribution == "ASHIKHMIN"
        assert kinds["ShaderNodeBsdfSheen"].inputs["Roughness"].default_value == pytest.approx(0.6)
        glossy = kinds["ShaderNodeBsdfAnisotropic"]  # the glossy one
        assert glossy.distribution == "BECKMANN"
        assert glossy.inputs["Roughness"].default_value == pytest.approx(0.5916, abs=1e-4)
        assert glossy.inputs["Color"].default_value[:3] == pytest.approx((0.8, 0.8, 0.8))
        last = kinds["ShaderNodeOutputMaterial"].inputs["Surface"].links[0].from_node
        assert last.inputs[2].links[0].from_node == glossy
        assert last.inputs[0].links[0].from_node.inputs["IOR"].default_value == pytest.approx(1.2)
        inner = last.inputs[1].links[0].from_node
        assert inner.inputs[0].links[0].from_node.inputs["IOR"].default_value == pytest.approx(1.4)
        assert inner.inputs[1].links[0].from_node == kinds["ShaderNodeBsdfDiffuse"]
        assert inner.inputs[2].links[0].from_node == kinds["ShaderNodeBsdfSheen"]


def test_engine(renderer):
    cycles, render = renderer.scene.cycles, renderer.scene.render
    assert (render.engine, cycles.device) == ("CYCLES", "CPU")
    assert (cycles.max_bounces, cycles.transparent_max_bounces, cycles.blur_glossy) == (0, 8, 2)
    assert not cycles.use_adaptive_sampling
    assert (cycles.pixel_filter_type, cycles.filter_width) == ("BLACKMAN_HARRIS", 1.5)
    assert cycles.use_denoising
    assert render.dither_intensity == 0
    view = renderer.scene.view_settings
    assert (view.view_transform, view.look, view.exposure, view.gamma) == ("Standard", "None", 0, 1)


@pytest.mark.parametrize("hue", ["injective", "published"])
@pytest.mark.parametrize("row", [0, 1, 2])
def test_a_state_arrives_in_blender(renderer, row, hue):
    state = scene_state(ROWS[row], hue)
    renderer.apply(state)
    renderer.bpy.context.view_layer.update()
    things = renderer.bpy.data.objects
    assert things["teapot"].location[:] == pytest.approx(state.object_place, abs=1e-5)
    assert things["teapot"].rotation_euler[:] == pytest.approx(state.object_turn, abs=1e-5)
    assert things["teapot"].rotation_mode == "XYZ"
    spotlight = things["spotlight"]
    assert spotlight.location[:] == pytest.approx(state.spotlight_place, abs=1e-5)
    beam = np.array(spotlight.matrix_world)[:3, :3] @ [0, 0, -1]
    aim = np.subtract(state.object_place, state.spotlight_place)
    assert beam == pytest.approx(aim / np.linalg.norm(aim), abs=1e-5)
    assert spotlight.data.color[:] == pytest.approx(state.spotlight_color)
    for name, color in (("teapot", state.object_color), ("ground", state.ground_color)):
        nodes = renderer.bpy.data.materials[name].node_tree.nodes
        inks = [n for n in nodes if n.bl_idname in ("ShaderNodeBsdfDiffuse", "ShaderNodeBsdfSheen")]
        assert len(inks) == 2
        for node in inks:
            assert node.inputs["Color"].links[0].from_node.bl_idname == "ShaderNodeObjectInfo"
            assert node.inputs["Color"].links[0].from_socket.name == "Color"
        assert things[name].color[:3] == pytest.approx(color)


def test_blender_takes_negative_colors_for_zero(renderer):
    """What `published_color` does itself is what the renderer would have done."""
    node = renderer.bpy.data.materials["teapot"].node_tree.nodes["Diffuse BSDF"]
    node.inputs["Color"].default_value = (1, -0.6, 1.4, 1)
    assert node.inputs["Color"].default_value[:3] == pytest.approx((1, 0, 1.4))
    light = renderer.bpy.data.lights["spotlight"]
    light.color = (1, -0.6, 1.4)
    assert light.color[:] == pytest.approx((1, 0, 1.4))


def test_a_row_has_the_same_pixels_in_any_order(renderer):
    states = [scene_state(latents) for latents in ROWS[:4]]
    there = [renderer.render(state) for state in states]
    back = [renderer.render(state) for state in reversed(states)]
    assert np.array_equal(there, back[::-1])
    assert all((a != b).any() for a, b in itertools.pairwise(there))


def test_pixels_are_those_of_a_saved_png(renderer, tmp_path):
    image = renderer.render(scene_state(ROWS[5]))
    render = renderer.scene.render
    kept = render.filepath
    render.image_settings.file_format, render.filepath = "PNG", str(tmp_path / "image.png")
    with quiet():
        renderer.bpy.ops.render.render(write_still=True, scene=renderer.scene.name)
    render.image_settings.file_format, render.filepath = "TARGA_RAW", kept
    assert np.array_equal(np.asarray(Image.open(tmp_path / "image.png").convert("RGB")), image)


def sweep(renderer, column, hue):
    """33 images of one hue factor from -1 to 1; returns the neighbours' mean differences."""
    latents = np.zeros((33, 10))
    latents[:, column] = np.linspace(-1, 1, 33)
    images = np.array([renderer.render(scene_state(row, hue)) for row in latents], float)
    return np.abs(np.diff(images, axis=0)).mean(axis=(1, 2, 3))


@pytest.mark.parametrize("column", [7, 8, 9])
def test_hues_are_injective(renderer, column):
    steps = sweep(renderer, column, "injective")
    assert steps.min() > 0
    assert steps.max() <= 8 * np.median(steps)


@pytest.mark.parametrize("column", [7, 8, 9])
def test_published_hues_are_not(renderer, column):
    steps = sweep(renderer, column, "published")
    assert steps.min() == 0 or steps.max() > 8 * np.median(steps)


def test_silence(renderer, capfd):
    renderer.render(scene_state(ROWS[0]))
    assert capfd.readouterr().out == ""


def test_gpus_are_listed():
    assert all(gpu.kind and gpu.name for gpu in find_gpus())


# From here on, scenes of their own.


def test_threads_do_not_change_pixels():
    quality = dataclasses.replace(QUICK, teapot_samples=8)
    images = [Renderer(quality, 64, threads).render(scene_state(ROWS[1])) for threads in (1, 2)]
    assert np.array_equal(*images)


def test_the_teapot_lies_in_its_box():
    """Without the teapot nothing changes outside its box but light and shadow on the ground."""
    renderer = Renderer(QUICK, 64, threads=1)
    for name in ("sun", "key", "spotlight"):
        renderer.bpy.data.lights[name].use_shadow = False
    states = [scene_state(latents) for latents in ROWS]
    images = [renderer.render(state).astype(int) for state in states]
    renderer.scene.collection.objects.unlink(renderer.bpy.data.objects["teapot"])
    for state, image in zip(states, images, strict=True):
        changed = np.abs(renderer.render(state) - image).max(axis=-1) > 8
        left, top, right, bottom = object_box(state, 64)
        assert changed[top:bottom, left:right].any()
        changed[top:bottom, left:right] = False
        assert not changed.any()


def test_a_second_mesh_is_data_of_scene_and_materials(monkeypatch):
    quality = dataclasses.replace(QUICK, teapot_samples=8)
    state = scene_state(ROWS[1])
    alone = Renderer(quality, 64, threads=1).render(state)
    corners = np.array(list(itertools.product((-1, 1), repeat=3)), float)
    sides = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    cube = Mesh(corners, sides, smooth=False)
    monkeypatch.setitem(scene.MESHES, "cube", scene.SceneMesh(lambda: cube, 1.2))
    monkeypatch.setitem(materials.MATERIALS, "cube", materials.RUBBER)
    renderer = Renderer(quality, 64, threads=1)
    assert np.array_equal(renderer.render(state), alone)
    other = dataclasses.replace(state, mesh="cube", object_color=(0, 1, 0))
    image = renderer.render(other)
    left, top, right, bottom = object_box(other, 64)
    assert image[(top + bottom) // 2, (left + right) // 2].argmax() == 1  # the cube is green
    assert np.array_equal(renderer.render(state), alone)


def test_more_samples_for_the_teapot_land_in_the_right_place():
    base = dataclasses.replace(QUICK, denoiser="HIGH")
    reference, plain, detailed = (
        Renderer(quality, 64, threads=1).render(scene_state(ROWS[2])).astype(float)
        for quality in (
            dataclasses.replace(base, samples=128),
            dataclasses.replace(base, samples=2),
            dataclasses.replace(base, samples=2, teapot_samples=64),
        )
    )
    left, top, right, bottom = object_box(scene_state(ROWS[2]), 64, margin=2)
    inside = np.zeros((64, 64), bool)
    inside[top:bottom, left:right] = True
    assert np.array_equal(detailed[~inside], plain[~inside])
    error = [((image - reference)[inside] ** 2).mean() for image in (plain, detailed)]
    assert error[1] < error[0] / 4


def test_published_is_as_released():
    cycles = Renderer(quality("published", 8), 8).scene.cycles
    assert (cycles.samples, cycles.use_light_tree) == (512, False)
    assert (cycles.denoising_prefilter, cycles.denoising_quality) == ("ACCURATE", "HIGH")
    assert cycles.denoising_input_passes == "RGB_ALBEDO_NORMAL"
