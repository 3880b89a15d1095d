"""The controls of a row: on its data, scored by its protocols, as records that are never ranked."""

import time
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import nn

from ..data.images import Splits, sample_of
from ..data.mixing import make_mixing
from ..data.synthetic import CONTROLS as STREAM
from ..data.synthetic import MIXING, Process, as_tensor, scored_anchors, stream
from ..encoders import make_encoder
from ..encoders.baselines import BASELINES
from ..results.records import image_fields
from ..scoring import PROTOCOLS, QUICK, scored_rows
from ..scoring.controls import CONTROLS, IDENTITY, UNTRAINED, coarse, slow_directions
from ..scoring.embedding import embed as embed_images
from ..settings.composed import Composed, plain
from ..settings.run_settings import ImageSettings, SyntheticSettings
from .image_run import protocols_of, start_size
from .pixel_run import pixel_fields
from .synthetic_run import build, embed, records

PAIRS = 10_000  # to learn from, at most
# Images are averaged to so many pixels along each side where a control learns from them: those of
# which it makes slow features that change least in pairs kept aside.
SIDES = (8, 16, 24)
KEPT = 5  # one pair of so many is kept aside
BEFORE = "the row's encoder before its first step"

Fields = dict[str, Any]  # of a record
Ways = dict[str, tuple[str, Callable[[], np.ndarray]]]  # control -> words, what embeds


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
    z = scored_anchors(settings, process, seed)
    observed = mixing(as_tensor(z))
    as_is: Ways = {IDENTITY: ("the observations as they are", observed.double().numpy)}
    for name, (words, embedded) in (as_is | ways(settings, mixing, observed, seed)).items():
        began = time.monotonic()
        z_hat = embedded()
        shared = control_fields(name, {"words": words}, time.monotonic() - began)
        yield from (found | shared for found in records(process, z, z_hat, {}))


def ways(settings: SyntheticSettings, mixing: nn.Module, observed: torch.Tensor, seed: int) -> Ways:
    """Return what embeds observations: the untrained encoder, and what learns from pairs."""
    process, rng = Process.read(settings), stream(seed, STREAM)
    processes = len(process.conditionals)
    views = process.views(PAIRS // processes, rng, 0)[: 2 * processes]  # without hard negatives
    anchors, positives = (
        mixing(as_tensor(np.concatenate(views[k::2]))).double().numpy() for k in (0, 1)
    )
    encoder, rows = build(settings, process, mixing, seed), observed.double().numpy()
    found: Ways = {UNTRAINED: (BEFORE, partial(embed, encoder, observed))}
    for control in CONTROLS:
        learned = partial(control.embed, anchors, positives, rows, process.dim, rng)
        found[control.name] = f"{control.words}; {len(anchors):,} pairs", learned
    return found


def _images(settings: ImageSettings, seed: int) -> Iterator[Fields]:
    torch.manual_seed(seed)
    data, dim = Splits(settings), settings.model.dim
    rng = stream(seed, STREAM)
    for protocol in protocols_of(settings):
        found, facts = pixel_fields(data.test, protocol)
        yield found | control_fields(IDENTITY, facts, found["seconds"])
    sample = sample_of(data.train[0].images, settings.data.rows)
    encoder = make_encoder(settings.model, sample, start_size(settings))
    for protocol in protocols_of(settings):
        rows, began = scored_rows(protocol, len(data.test)), time.monotonic()
        in_training = PROTOCOLS[protocol].train_mode
        z_hat = embed_images(encoder, data.test.images, rows=rows, train_mode=in_training)
        shared = control_fields(UNTRAINED, {"words": BEFORE}, time.monotonic() - began)
        yield image_fields(data.test, z_hat, protocol, names=QUICK) | shared
    pairs = _coarse_pairs(data, seed)
    side = min(pairs, key=lambda side: kept_change(*pairs[side], dim))
    anchors, positives = pairs[side]
    test = embed_images(lambda images: coarse(images, side), data.test.images).astype(np.float64)
    for control in CONTROLS:
        began = time.monotonic()
        z_hat = control.embed(anchors, positives, test, dim, rng)
        facts = {
            "words": f"{control.words}; {len(anchors):,} pairs",
            "observations": f"pixels averaged to {side} x {side}",
        }
        shared = control_fields(control.name, facts, time.monotonic() - began)
        for protocol in protocols_of(settings):
            rows = scored_rows(protocol, len(data.test))
            yield image_fields(data.test, z_hat[rows], protocol, names=QUICK) | shared


def _coarse_pairs(data: Splits, seed: int) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """Return anchors and positives of all processes, averaged to few pixels of each side, (n, p).

    Rendered pairs are as many as there are; those that are looked up are drawn anew.
    """
    there = data.settings.data.rows or len(data.train[0])
    wanted = min(PAIRS, there) if data.settings.data.pairs == "exact" else PAIRS
    steps = max(1, wanted // data.settings.training.batch)
    found: dict[int, tuple[list[np.ndarray], list[np.ndarray]]] = {side: ([], []) for side in SIDES}
    processes = len(data.train)
    for batch in islice(data.batches(seed, torch.device("cpu"))(0), steps):
        for number, view in enumerate(batch.views[: 2 * processes]):  # without hard negatives
            images = view.permute(0, 2, 3, 1).numpy()  # (batch, H, W, 3)
            for side, parts in found.items():
                parts[number % 2].append(coarse(images, side).astype(np.float64))
    return {side: (np.concatenate(a), np.concatenate(b)) for side, (a, b) in found.items()}


def kept_change(anchors: np.ndarray, positives: np.ndarray, dim: int) -> float:
    """Return how much slow features change in pairs that they were not learned from."""
    kept = np.arange(len(anchors)) % KEPT == 0
    slow = slow_directions(anchors[~kept], positives[~kept], dim)
    seen, change = anchors[kept] @ slow, (anchors - positives)[kept] @ slow
    return float((np.square(change).mean(0) / seen.var(0)).sum())


def control_fields(name: str, facts: dict[str, str], seconds: float) -> Fields:
    """Return what the records of a control have beside its scores; `facts` say what was done."""
    return {
        "method": f"Control: {name}",
        "control": True,
        "seconds": round(seconds, 3),
        "settings": {"control": facts},
    }
