"""The only door to Blender: builds the scene once, then renders row after row of latents."""

import contextlib
import os
import struct
import sys
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, version
from types import ModuleType
from typing import Any

import numpy as np

from . import scene
from .denoiser import Denoiser, read_passes, to_display
from .materials import GROUND, GROUND_PLACE, LIGHTS, MATERIALS, Light, Material
from .presets import MERGED, Quality
from .scene import MESHES, SceneState, Vector, object_box
from .teapot import Mesh

GPU_TYPES = ("OPTIX", "CUDA", "HIP", "ONEAPI", "METAL")
_FILTER_MARGIN = 1  # pixels by which the pixel filter smears the teapot
_DENOISER_MARGIN = 0.025  # of the side: a denoiser that sees the box alone is less sure at its edge
_TARGA_HEADER = 18  # bytes before the pixels
_TARGA_SIZE_AT = 12  # where in the header width and height stand

_MISSING = (
    "Rendering needs Blender's `bpy` module, which did not import ({}): "
    "`pip install 'ident3d[render]'` on Python 3.11; `ident3d doctor` tells what is "
    "missing. Reading a rendered data set needs none of it."
)


def load_bpy() -> ModuleType:
    """Import Blender, or say how to get it."""
    try:
        with quiet(), _bpy_first():
            import bpy
    except ImportError as error:
        raise ImportError(_MISSING.format(error)) from error
    return bpy


def blender_version() -> str:
    """Tell Blender's version without importing it, which takes a second."""
    try:
        return version("bpy")
    except PackageNotFoundError as error:
        raise ImportError(_MISSING.format("it is not installed")) from error


@contextlib.contextmanager
def _bpy_first() -> Iterator[None]:
    """Find the real `bpy` before its own script folder, which also has a module of that name.

    Blender adds that folder to the path, and a process started from one that has Blender loaded
    inherits the path.
    """
    kept = list(sys.path)
    with contextlib.suppress(PackageNotFoundError):  # a Blender built by hand
        sys.path.insert(0, str(distribution("bpy").locate_file("")))
    try:
        yield
    finally:
        sys.path[:] = kept + [added for added in sys.path if added not in kept]


@contextlib.contextmanager
def _one_core() -> Iterator[None]:
    """Let Blender's task scheduler find one core when it starts, so that it starts no thread.

    That thread would have nothing to do in a worker of one thread, and asks for work without a
    pause: on a machine with other work it has taken three times what rendering took.
    """
    if not hasattr(os, "sched_setaffinity"):  # not Linux
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield
    finally:
        for thread in os.listdir("/proc/self/task"):  # those started meanwhile inherited the core
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(int(thread), cores)


@contextlib.contextmanager
def quiet(verbose: bool = False) -> Iterator[None]:
    """Send what Blender's C++ side prints to stdout nowhere, for a moment."""
    if verbose:
        yield
        return
    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


@dataclass(frozen=True)
class Gpu:
    """One graphics card as Blender names it."""

    kind: str  # OPTIX, CUDA, ...
    identity: str
    name: str


def find_gpus() -> list[Gpu]:
    """List every card Blender can use, once per kind of access to it."""
    preferences = load_bpy().context.preferences.addons["cycles"].preferences
    offered = {kind for kind, *_ in preferences.get_device_types(None)}
    return [
        Gpu(kind, device.id, device.name)
        for kind in GPU_TYPES
        if kind in offered
        for device in preferences.get_devices_for_type(kind)
        if device.type == kind
    ]


