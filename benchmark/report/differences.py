"""What differs between a run and the published one, in words, from the settings of both."""

from collections.abc import Iterator, Mapping
from typing import Any

Settings = Mapping[str, Any]  # flat, as records keep them
PUBLISHED_PIXELS = 224

# setting -> words for another value than the paper's; {ours} and {theirs} are filled in
WORDS = {
    "model_space": "{ours} as the model's space, not {theirs}",
    "similarity": "model conditional {ours}, not {theirs}",
    "marginal": "marginal {ours}, not {theirs}",
    "space": "latents on {ours}, not {theirs}",
    "lr": "learning rate {ours}, not {theirs}",
    "schedule": "schedule {ours}, not {theirs}",
    "tau": "tau {ours}, not {theirs}",
    "negatives": "negatives among {ours}, not {theirs}",
}


def differences(ours: Settings, paper: Settings, data: Settings | None = None) -> list[str]:
    """Say what keeps a run from being comparable with the published one; empty if nothing does.

    Args:
        ours: Settings of the run, as its record keeps them.
        paper: Settings of the same row in the `paper` tier.
        data: What the record says of its data set; None: synthetic.
    """
    if "steps" not in ours:
        return ["its settings are not stated"]
    return list(_differences(ours, paper, data or {}))


def _differences(ours: Settings, paper: Settings, data: Settings) -> Iterator[str]:
    def other(name: str) -> bool:
        # A setting that is newer than a record is not in it: nothing can be said of it.
        return name in ours and name in paper and ours[name] != paper[name]

    images = "pairs" in paper
    if other("dim"):
        dim = _short(ours["dim"])
        yield f"{dim} of {paper['dim']} factors" if images else f"N = {dim}, not {paper['dim']}"
    if images and data.get("resolution", PUBLISHED_PIXELS) != PUBLISHED_PIXELS:
        yield f"{_short(data['resolution'])} px, not {PUBLISHED_PIXELS}"
    if other("encoder"):
        yield f"{_short(ours['encoder'])} encoder, not {paper['encoder']}"
    elif other("widths"):
        yield f"hidden widths {_short(ours['widths'])}, not {_short(paper['widths'])}"
    if other("batch"):
        yield f"batch {_short(ours['batch'])}, not {_short(paper['batch'])}"
    if other("steps"):
        yield f"{_short(ours['steps'])} steps, not {_short(paper['steps'])}"
    if other("pairs"):
        yield f"{_short(ours['pairs'])} pairs, not {paper['pairs']}"
    if other("conditionals"):
        yield f"conditional {_short(ours['conditionals'])}, not {_short(paper['conditionals'])}"
    if other("learnable"):
        yield f"size of the model's space {'learned' if ours['learnable'] else 'fixed'}"
    elif other("size"):
        yield "another start of the size of the model's space"
    if ours.get("self_negative", False) != paper.get("self_negative", False):
        yield f"{'with' if ours.get('self_negative') else 'without'} self-negatives"
    for name, words in WORDS.items():
        if other(name):
            yield words.format(ours=_short(ours[name]), theirs=_short(paper[name]))


def _short(value: Any) -> str:
    """Write a setting, ours or a stranger's, in a few characters."""
    text = " and ".join(map(str, value)) if isinstance(value, list) else str(value)
    if isinstance(value, int) and not isinstance(value, bool):
        text = f"{value:,}"
    return text if len(text) <= 60 else f"{text[:57]}..."
