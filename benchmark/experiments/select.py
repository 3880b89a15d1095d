"""Every experiment of the benchmark, by id; what the papers say of it; and how to pick some."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from ident3d.errors import DataError, hint

from .. import methods
from ..sequences import table3
from ..settings.composed import Composed
from ..settings.experiment import Experiment
from ..settings.tiers import TIERS as SIZES
from ..settings.tiers import find_tier
from . import amount as amount_rows
from . import aninfonce as aninfonce_rows
from . import corners as corner_rows
from . import digits as digit_rows
from . import marginal as marginal_rows
from . import readouts as readout_rows
from . import self_negatives as negative_rows
from . import table4
from . import tables_1_2 as table_rows

TIERS = {name: tier.words for name, tier in SIZES.items()}
FAMILIES = {
    "table1": "Table 1: identifiability up to affine maps (R2), Zimmermann et al. 2021",
    "table2": "Table 2: identifiability up to permutations (MCC), Zimmermann et al. 2021",
    "table3": "Table 3: KITTI Masks (MCC), Zimmermann et al. 2021",
    "self-negatives": "Study: an anchor among its own negatives, as released, or not",
    "corners": "Study: rows 3 to 5 of table 2 by steps and batch",
    "marginal": "Figure: a marginal that is not uniform, Zimmermann et al. 2021",
    "aninfonce": "AnInfoNCE, Rusak et al. 2024",
    "digits": "AnInfoNCE where a VAE draws digits: figure 3 of Rusak et al. 2024",
    "readout": "Table 1 of Rusak et al. 2024: what augmentation and class are read off",
    "content-style": "Classes and factors of data that has both, by augmentations",
    "augmentation-audit": "Study: what SimCLR's augmentations do to known latents",
    "amount": "Study: how many images it takes to find ten factors, beside supervision",
    "table4": "Tables 4 and 5: 3DIdent, Zimmermann et al. 2021, and more rows on the same data",
}
ROWS = (
    *(table_rows, table3, negative_rows, corner_rows, marginal_rows, aninfonce_rows, digit_rows),
    *(readout_rows, amount_rows, table4),
)
EXPERIMENTS: dict[str, Experiment] = {
    experiment.id: experiment for rows in ROWS for experiment in rows.EXPERIMENTS
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
            outside.append(methods.experiment(name, EXPERIMENTS["table4/1"]))
            continue
        found = {e for e in EXPERIMENTS if fnmatchcase(e, name) or e.startswith(f"{name}/")}
        if not found:
            raise ValueError(
                f"`experiment` {name!r} is none of {', '.join(FAMILIES)} nor of their rows; "
                f"`ident3d benchmark list` shows all.{hint(EXPERIMENTS, name)}"
            )
        wanted |= found
    return [e for e in EXPERIMENTS.values() if e.id in wanted] + outside


def pick_tier(
    experiment: Experiment, name: str | None, changes: Mapping[str, str]
) -> tuple[str, Composed] | None:
    """Return the tier that a name means, and its settings; None if the experiment has no such.

    Without a name it is the smallest tier whose data is there. Hours on a GPU are never meant by
    saying nothing, so `paper` must be named.
    """
    if name is not None:
        tier = find_tier(experiment.tiers, name)
        return None if tier is None else (tier, experiment.tiers[tier].read(changes))
    reasons = {}
    for tier in (tier for tier in SIZES if tier in experiment.tiers and tier != "paper"):
        settings = experiment.tiers[tier].read(changes)
        try:
            if experiment.check is not None:
                experiment.check(settings)
            return tier, settings
        except (DataError, ValueError, OSError) as error:
            reasons[tier] = settings, str(error)
    if reasons:
        tier, (settings, reason) = next(iter(reasons.items()))
        raise DataError(experiment.lacks(tier, settings, reason))
    return None


def published(experiment: str) -> dict[str, tuple[float, float | None]]:
    """Return the published scores of an experiment's id: name -> (mean, std), fractions of 1."""
    known = EXPERIMENTS.get(experiment)
    return dict(known.published) if known else {}


def title(name: str) -> str:
    """Return the words for an experiment's id, or for a family; empty if unknown."""
    known = EXPERIMENTS.get(name)
    return known.title if known else FAMILIES.get(name, "")
