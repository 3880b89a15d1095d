"""What differs between a run and the published one, in words, from the settings of both."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from ..encoders.baselines import BASELINES
from ..settings.run_settings import ImageData, Loss, Model, SyntheticData, Training

Settings = Mapping[str, Any]  # flat, as records keep them
PUBLISHED_PIXELS = 224

# setting -> words for another value than the paper's, in the order in which they are said; any
# other setting is said after them, by its name, unless it cannot matter to a score
WORDS = {
    "dim": "N = {ours}, not {theirs}",
    "encoder": "{ours} encoder, not {theirs}",
    "widths": "hidden widths {ours}, not {theirs}",
    "batch": "batch {ours}, not {theirs}",
    "steps": "{ours} steps, not {theirs}",
    "wide_steps": "{ours} steps with many outputs before them",
    "whiten": "outputs whitened",
    "beyond": "further outputs in training, for what the model's own do not tell",
    "pairs": "{ours} pairs, not {theirs}",
    "conditionals": "conditional {ours}, not {theirs}",
    "learnable": "size of the model's space learned: {ours}, not {theirs}",
    "size": "another start of the size of the model's space",
    "self_negative": "self-negatives: {ours}, not {theirs}",
    "model_space": "{ours} as the model's space, not {theirs}",
    "similarity": "model conditional {ours}, not {theirs}",
    "marginal": "marginal {ours}, not {theirs}",
    "space": "latents on {ours}, not {theirs}",
    "lr": "learning rate {ours}, not {theirs}",
    "schedule": "schedule {ours}, not {theirs}",
    "precision": "precision {ours}, not {theirs}",
    "tau": "tau {ours}, not {theirs}",
    "negatives": "negatives among {ours}, not {theirs}",
    "symmetric": "symmetric loss: {ours}, not {theirs}",
    "anchors_only": "anchors alone supervised: {ours}, not {theirs}",
    "objective_lr": "learning rate of the loss {ours}, not {theirs}",
    "size_as": "size learned as {ours}, not {theirs}",
    "metric_start": "metric from {ours}, not {theirs}",
    "norm_rows": "batch statistics of {ours} rows, not of {theirs}",
    "splits": "trained on {ours}, not {theirs}",
    "test": "scored on {ours}, not {theirs}",
}
SILENT = {
    # where the data lies (the record's own data tells copies apart) and where it is computed
    *("data", "fingerprints", "source", "device", "compile", "micro_batch", "checkpoint_seconds"),
    *("evaluations", "watched", "train_rows"),  # what is looked at beside
}
# Records leave them out where they are off.
OFF = {
    field.metadata.get("flat", field.name): field.default
    for part in (SyntheticData, ImageData, Model, Loss, Training)
    for field in fields(part)
    if field.metadata.get("added")
}
UNTAUGHT = ("dim", "marginal", "space", "test")  # all that matters where nothing is trained,
AS_BUILT = (*UNTAUGHT, "encoder", "widths")  # and where an encoder is taken as it is built
# not said of what differs as a whole
FOLLOWS = {
    "widths": "encoder",
    "size": "learnable",
    "wide_lr": "wide_steps",
    "size_as": "learnable",
}


def differences(ours: Settings, paper: Settings, data: Settings | None = None) -> list[str]:
    """Say what keeps a run from being comparable with the published one; empty if nothing does.

    Settings are those of the run's record, and of the same row in the `paper` tier; `data` is what
    the record says of its data set, None if synthetic.
    """
    if "steps" not in ours:
        return ["its settings are not stated"]
    return list(_differences(OFF | dict(ours), OFF | dict(paper), data or {}))


def _differences(ours: Settings, paper: Settings, data: Settings) -> Iterator[str]:
    images = "pairs" in paper
    said = (*WORDS, *sorted(set(paper) - set(WORDS) - SILENT))
    if str(ours.get("loss")) in BASELINES:
        said = AS_BUILT if ours["loss"] == "random" else UNTAUGHT
    # A setting that is newer than a record is not in it: nothing can be said of it.
    differ = [name for name in said if name in ours and name in paper and ours[name] != paper[name]]
    for name in differ:
        if FOLLOWS.get(name) not in differ:
            words = WORDS.get(name, name.replace("_", " ") + " {ours}, not {theirs}")
            if images and name == "dim":
                words = "{ours} of {theirs} factors"
            yield words.format(ours=_short(ours[name]), theirs=_short(paper[name]))
    if made_by := data.get("made_by"):
        yield f"data of our own making ({_short(made_by)})"
    if (
        images
        and paper["pairs"] != "time"
        and data.get("resolution", PUBLISHED_PIXELS) != PUBLISHED_PIXELS
    ):
        yield f"{_short(data['resolution'])} px, not {PUBLISHED_PIXELS}"


def _short(value: Any) -> str:
    """Write a setting, ours or a stranger's, in a few characters."""
    text = " and ".join(map(str, value)) if isinstance(value, list) else str(value)
    if isinstance(value, bool):
        text = "yes" if value else "no"
    elif isinstance(value, int):
        text = f"{value:,}"
    elif isinstance(value, float):
        text = f"{value:g}"
    elif value is None:
        text = "none"
    return text if len(text) <= 60 else f"{text[:57]}..."
