"""What encoders trained by SimCLR's augmentations keep: table 1 of Rusak et al. 2024, and beyond.

`readout` has the table's rows on CIFAR10 and ImageNet, as settings, and the same objectives on data
that is here: coloured digits, whose class is the digit, and 3DIdent renders, which have no class
but factors. `content-style` has them on data with classes and factors, as Causal3DIdent is.
`augmentation-audit` reads what augmentations do to the factors themselves.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

from ..readout import latent_audit
from ..readout.image_sources import read_source
from ..readout.latent_readers import READERS, Audit, AuditSettings
from ..readout.linear_readout import FEATURES
from ..readout.readout_run import PIXELS, UNTRAINED, plan, run
from ..readout.readout_settings import ReadoutData, ReadoutSettings
from ..settings.experiment import Experiment, Published
from ..settings.run_settings import Loss, Model, Training

# The paper names architectures and epochs alone. The rest is SimCLR's (Chen et al. 2020, B.9 for
# CIFAR10): a projection to 128 numbers, temperature 0.5, jitter of half strength on CIFAR10.
SIMCLR = ReadoutSettings(
    data=ReadoutData(
        source="cifar10", folder="cifar10", strength=0.5, fitted=50_000, scored=10_000
    ),
    model=Model(dim=128, space="sphere", learnable=False, encoder="simclr-resnet18"),
    loss=Loss(similarity="dot", tau=0.5, symmetric=True, negatives="both"),
    training=Training(steps=97_000, batch=512, lr=1e-3, schedule="one-cycle", evaluations=100),
)
IMAGENET: dict[str, Any] = {
    **{"source": "photographs", "data": "imagenet", "side": 224, "strength": 1.0},
    **{"encoder": "simclr-resnet50", "batch": 1024, "steps": 125_000, "tau": 0.1},
    **{"fitted": 100_000, "scored": 50_000, "norm_rows": 256, "micro_batch": 256},
}
# A small net on small images. Temperature 0.2 was better than 0.5 on seed 100 of the digits, whose
# class is then read by 62 %, not 59 % (400 steps; untrained 58 %).
CPU: dict[str, Any] = {
    **{"encoder": "small-conv", "widths": (16, 32, 64, 128), "dim": 64},
    **{"steps": 600, "batch": 128, "lr": 3e-3, "evaluations": 10, "strength": 1.0, "tau": 0.2},
    **{"fitted": 2_000, "scored": 1_500},
}
METRIC = {"similarity": "metric"}
# name -> method, what it changes
OBJECTIVES: dict[str, tuple[str, dict[str, Any]]] = {
    "infonce": ("InfoNCE", {}),
    "temperature": ("InfoNCE, learned temperature", {"learnable": True}),
    "aninfonce": ("AnInfoNCE", METRIC),
    "unnormalised": ("AnInfoNCE, not normalised", METRIC | {"model_space": "unbounded"}),
    "untrained": ("Untrained", {"loss": UNTRAINED}),
    "pixels": ("Pixels", {"loss": PIXELS}),
}
COLUMNS = ("class", "grayscale", "brightness", "contrast", "hue", "saturation", "augmentations")
# data, objective, features -> percent by COLUMNS, the last of which is the augmentations' mean
PUBLISHED = {
    ("cifar10", "infonce", "backbone"): (90.9, 56.1, 59.3, 62.6, 55.4, 55.1, 57.7),
    ("cifar10", "infonce", "projected"): (89.8, 52.0, 52.0, 52.0, 51.8, 51.0, 51.8),
    ("cifar10", "aninfonce", "backbone"): (88.4, 80.1, 93.4, 91.1, 65.5, 72.3, 80.5),
    ("cifar10", "aninfonce", "projected"): (85.4, 71.4, 71.4, 77.1, 59.7, 65.5, 69.0),
    ("cifar10", "unnormalised", "backbone"): (83.2, 96.2, 98.0, 96.6, 76.8, 88.4, 91.2),
    ("cifar10", "unnormalised", "projected"): (79.1, 65.5, 65.5, 87.6, 70.5, 83.8, 74.6),
    ("imagenet", "infonce", "backbone"): (68.2, 98.7, 71.6, 72.5, 68.0, 61.2, 74.4),
    ("imagenet", "infonce", "projected"): (57.7, 58.6, 51.9, 51.9, 51.5, 51.1, 53.0),
    ("imagenet", "aninfonce", "backbone"): (59.0, 98.8, 81.5, 82.3, 71.6, 62.5, 79.3),
    ("imagenet", "aninfonce", "projected"): (26.7, 71.0, 55.2, 54.1, 52.6, 52.7, 57.1),
}
# id -> what its images are, their tier, what that changes
STUDIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "readout/cifar10": ("CIFAR10", "paper", {}),
    "readout/imagenet": ("ImageNet", "paper", IMAGENET),
    "readout/digits": ("5,000 digits in colours of their own", "cpu", CPU | {"source": "digits"}),
    "readout/3dident": (
        *("3DIdent renders, no class, factors", "cpu"),
        CPU | {"source": "split", "data": "3dident"},
    ),
    "content-style/causal3dident": (
        *("Causal3DIdent as imported: classes and factors", "paper"),
        {"source": "split", "data": "causal3dident", "side": 224, "strength": 1.0}
        | {"dim": 8, "batch": 512, "steps": 100_000, "tau": 1.0},
    ),
    "content-style/solids": (
        *("solids in Causal3DIdent's format: classes and factors", "cpu"),
        CPU | {"source": "split", "data": "solids"},
    ),
}
SAID = {
    "paper": "the papers tell architectures and epochs at most; batch, rate, temperature and "
    "strength are SimCLR's or ours, how views were made for a read-out is not told; never run here",
    "cpu": "a small net on images of 32 px",
}


def published(data: str, objective: str) -> Published:
    """Return the numbers of table 1 of Rusak et al. by score, as fractions of 1."""
    return {
        f"{name}_{kind}": (round(value / 100, 6), None)
        for kind in FEATURES
        for name, value in zip(COLUMNS, PUBLISHED.get((data, objective, kind), ()), strict=False)
    }


def _settings(changes: dict[str, Any], objective: dict[str, Any]) -> ReadoutSettings:
    """Return a study's settings under an objective; a metric starts where the temperature is.

    On a unit sphere x.y / tau and -L |x - y|^2 differ by a constant where L = 1 / (2 tau). The
    metric's learning rate is ten times the encoder's, as released.
    """
    settings = SIMCLR.with_(**changes | objective)
    if settings.loss.similarity != METRIC["similarity"]:
        return settings
    start, rate = 0.5 / settings.loss.tau, 10 * settings.training.lr
    return settings.with_(tau=1.0, metric_start=start, objective_lr=rate)


def check(settings: ReadoutSettings | AuditSettings) -> None:
    """Refuse data that is not there; a function of the module, as workers are sent it."""
    read_source(settings.data)


def _experiments() -> Iterator[Experiment]:
    for study, (words, tier, changes) in STUDIES.items():
        for objective, (method, its) in OBJECTIVES.items():
            numbers = published(study.rpartition("/")[2], objective)
            if tier == "paper" and study.startswith("readout/") and not numbers:
                continue  # not a row of the table
            yield Experiment(
                f"{study}/{objective}",
                f"{words} → SimCLR's augmentations, {method}",
                method,
                {tier: _settings(changes, its)},
                run,
                numbers,
                plan,
                check,
                notes={tier: SAID[tier]},
            )


# A reader needs places as well, so nothing is averaged over the image.
READER = AuditSettings(
    data=ReadoutData(source="split", folder="3dident"),
    model=Model(
        dim=10, space="unbounded", learnable=False, encoder="flat-conv", widths=(16, 32, 64, 128)
    ),
    loss=Loss(name="supervised"),
    training=Training(steps=1_500, batch=64, lr=3e-3, schedule="one-cycle", evaluations=10),
)


def _audits() -> Iterator[Experiment]:
    for reader, views in READERS.items():
        # As many images for both: a step of the hardened one has three views of each.
        steps = READER.training.steps // len(views)
        settings = dataclasses.replace(READER, audit=Audit(reader=reader)).with_(steps=steps)
        yield Experiment(
            f"augmentation-audit/{reader}",
            f"3DIdent renders, augmented, read by a supervised encoder: {reader}",
            "Supervised reader",
            {"cpu": settings},
            latent_audit.run,
            plan=plan,
            check=check,
            notes={"cpu": "supervised: the true latents are what it is told"},
        )


EXPERIMENTS = (*_experiments(), *_audits())
