"""Every experiment of the benchmark, by id; what the papers say of it; and how to pick some."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from ident3d.errors import hint

from .. import methods
from ..settings.experiment import Experiment
from . import aninfonce as aninfonce_rows
from . import marginal as marginal_rows
from . import table4
from . import tables_1_2 as table_rows

TIERS = {
    "paper": "The settings of the papers; hours on a GPU.",
    "cpu": "The same row made small enough for two cores: minutes.",
    "small": "Images of 64 px, a few thousand rendered pairs: for two cores, longer than tiny.",
    "tiny": "Images of 64 px, position alone, a thousand rendered pairs: a minute or two.",
}
FAMILIES = {
    "table1": "Table 1: identifiability up to affine maps (R2), Zimmermann et al. 2021",
    "table2": "Table 2: identifiability up to permutations (MCC), Zimmermann et al. 2021",
    "marginal": "Figure: a marginal that is not uniform, Zimmermann et al. 2021",
    "aninfonce": "AnInfoNCE, Rusak et al. 2024",
    "table4": "Tables 4 and 5: 3DIdent, Zimmermann et al. 2021, and more rows on the same data",
}
EXPERIMENTS: dict[str, Experiment] = {
    experiment.id: experiment
    for rows in (table_rows, marginal_rows, aninfonce_rows, table4)
    for experiment in rows.EXPERIMENTS
}


def select(names: Sequence[str]) -> list[Experiment]:
    """Return the experiments that ids or patterns name, in the order of the list.

    `table1/1` names that row and its baselines, `table1` the whole table, `*/supervised` a pattern,
    `module:Class` or an entry point a method from outside.
    """
    wanted: set[str] = set()
    outside: list[Experiment] = []
    for name in names:
        if name not in EXPERIMENTS and methods.is_method(name):
            outside.append(methods.experiment(name))
            continue
        found = {e for e in EXPERIMENTS if fnmatchcase(e, name) or e.startswith(f"{name}/")}
        if not found:
            raise ValueError(
                f"`experiment` {name!r} is none of {', '.join(FAMILIES)} nor of their rows; "
                f"`ident3d benchmark list` shows all.{hint(EXPERIMENTS, name)}"
            )
        wanted |= found
    return [e for e in EXPERIMENTS.values() if e.id in wanted] + outside


def published(experiment: str) -> dict[str, tuple[float, float | None]]:
    """Return the published scores of an experiment's id: name -> (mean, std), fractions of 1."""
    known = EXPERIMENTS.get(experiment)
    return dict(known.published) if known else {}


def title(name: str) -> str:
    """Return the words for an experiment's id, or for a family; empty if unknown."""
    known = EXPERIMENTS.get(name)
    return known.title if known else FAMILIES.get(name, "")
