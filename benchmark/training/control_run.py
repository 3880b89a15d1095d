"""The controls of a row: on its data, scored by its protocols, as records that are never ranked."""

import time
from collections.abc import Callable, Iterator
from dataclasses import fields
from itertools import islice
from typing import Any

import numpy as np
import torch

from ..data.images import Splits
from ..data.mixing import make_mixing
from ..data.synthetic import CONTROLS as STREAM
from ..data.synthetic import MIXING, SCORING, Process, as_tensor, stream
from ..encoders import make_encoder
from ..encoders.baselines import BASELINES
from ..results.records import image_fields
from ..scoring import PROTOCOLS, QUICK, scored_rows
from ..scoring.controls import CONTROLS, IDENTITY, UNTRAINED, coarse
from ..scoring.embedding import embed as embed_images
from ..settings.composed import Composed, plain
from ..settings.run_settings import ImageSettings, SyntheticSettings
from .image_run import protocols_of, start_size
from .pixel_run import pixel_fields
from .synthetic_run import build, embed, records

PAIRS = 10_000  # to learn from, at most
SIDE = 8  # images are averaged to SIDE x SIDE where a control learns from them

Fields = dict[str, Any]  # of a record


def has_controls(settings: Composed) -> bool:
    """Whether a row has controls of its own: one that learns from pairs does.

    Baselines and supervised rows stand beside those of the row that they belong to.
    """
    if not isinstance(settings, SyntheticSettings | ImageSettings):
        return False
    return settings.loss.name not in ("supervised", *BASELINES)


def run(settings: Composed, seed: int) -> Iterator[Fields]:
    """Yield the fields of the records of every control of a row: method, protocol, scores, ..."""
    if isinstance(settings, SyntheticSettings):
        yield from _synthetic(settings, seed)
    elif isinstance(settings, ImageSettings):
        yield from _images(settings, seed)


def data_settings(settings: Composed) -> dict[str, Any]:
    """Return the settings that controls depend on: all but those of loss and training."""
    other = {
        its.metadata.get("flat", its.name)
        for part in ("loss", "training")
        for its in fields(getattr(settings, part))
    }
    return {name: value for name, value in plain(settings).items() if name not in other}


def same_controls(settings: Composed, other: Composed) -> bool:
    """Whether the controls of two rows are the same: no score sees how large a space is."""
    one, two = (
        {k: v for k, v in data_settings(its).items() if k not in ("size", "learnable", "size_as")}
        for its in (settings, other)
    )
    return one == two


def _synthetic(settings: SyntheticSettings, seed: int) -> Iterator[Fields]:
    torch.manual_seed(seed)
    process = Process.read(settings)
    mixing = make_mixing(process.dim, stream(seed, MIXING))
    z = process.anchors(settings.data.scored, stream(seed, SCORING))
    if settings.data.opposite:
        z = -z

    def observe(latents: np.ndarray) -> torch.Tensor:
        with torch.no_grad():
            return mixing(as_tensor(latents))

    rng = stream(seed, STREAM)
    views = process.views(PAIRS // len(process.conditionals), rng, 0)
    views = views[: 2 * len(process.conditionals)]  # without hard negatives
    anchors, positives = (observe(np.concatenate(views[k::2])).double().numpy() for k in (0, 1))
    observed = observe(z)
    as_is = observed.double().numpy()

    def scored(name: str, words: str, make: Callable[[], np.ndarray]) -> Iterator[Fields]:
        began = time.monotonic()
        z_hat = make()
        shared = control_fields(name, {"words": words}, time.monotonic() - began)
        yield from (found | shared for found in records(process, z, z_hat, {}))

    yield from scored(IDENTITY, "the observations as they are", lambda: as_is)
    encoder = build(settings, process, mixing, seed)
    words = "the row's encoder before its first step"
    yield from scored(UNTRAINED, words, lambda: embed(encoder, observed))
    for control in CONTROLS:
        make = _embedded(control.embed, anchors, positives, as_is, process.dim, rng)
        yield from scored(control.name, f"{control.words}; {len(anchors):,} pairs", make)


def _images(settings: ImageSettings, seed: int) -> Iterator[Fields]:
    torch.manual_seed(seed)
    data, dim = Splits(settings), settings.model.dim
    rng = stream(seed, STREAM)
    for protocol in protocols_of(settings):
        found, facts = pixel_fields(data.test, protocol)
        yield found | control_fields(IDENTITY, facts, found["seconds"])
    encoder = make_encoder(settings.model, data.sample(), start_size(settings))
    words = {"words": "the row's encoder before its first step"}
    for protocol in protocols_of(settings):
        rows, began = scored_rows(protocol, len(data.test)), time.monotonic()
        in_training = PROTOCOLS[protocol].train_mode
        z_hat = embed_images(encoder, data.test.images, rows=rows, train_mode=in_training)
        shared = control_fields(UNTRAINED, words, time.monotonic() - began)
        yield image_fields(data.test, z_hat, protocol, names=QUICK) | shared
    anchors, positives = _coarse_pairs(data, seed)
    test = embed_images(lambda images: coarse(images, SIDE), data.test.images).astype(np.float64)
    for control in CONTROLS:
        began = time.monotonic()
        z_hat = control.embed(anchors, positives, test, dim, rng)
        facts = {
            "words": f"{control.words}; {len(anchors):,} pairs",
            "observations": f"pixels averaged to {SIDE} x {SIDE}",
        }
        shared = control_fields(control.name, facts, time.monotonic() - began)
        for protocol in protocols_of(settings):
            rows = scored_rows(protocol, len(data.test))
            yield image_fields(data.test, z_hat[rows], protocol, names=QUICK) | shared


def _coarse_pairs(data: Splits, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return anchors and positives of all processes, averaged to a few pixels, (n, p) each."""
    wanted = min(PAIRS, len(data.train[0]))
    steps = max(1, wanted // data.settings.training.batch)
    parts: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    processes = len(data.train)
    for batch in islice(data.batches(seed, torch.device("cpu"))(0), steps):
        for number, view in enumerate(batch.views[: 2 * processes]):  # without hard negatives
            images = view.permute(0, 2, 3, 1).numpy()  # (batch, H, W, 3)
            parts[number % 2].append(coarse(images, SIDE).astype(np.float64))
    return np.concatenate(parts[0]), np.concatenate(parts[1])


def _embedded(embed: Callable[..., np.ndarray], *arguments: Any) -> Callable[[], np.ndarray]:
    return lambda: embed(*arguments)


def control_fields(name: str, facts: dict[str, str], seconds: float) -> Fields:
    """Return what the records of a control have beside its scores; `facts` say what was done."""
    return {
        "method": f"Control: {name}",
        "control": True,
        "seconds": round(seconds, 3),
        "settings": {"control": facts},
    }
