"""Every loss of the benchmark."""

from .functions import (
    LOSSES,
    Dot,
    Importance,
    Lp,
    Metric,
    alignment_uniformity,
    ensemble,
    infonce,
    spectral,
    supervised,
    tricl,
)

__all__ = [
    "LOSSES",
    "Dot",
    "Importance",
    "Lp",
    "Metric",
    "alignment_uniformity",
    "ensemble",
    "infonce",
    "spectral",
    "supervised",
    "tricl",
]
