"""Methods of other people: trained by their own code, scored and ranked by ours.

A method is a class without arguments, found as `module:Class` or by the entry point group
`ident3d.methods`:

    class MyMethod:
        name = "My method"                      # on the leaderboard

        def fit(self, task: Task) -> Encoder:   # numpy, torch, jax, anything
            for anchors, positives in task.batches():
                ...
            return encoder                      # images -> (n, k)

    ident3d benchmark run my_package:MyMethod --tier small --data DATA
"""

import inspect
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from ident3d.dataset import Dataset
from ident3d.errors import choose

from .data.images import Splits
from .plugins import entry_points, foreign, load_object, source_digest
from .settings.composed import added
from .settings.experiment import Experiment
from .settings.run_settings import ImageSettings
from .training.distributed import here
from .training.image_run import records
from .training.loop import Batches

GROUP = "ident3d.methods"
Encoder = Callable[[Any], Any]  # as `ident3d.benchmark.scoring.embedding` takes them


@dataclass(frozen=True)
class Task:
    """What a method gets.

    Args:
        data: The training split. Its latents are the truth: a method that looks at them is
            supervised and must say so in its name.
        dim: Number of factors that vary.
        conditional: What the positives are drawn from, as text.
        steps: Batches that the tier grants.
        batch: Pairs in a batch.
        seed: For all random numbers.
        checkpoint: A file that the method may keep to go on after an interruption.
    """

    data: Dataset
    dim: int
    conditional: str
    steps: int
    batch: int
    seed: int
    checkpoint: Path | None
    source: Batches

    def batches(self, first: int = 0) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield anchors and positives, uint8 (batch, H, W, 3) each, of steps `first` to `steps`."""
        for batch in islice(self.source(first), max(self.steps - first, 0)):
            anchors, positives, *_ = (view.permute(0, 2, 3, 1).numpy() for view in batch.views)
            yield anchors, positives


class Method(Protocol):
    """What a method must offer."""

    name: str

    def fit(self, task: Task) -> Encoder:
        """Train, and return an encoder: a torch module, or a callable on uint8 images."""


@dataclass(frozen=True, kw_only=True)
class Foreign:
    """Whose method it is, and which state of its source: an edited method is run again."""

    method: str
    source: str | None = added(None)


@dataclass(frozen=True, kw_only=True)
class MethodSettings(ImageSettings):
    """Settings of a tier, and whose method it is."""

    foreign: Foreign


def find_method(spec: str) -> Method:
    """Return the method that `module:Class` or the name of an entry point means."""
    if ":" in spec:
        found = load_object(spec, "method")
    else:
        found = choose(entry_points(GROUP), spec, "method").load()
    method = found() if inspect.isclass(found) else found
    name = getattr(method, "name", None)
    if not isinstance(name, str) or not name or not callable(getattr(method, "fit", None)):
        raise ValueError(f"`method` {spec} must have a `name`, text, and a function `fit(task)`.")
    return method


def is_method(name: str) -> bool:
    """Whether a name on the command line means a method from outside."""
    return ":" in name or name in entry_points(GROUP)


def experiment(spec: str, model: Experiment) -> Experiment:
    """Return the experiment that trains a method on the pairs of another, in all its tiers."""
    method = find_method(spec)
    whose = Foreign(method=spec, source=source_digest(method))
    tiers = {tier: MethodSettings(**vars(s), foreign=whose) for tier, s in model.tiers.items()}
    name, title = f"table4/{spec.replace(':', '.')}", f"{spec}, from outside"
    return Experiment(name, title, method.name, tiers, run, check=Splits)


def run(
    settings: MethodSettings, seed: int, checkpoint: Path | None, label: str
) -> list[dict[str, Any]]:
    """Fit a method from outside; return the fields of its records."""
    if here().world > 1:
        raise ValueError("`torchrun` is for our own rows; run a method from outside without it.")
    spec, data = settings.foreign.method, Splits(settings)
    method = find_method(spec)
    task = Task(
        data=data.train[0],
        dim=settings.model.dim,
        conditional=settings.data.conditionals[0],
        steps=settings.training.steps,
        batch=settings.training.batch,
        seed=seed,
        checkpoint=checkpoint,
        source=data.batches(seed, torch.device("cpu")),
    )
    began = time.monotonic()
    with foreign(f"`fit` of {spec}"):
        encoder = method.fit(task)
    if not callable(encoder):
        raise ValueError(f"`fit` of {spec} must return an encoder, got {type(encoder).__name__}.")
    return records(settings, data, encoder, {"seconds": time.monotonic() - began})
