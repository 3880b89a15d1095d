"""The parts of a run's settings: data, model, loss and training, all plain values."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ident3d.dataset import load
from ident3d.errors import choose, whole

from ..training.gradients import PRECISIONS
from .composed import Composed, added, named
from .schedules import SCHEDULES

FIT, THEORY = "fit", "theory"  # sizes that are found, not given


@dataclass(frozen=True, kw_only=True)
class SyntheticData:
    """Latents of a process in the words of `ident3d.conditionals`, mixed by a random network."""

    space: str
    marginal: str = "uniform"
    conditionals: tuple[str, ...] = ()  # one for each process
    hard: str | None = None  # conditional of the hard negatives
    hard_count: int = 0  # of each anchor
    hard_from: int = 0  # the step at which they join: before it, training is regular
    turned: bool = added(False)  # the noise's axes, by a rotation, against those of the space
    opposite: bool = False  # score on the marginal mirrored at the origin
    scored: int = 4096  # latents to score on

    def __post_init__(self) -> None:
        """Refuse what no run could use."""
        _check_counts(self, hard_count=0, hard_from=0, scored=2)  # of one row there is no score


@dataclass(frozen=True, kw_only=True)
class ImageData:
    """Splits of a data set, and what makes pairs of their rows."""

    folder: str = named("data", "3dident")
    splits: tuple[str, ...] = ("train",)  # to train on, one for each conditional
    test: str = "test"  # to score on
    fingerprints: tuple[str, ...] = ()  # of all these splits; `pinned` fills them in
    pairs: str = "exact"  # a key of images.PAIRINGS
    conditionals: tuple[str, ...] = ("normal:0.1",)  # one for each process
    hard: str | None = None  # conditional of the hard negatives, which are looked up
    hard_count: int = 0  # of each anchor
    rows: int | None = added(None)  # of each training split, the first ones; None: all
    train_rows: int = 25_000  # training rows that are scored too, as in table 5
    watched: int = 1_000  # test rows scored during training

    def __post_init__(self) -> None:
        """Refuse what no run could use."""
        _check_counts(self, hard_count=0, rows=2, train_rows=2, watched=2)


@dataclass(frozen=True, kw_only=True)
class Model:
    """An encoder, and the space that it maps to."""

    dim: int = 10  # of that space, and of the latents: factors that vary
    space: str = named("model_space", "box")  # a key of heads.HEADS
    learnable: bool = True  # the size of the space
    # At the start, 1 as released. "fit": where the loss of the untrained encoder is least, which
    # needs observations alone. "theory": computed from the true conditional, the space and the
    # latents' deviation; older records say None for it.
    size: float | str | None = 1.0
    size_as: str = added("log")  # what is learned of it: a key of heads.SIZES
    encoder: str = "mlp"  # a key of backbones.ENCODERS
    widths: tuple[int, ...] | None = None  # hidden ones; None: the encoder's own
    # Outputs uncorrelated and equally wide before the head, as batches have them in training: no
    # dimension can fall silent. Once trained it is one more linear map.
    whiten: bool = added(False)

    def __post_init__(self) -> None:
        """Read None as older records mean it; refuse what is no size."""
        if self.size is None:
            object.__setattr__(self, "size", THEORY)
        if self.size not in (FIT, THEORY) and not (
            isinstance(self.size, int | float) and self.size > 0
        ):
            raise ValueError(f"`size` must be above 0, {FIT} or {THEORY}, got {self.size}.")


@dataclass(frozen=True, kw_only=True)
class Loss:
    """What training minimises, and how it compares representations.

    Some names train nothing: they are keys of `baselines.BASELINES`.
    """

    name: str = named("loss", "infonce")  # a key of losses.OBJECTIVES
    similarity: str = "l2"  # a key of similarities.SIMILARITIES
    tau: float = 1.0
    negatives: str = "anchors"  # or "positives", "both"
    symmetric: bool = False
    metric_start: float = 1.0  # where a learned diagonal begins
    include_positive: bool = added(True)  # in InfoNCE's denominator
    self_negative: bool = added(False)  # keep a pair's own anchor among its negatives
    root: bool = added(False)  # compare by a norm, not by its power
    anchors_only: bool = added(False)  # supervise anchors alone, as released, not all views
    # Weight of what further outputs, in training alone, tell beyond the model's: see beyond.py.
    beyond: float = added(0.0)
    beta: float = added(1.0)  # SlowVAE: weight of the divergence from a standard normal prior
    gamma: float = added(10.0)  # SlowVAE: weight of the Laplace prior in time
    rate: float = added(6.0)  # SlowVAE: of that prior, the inverse of its scale


@dataclass(frozen=True, kw_only=True)
class Training:
    """What the loop does."""

    steps: int
    # Before them, the encoder learns with many outputs, and keeps the slowest: see wide_start.py.
    wide_steps: int | None = added(None)
    wide_lr: float | None = added(None)  # of those; None: `lr`
    batch: int = 512  # pairs
    lr: float = 1e-4
    objective_lr: float | None = None  # of the loss's own parameters; None: `lr`
    size_lr: float | None = added(None)  # of the size of the model's space; None: `lr`
    schedule: str = "constant"  # a key of SCHEDULES
    clip: float | None = None  # largest norm of a gradient
    evaluations: int = 10  # how often to score, evenly spaced, the last one at the end
    seconds: float | None = None  # time budget; a schedule ends with it
    # Rows that batch-norm normalises together; None: all rows of a step. It is part of the model.
    norm_rows: int | None = added(None)
    # Rows embedded at a time, to save memory and nothing else: whole groups of `norm_rows`.
    micro_batch: int | None = None
    precision: str = "float32"  # or "bfloat16": the encoder in mixed precision
    compile: bool = False  # torch.compile the encoder
    device: str = "auto"
    checkpoint_seconds: float = 20.0  # at most this much work is lost; 0: after every step

    def __post_init__(self) -> None:
        """Refuse what no run could use."""
        rates, sizes = "lr wide_lr objective_lr size_lr", "norm_rows micro_batch"
        for name in f"steps wide_steps {rates} clip evaluations seconds {sizes}".split():
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"`{name}` must be above 0 and finite, got {value}.")
        if not 0 <= self.checkpoint_seconds < math.inf:
            raise ValueError(
                f"`checkpoint_seconds` must be at least 0 and finite, got "
                f"{self.checkpoint_seconds}."
            )
        if self.batch < 2:
            raise ValueError("`batch` must be at least 2: a pair alone has no negative.")
        choose(SCHEDULES, self.schedule, "schedule")
        choose(PRECISIONS, self.precision, "precision")


@dataclass(frozen=True, kw_only=True)
class Settings(Composed):
    """Settings of one run: what synthetic and image runs share."""

    model: Model = field(default_factory=Model)
    loss: Loss = field(default_factory=Loss)
    training: Training
    data: SyntheticData | ImageData


@dataclass(frozen=True, kw_only=True)
class SyntheticSettings(Settings):
    """Settings of one run on synthetic data."""

    data: SyntheticData


@dataclass(frozen=True, kw_only=True)
class ImageSettings(Settings):
    """Settings of one run on images."""

    data: ImageData = field(default_factory=ImageData)

    def fingerprints(self) -> tuple[str, ...]:
        """Return those of all splits."""
        names, folder = (*self.data.splits, self.data.test), Path(self.data.folder)
        return tuple(load(folder / name).fingerprint for name in names)


def _check_counts(part: Any, **least: int) -> None:
    """Refuse counts below what is the least for each; None is no count."""
    for name, limit in least.items():
        if getattr(part, name) is not None:
            whole(getattr(part, name), name, limit)
