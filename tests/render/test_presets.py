import os
import subprocess
import sys

import numpy as np
import pytest
from ident3d.render.blender import Renderer
from ident3d.render.denoiser import Denoiser, to_display
from ident3d.render.presets import MERGED, PRESETS, SHARED, Quality, quality
from ident3d.render.scene import object_box, scene_state

from ident3d.rows import row_latents

LATENTS = row_latents(1, "presets", np.arange(4))
RAW = Quality(4, 0, light_tree=True, prefilter="FAST", denoiser=SHARED)


def psnr(image, reference):
    return 10 * np.log10(255**2 / np.square(image.astype(float) - reference).mean())


@pytest.mark.slow
def test_presets_keep_their_promise_at_a_small_size():
    """The whole promise, 32 to 512 px, is measured by tests.speed.render."""
    reference = Quality(256, 0, light_tree=True, prefilter="NONE", denoiser="HIGH")
    states = [scene_state(latents) for latents in LATENTS]
    truth = [Renderer(reference, 32).render(state) for state in states]
    for name in ("standard", "draft"):
        renderer = Renderer(quality(name, 32), 32)
        reached = [psnr(renderer.render(s), t) for s, t in zip(states, truth, strict=True)]
        assert np.mean(reached) > PRESETS[name].promise - 1, name  # four rows scatter by a dB


@pytest.mark.parametrize("preset", PRESETS)
def test_every_size_has_a_quality_and_smaller_images_get_no_fewer_samples(preset):
    samples = [quality(preset, size).samples for size in (8, 32, 63, 64, 96, 97, 224, 512, 8192)]
    assert samples == sorted(samples, reverse=True)


def test_an_unknown_preset_is_named_with_its_neighbours():
    with pytest.raises(ValueError, match=r"'standrad'.*standard"):
        quality("standrad", 64)


@pytest.mark.slow
def test_passes_are_what_blender_would_show(monkeypatch):
    """Undenoised passes, displayed by us, equal the image that Blender itself saves."""
    state = scene_state(LATENTS[0])
    renderer = Renderer(RAW, 48)
    monkeypatch.setattr(renderer, "_denoiser", lambda passes: passes[..., :3])
    ours = renderer.render(state)
    blender = Renderer(Quality(4, 0, True, "NONE", "HIGH"), 48)
    blender.scene.cycles.use_denoising = False
    difference = np.abs(ours.astype(int) - blender.render(state))
    assert difference.max() <= 1  # a level, where Blender's table of the curve rounds otherwise


@pytest.mark.slow
def test_the_teapot_pass_lands_where_the_teapot_is(monkeypatch):
    """Both passes of equal samples show the same scene: a shift of one pixel would be seen."""
    state = scene_state(LATENTS[1])
    once = Renderer(Quality(64, 0, True, "FAST", SHARED), 48).render(state)
    twice = Renderer(Quality(64, 65, True, "FAST", SHARED), 48).render(state)
    assert psnr(once, twice) > 40
    assert psnr(np.roll(once, 1, 1), twice) < 35


@pytest.mark.slow
def test_merged_passes_hold_the_samples_of_both(monkeypatch):
    """Undenoised, 4 and 12 samples averaged are as noisy as 16, and less than 12 alone."""
    state = scene_state(LATENTS[1])

    def noise(samples, teapot_samples, denoiser):
        renderer = Renderer(Quality(samples, teapot_samples, True, "FAST", denoiser), 48)
        monkeypatch.setattr(renderer, "_denoiser", lambda passes: passes[..., :3])
        left, top, right, bottom = object_box(state, 48, 1)
        shown = renderer.render(state)[top:bottom, left:right].astype(float)
        return np.square(shown - truth[top:bottom, left:right]).mean()

    truth = Renderer(Quality(512, 0, True, "NONE", "HIGH"), 48).render(state)
    merged, replaced = noise(4, 12, MERGED), noise(4, 12, SHARED)
    assert merged < 0.9 * replaced
    assert 0.7 < merged / noise(16, 0, SHARED) < 1.4


COUNTED = """
import os, sys
from ident3d.render.blender import Renderer
from ident3d.render.presets import quality
cores = os.sched_getaffinity(0)
Renderer(quality("draft", 16), 16, threads=int(sys.argv[1]))
running = os.listdir("/proc/self/task")
assert all(os.sched_getaffinity(int(thread)) == cores for thread in running)
print(len(running))
"""


@pytest.mark.slow
def test_a_renderer_of_one_thread_starts_none_that_idles_and_keeps_all_cores():
    def threads(told):
        command = [sys.executable, "-c", COUNTED, str(told)]
        return int(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)

    assert threads(1) < threads(2) or len(os.sched_getaffinity(0)) == 1


def test_the_denoiser_removes_noise_and_forgets_the_image_before():
    rng = np.random.default_rng(0)
    flat = np.full((32, 32, 9), 0.5, np.float32)
    noisy = flat.copy()
    noisy[..., :3] += rng.normal(0, 0.1, (32, 32, 3)).astype(np.float32)
    denoiser = Denoiser(32, clean=False, threads=1)
    first = denoiser(noisy).copy()
    assert np.abs(first - 0.5).mean() < 0.2 * np.abs(noisy[..., :3] - 0.5).mean()
    denoiser(rng.uniform(0, 1, (32, 32, 9)).astype(np.float32))
    assert np.array_equal(denoiser(noisy), first)


def test_display_is_the_curve_of_srgb():
    linear = np.array([-1, 0, 0.001, 0.0031308, 0.2, 0.5, 1, 7], np.float32)
    curve = np.where(
        linear <= 0.0031308, 12.92 * linear, 1.055 * linear.clip(0) ** (1 / 2.4) - 0.055
    )
    assert np.abs(to_display(linear) - 255 * curve.clip(0, 1)).max() <= 0.51
