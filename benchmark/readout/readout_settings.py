"""What a read-out is told: its images, its encoder, its loss and its training."""

from dataclasses import dataclass, field

from ident3d.errors import whole

from ..settings.composed import Composed, named
from ..settings.run_settings import Loss, Model, Training


@dataclass(frozen=True, kw_only=True)
class ReadoutData:
    """Images, and how many of them read-outs are fitted and scored on."""

    source: str = "digits"  # a key of image_sources.SOURCES
    folder: str = named("data", "")  # of a data set; the digits need none
    train: str = "train"  # splits of ident3d's own format; equal ones are divided
    test: str = "test"
    side: int = 32  # larger images are averaged to this many pixels
    strength: float = 1.0  # of SimCLR's colour jitter
    fitted: int = 2_000  # training rows that read-outs are fitted on, at most
    scored: int = 1_500  # test rows that they are scored on, at most
    fingerprints: tuple[str, ...] = ()  # of both sets; `pinned` fills them in

    def __post_init__(self) -> None:
        """Refuse what no run could use."""
        for name, least in (("side", 8), ("fitted", 20), ("scored", 20)):
            whole(getattr(self, name), name, least)


@dataclass(frozen=True, kw_only=True)
class ReadoutSettings(Composed):
    """Settings of one run: train by augmentations, then read out."""

    data: ReadoutData
    model: Model = field(default_factory=Model)
    loss: Loss = field(default_factory=Loss)
    training: Training

    def __post_init__(self) -> None:
        """Refuse what would be recorded and not done."""
        if self.loss.beyond or self.training.wide_steps:
            raise ValueError("`beyond` and `wide_steps` must be off: a read-out trains without.")

    def fingerprints(self) -> tuple[str, ...]:
        """Return those of both sets."""
        from .image_sources import read_source  # which reads these settings

        return tuple(part.fingerprint for part in read_source(self.data))