class Renderer:
    """One Blender scene, kept for as long as the process lives: make one per process.

    Args:
        quality: Samples and denoising, fixed for good.
        resolution: Pixels along each side.
        threads: CPU threads; 0 takes all there are.
        gpu: The card to render on; None is the CPU.
        verbose: Let Blender print.
    """

    def __init__(
        self,
        quality: Quality,
        resolution: int,
        threads: int = 0,
        gpu: Gpu | None = None,
        verbose: bool = False,
    ) -> None:
        with _one_core() if threads == 1 else contextlib.nullcontext():
            self.bpy = load_bpy()
        self._verbose = verbose
        self._resolution = resolution
        # Blender saves to a nameless file, so a kill leaves nothing behind.
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the renderer)
        weakref.finalize(self, self._file.close)
        with quiet(verbose):
            self.bpy.ops.wm.read_factory_settings(use_empty=True)
        self.scene = self.bpy.context.scene
        self._things = {
            name: self._add_mesh(name, mesh.build(), mesh.scale) for name, mesh in MESHES.items()
        }
        self._ground = self._add_mesh("ground", GROUND)
        self._ground.location = GROUND_PLACE
        self._lights = {name: self._add_light(name, light) for name, light in LIGHTS.items()}
        self._add_camera()
        self._set_engine(quality, threads)
        self._set_device(gpu)
        self._set_output(resolution)
        self._denoiser = None
        if quality.ours:
            self._denoiser = Denoiser(resolution, quality.prefilter == "NONE", threads)
        self._read = read_passes if self._denoiser else _read_targa
        # What the pass over the teapot counts for: all, or by its share of both passes' samples.
        self._share = 1.0
        if quality.denoiser == MERGED:
            self._share = quality.teapot_samples / (quality.samples + quality.teapot_samples)
        self._closeup = self._add_closeup(quality)

    def apply(self, state: SceneState) -> None:
        """Put the scene into a state; everything else stands still."""
        for name, thing in self._things.items():
            if thing.hide_render != (name != state.mesh):  # or Blender sorts its objects anew
                thing.hide_render = not thing.hide_render
        shown, spotlight = self._things[state.mesh], self._lights["spotlight"]
        shown.location, shown.rotation_euler = state.object_place, state.object_turn
        # The cone is round, so any direction will do for up that is never along the beam.
        self._point(spotlight, state.spotlight_place, state.object_place, up=(1, 0, 0))
        spotlight.data.color = state.spotlight_color
        shown.color, self._ground.color = (*state.object_color, 1), (*state.ground_color, 1)

    def render(self, state: SceneState) -> np.ndarray:
        """Render a state to an image, uint8 (resolution, resolution, 3)."""
        self.apply(state)
        image = self._shoot(self.scene)
        if self._closeup:
            size, render = self._resolution, self._closeup.render
            margin = _FILTER_MARGIN if self._denoiser else round(size * _DENOISER_MARGIN)
            left, top, right, bottom = object_box(state, size, margin)
            # Blender cuts fractions of a pixel off, so a quarter guards whole ones from rounding.
            render.border_min_x, render.border_max_x = (left + 0.25) / size, (right + 0.25) / size
            render.border_min_y = (size - bottom + 0.25) / size
            render.border_max_y = (size - top + 0.25) / size
            if left < right and top < bottom:
                again, seen = self._shoot(self._closeup), image[top:bottom, left:right]
                seen[:] = again if self._share == 1 else seen + self._share * (again - seen)
        return to_display(self._denoiser(image)) if self._denoiser else image

    def _shoot(self, shot: Any) -> np.ndarray:
        """Render a Blender scene and read what it saved: an image, or passes to be denoised."""
        with quiet(self._verbose):
            self.bpy.ops.render.render(write_still=True, scene=shot.name)
        # Not through the file object, whose buffer does not know that Blender has written.
        file = self._file.fileno()
        return self._read(os.pread(file, os.fstat(file).st_size, 0))

    def _add(self, name: str, data: Any) -> Any:
        thing = self.bpy.data.objects.new(name, data)
        self.scene.collection.objects.link(thing)
        return thing

    def _add_mesh(self, name: str, shape: Mesh, scale: float = 1.0) -> Any:
        mesh = self.bpy.data.meshes.new(name)
        mesh.from_pydata(shape.vertices.tolist(), [], shape.faces)
        if shape.smooth:
            mesh.shade_smooth()
        thing = self._add(name, mesh)
        thing.scale = (scale,) * 3
        self._cover(mesh, MATERIALS[name])
        return thing

    def _cover(self, mesh: Any, material: Material) -> None:
        """Give a mesh its own material, in the colour of the object that it is on.

        Set in the material, every new colour would have Blender compile it anew, for each pass.
        """
        made = self.bpy.data.materials.new(mesh.name)
        made.use_nodes = True
        mesh.materials.append(made)
        nodes, link = made.node_tree.nodes, made.node_tree.links.new
        nodes.clear()
        shader = nodes.new("ShaderNodeBsdfDiffuse")
        shader.inputs["Roughness"].default_value = material.roughness
        color = nodes.new("ShaderNodeObjectInfo").outputs["Color"]
        link(color, shader.inputs["Color"])
        for layer in material.coats:
            coat, mix = nodes.new(layer.shader), nodes.new("ShaderNodeMixShader")
            coat.distribution = layer.distribution
            coat.inputs["Roughness"].default_value = layer.roughness
            if layer.color is None:
                link(color, coat.inputs["Color"])
            else:
                coat.inputs["Color"].default_value = (*layer.color, 1)
            fresnel = nodes.new("ShaderNodeFresnel")
            fresnel.inputs["IOR"].default_value = layer.ior
            link(fresnel.outputs[0], mix.inputs[0])
            link(shader.outputs[0], mix.inputs[1])
            link(coat.outputs[0], mix.inputs[2])
            shader = mix
        link(shader.outputs[0], nodes.new("ShaderNodeOutputMaterial").inputs["Surface"])

    def _add_light(self, name: str, light: Light) -> Any:
        made = self.bpy.data.lights.new(name, light.kind)
        for setting, value in light.settings.items():
            setattr(made, setting, value)
        thing = self._add(name, made)
        thing.location = light.place
        return thing

    def _add_camera(self) -> None:
        camera = self.bpy.data.cameras.new("camera")
        camera.lens, camera.sensor_width = scene.LENS, scene.SENSOR
        camera.clip_start, camera.clip_end = 0.1, 100
        self.scene.camera = self._add("camera", camera)
        self._point(self.scene.camera, scene.CAMERA_PLACE, (0, 0, 0), scene.CAMERA_UP)

    def _point(self, thing: Any, place: Vector, target: Vector, up: Vector) -> None:
        matrix = np.eye(4)
        matrix[:3, :3] = scene.look_at(place, target, up)
        matrix[:3, 3] = place
        thing.matrix_basis = matrix.T.tolist()  # Blender lists columns

    def _set_engine(self, quality: Quality, threads: int) -> None:
        self.scene.render.engine = "CYCLES"
        self.scene.render.use_persistent_data = True  # keep what does not change
        self.scene.render.threads_mode = "FIXED" if threads else "AUTO"
        self.scene.render.threads = threads or 1
        cycles = self.scene.cycles
        cycles.samples = quality.samples
        cycles.seed = 0  # the same noise in every image: a row's pixels depend on the row alone
        cycles.use_adaptive_sampling = False
        cycles.use_light_tree = quality.light_tree is True
        cycles.max_bounces = 0
        cycles.transparent_max_bounces = 8
        cycles.blur_glossy = 2.0
        cycles.pixel_filter_type, cycles.filter_width = "BLACKMAN_HARRIS", 1.5
        cycles.use_denoising = not quality.ours
        self.scene.view_layers[0].cycles.denoising_store_passes = not cycles.use_denoising
        if cycles.use_denoising:
            cycles.denoiser = "OPENIMAGEDENOISE"
            cycles.denoising_input_passes = "RGB_ALBEDO_NORMAL"
            cycles.denoising_prefilter = quality.prefilter
            cycles.denoising_quality = quality.denoiser

    def _set_device(self, gpu: Gpu | None) -> None:
        self.scene.cycles.device = "GPU" if gpu else "CPU"
        self.scene.cycles.denoising_use_gpu = gpu is not None
        if gpu:
            preferences = self.bpy.context.preferences.addons["cycles"].preferences
            preferences.compute_device_type = gpu.kind
            for device in preferences.get_devices_for_type(gpu.kind):
                device.use = device.id == gpu.identity

    def _set_output(self, resolution: int) -> None:
        """Have Blender save what it would save as PNG, or passes, with no time for compression."""
        render = self.scene.render
        render.resolution_x = render.resolution_y = resolution
        render.resolution_percentage = 100
        render.dither_intensity = 0  # as released; dithering also doubles a compressed image
        saved = render.image_settings
        if self.scene.cycles.use_denoising:
            saved.file_format, saved.color_mode = "TARGA_RAW", "RGB"
        else:
            saved.file_format, saved.color_depth = "OPEN_EXR_MULTILAYER", "32"
            saved.exr_codec = "NONE"
        render.use_file_extension = False
        render.filepath = f"/dev/fd/{self._file.fileno()}"
        self.scene.view_settings.view_transform = "Standard"
        self.scene.view_settings.look = "None"
        self.scene.view_settings.exposure, self.scene.view_settings.gamma = 0, 1

    def _add_closeup(self, quality: Quality) -> Any:
        """Copy the scene for the teapot's box, or return None if that takes no more samples.

        Most of what noise there is lies on the teapot, which covers a ninth of the image: more
        samples go there. It has to be a scene of its own, because with persistent data Cycles
        does not notice when a scene's settings change between renders.
        """
        if quality.teapot_samples <= quality.samples:
            return None
        closeup = self.scene.copy()  # of the same objects
        closeup.cycles.samples = quality.teapot_samples
        closeup.cycles.seed = int(quality.denoiser == MERGED)  # noise of its own
        closeup.cycles.use_light_tree = bool(quality.light_tree)
        closeup.render.use_border = closeup.render.use_crop_to_border = True
        return closeup


def _read_targa(file: bytes) -> np.ndarray:
    """Read an image that Blender saved, uint8 (H, W, 3)."""
    width, height = struct.unpack_from("<HH", file, _TARGA_SIZE_AT)
    pixels = np.frombuffer(file, np.uint8, 3 * width * height, _TARGA_HEADER)
    # Targa stores blue first and the bottom row first.
    return np.ascontiguousarray(pixels.reshape(height, width, 3)[::-1, :, ::-1])
