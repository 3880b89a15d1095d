"""Tables 4 and 5 of Zimmermann et al. 2021 on 3DIdent, and rows of ours on the same data.

A row says what makes its pairs and what the model assumes; a tier says how large it is. Table 5 is
table 4 scored on training rows: its scores stand in the same records, as `r2_train`, `mcc_train`.
"""

from typing import Any

from ..data.images import Splits
from ..settings.experiment import Experiment
from ..settings.run_settings import ImageData, ImageSettings, Loss, Model, Training
from ..settings.tiers import TIERS, Images
from ..training.cost import plan
from ..training.image_run import run

# The settings of the paper: batch 512, Adam 1e-4, 200,000 steps, pairs looked up in 250,000 rows.
# Anchors and positives pass through batch-norm apart, 512 rows each, as released, where a pair's
# own anchor is among its negatives and sizes are learned as they are, not as logarithms.
PAPER = ImageSettings(
    data=ImageData(pairs="nearest"),
    model=Model(encoder="resnet18", size_as="raw"),
    loss=Loss(self_negative=True),
    training=Training(
        steps=200_000, batch=512, lr=1e-4, evaluations=100, norm_rows=512, micro_batch=512
    ),
)

# score -> published mean and standard deviation in percent: R2 and MCC on test rows, in table 5 on
# training rows
NAMES = ("r2", "mcc", "r2_train", "mcc_train")
Numbers = tuple[tuple[float, float] | None, ...]
# id, title, method, what it changes, published numbers in the order of NAMES
Row = tuple[str, str, str, dict[str, Any], Numbers]
NORMAL, LAPLACE = {"conditionals": "normal"}, {"conditionals": "laplace"}
UNBOUNDED = {"model_space": "unbounded"}
SPHERE = {"model_space": "sphere", "similarity": "dot"}
ROWS: tuple[Row, ...] = (
    (
        *("1", "normal → box, Normal", "InfoNCE", NORMAL),
        ((96.73, 0.10), (98.31, 0.04), (97.83, 0.13), (98.85, 0.07)),
    ),
    (
        *("2", "normal → unbounded, Normal", "InfoNCE", NORMAL | UNBOUNDED),
        ((96.43, 0.03), (54.94, 0.02), (97.72, 0.02), (55.90, 2.22)),
    ),
    (
        *("3", "laplace → box, Normal", "InfoNCE", LAPLACE),
        ((96.87, 0.08), (98.38, 0.03), (97.95, 0.05), (98.94, 0.03)),
    ),
    (
        *("4", "normal → sphere, vMF", "InfoNCE", NORMAL | SPHERE),
        ((65.74, 0.01), (42.44, 3.27), (66.73, 0.03), (42.72, 3.20)),
    ),
    (
        *("5", "SimCLR augmentations → sphere, vMF", "SimCLR"),
        NORMAL | SPHERE | {"pairs": "augmented"},
        ((45.51, 1.43), (46.34, 1.59)),
    ),
    (
        *("supervised", "latents → unbounded", "Supervised"),
        NORMAL | UNBOUNDED | {"loss": "supervised"},
        ((98.67, 0.03), (99.33, 0.01), (99.98, 0.01), (99.99, 0.01)),
    ),
    (
        *("identity", "all pixels, flattened", "Identity"),
        NORMAL | {"loss": "identity"},
        ((5.25, 1.20), None, (5.35, 0.72)),
    ),
    ("pixels", "the image averaged to 6 x 6", "Pixels", NORMAL | {"loss": "pixels"}, ()),
    ("random", "an untrained encoder", "Untrained", NORMAL | {"loss": "random"}, ()),
)
# A metric and a box that both scale would leave each other's size open, so the box is [0, 2]^d.
METRIC = {"similarity": "metric", "size": 2.0, "learnable": False, "objective_lr": 1e-2}
METRIC_NOTE = "the metric starts at the one computed from the true conditional's width"
BEYOND: tuple[Row, ...] = (
    ("pairs/nearest", "normal, looked up: nearest → box, Normal", "InfoNCE", NORMAL, ()),
    ("pairs/weighted", "normal, looked up: weighted → box, Normal", "InfoNCE", NORMAL, ()),
    ("aninfonce", "per-factor normal → box, learned metric", "AnInfoNCE", METRIC, ()),
    ("aninfonce/plain", "per-factor normal → box, Normal", "InfoNCE", {}, ()),
    (
        *("ensemble", "two processes → box, two learned metrics", "AnInfoNCE ensemble"),
        METRIC | {"loss": "ensemble"},
        (),
    ),
    (
        *("hard-negatives", "normal, hard negatives → box, Normal", "InfoNCE, hard negatives"),
        NORMAL | {"hard_count": 1},
        (),
    ),
)
# What the released code does in single rows: outputs for vMF are normalised and compared at tau 1,
# unbounded models have no scale, supervision sees anchors alone.
RELEASED: dict[str, dict[str, Any]] = {
    "2": {"learnable": False},
    "4": {"learnable": False},
    "5": {"learnable": False},
    "supervised": {"learnable": False, "anchors_only": True},
}
STEPS = "200,000 steps by the paper (the released code: 30,000 unless told); otherwise as released"
NOTES = {
    "2": f"{STEPS}: no scale",
    "4": f"{STEPS}: outputs normalised, tau 1, no learned radius",
    "5": f"{STEPS}: outputs normalised, tau 1, no learned radius",
    "supervised": f"{STEPS}: trained on anchors alone, no scale",
}


def _experiment(row: Row) -> Experiment:
    name, title, method, changes, published = row
    tiers = {
        tier: _settings(name, size.images, changes)
        for tier, size in TIERS.items()
        if size.images and (size.images.mixed or "conditionals" in changes)
    }
    scores = {
        name: (round(numbers[0] / 100, 6), round(numbers[1] / 100, 6))
        for name, numbers in zip(NAMES, published, strict=False)
        if numbers is not None
    }
    notes = {"paper": NOTES.get(name, STEPS)}
    if changes.get("similarity") == "metric":
        notes = dict.fromkeys(tiers, METRIC_NOTE) | {"paper": f"{STEPS}; {METRIC_NOTE}"}
    return Experiment(
        f"table4/{name}", title, method, tiers, run, scores, plan, Splits, notes=notes
    )


def _settings(name: str, tier: Images, changes: dict[str, Any]) -> ImageSettings:
    """Return a row's settings in a tier: its conditional at the tier's width."""
    base, changes = PAPER.with_(**tier.changes), dict(changes)
    if not tier.changes:
        changes |= RELEASED.get(name, {})
    normal, kind = f"normal:{tier.width}", changes.pop("conditionals", "mixed")
    conditionals = {"normal": normal, "laplace": f"laplace:{tier.width}", "mixed": tier.mixed}
    changes["conditionals"] = (conditionals[kind],)
    rendered = base.data.pairs == "exact" and not name.startswith("pairs/")
    if rendered and kind != "normal":
        changes["splits"] = (f"train-{kind}",)
    if name == "ensemble":
        changes["conditionals"] = (normal, tier.mixed)
        changes["splits"] = ("train", "train-mixed") if rendered else ("train", "train")
    if name.startswith("pairs/"):
        changes["pairs"] = name.removeprefix("pairs/")
    if changes.get("hard_count"):
        changes["hard"] = f"normal:{2 * tier.width:g}"
    if changes.get("loss") == "supervised":
        changes |= tier.supervised
    if changes.get("similarity") == "metric":
        changes["metric_start"] = 0.5 / tier.width**2
    return base.with_(**changes)


EXPERIMENTS = tuple(map(_experiment, (*ROWS, *BEYOND)))
