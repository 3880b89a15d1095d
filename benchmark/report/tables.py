"""From records to the rows of a leaderboard: seeds averaged, published numbers beside ours."""

import re
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ident3d.files import sha256
from ident3d.progress import duration

from ..results import Result
from ..scoring.scores import SCORES, SHOWN, describe

Numbers = Mapping[str, tuple[float, float | None]]  # score -> mean, std
Published = Callable[[str], Numbers]  # of an experiment's id, as fractions of 1


@dataclass(frozen=True)
class Row:
    """Runs that differ in their seed only."""

    results: tuple[Result, ...]
    title: str  # of the experiment
    published: Numbers
    note: str  # the settings that tell it from its siblings

    @property
    def first(self) -> Result:
        """The run with the lowest seed: speaks for what all seeds share."""
        return self.results[0]

    @property
    def number(self) -> str:
        """The experiment's name within its family."""
        return self.first.experiment.partition("/")[2] or self.first.experiment

    @property
    def anchor(self) -> str:
        """Its place on the method's page; made by us, so safe in a link."""
        return "run-" + self.first.id.rsplit("_", 1)[1]

    @property
    def page(self) -> str:
        """File name of the method's page; made by us."""
        return method_page(self.first.method, self.family)

    @property
    def family(self) -> str:
        """The family of its experiment, such as `table4`."""
        return family_of(self.first.experiment)

    @property
    def seconds(self) -> float | None:
        """Mean training time."""
        return mean_std([r.seconds for r in self.results])[0]

    def score(self, name: str) -> tuple[float | None, float | None]:
        """Mean and std over the seeds; the std of one seed is None."""
        values = [r.scores.get(name) for r in self.results]
        return mean_std([v for v in values if not isinstance(v, dict)])

    @property
    def score_names(self) -> list[str]:
        """Names of its plain scores, in the order of the table of scores."""
        names = {k for r in self.results for k, v in r.scores.items() if not isinstance(v, dict)}
        return [n for n in SCORES if n in names] + sorted(names - set(SCORES))


@dataclass(frozen=True)
class Table:
    """All rows of one family of experiments, such as `table4`."""

    family: str
    title: str
    scores: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def long_ids(self) -> bool:
        """Whether experiments have names, not numbers."""
        return any(len(row.number) > 4 for row in self.rows)


def build(
    results: Sequence[Result],
    published: Published = lambda experiment: {},
    title: Callable[[str], str] = lambda experiment: "",
) -> list[Table]:
    """Sort records into tables: experiments in their own order, the best score first in each."""
    groups: dict[tuple[str, ...], list[Result]] = defaultdict(list)
    for result in sorted(results, key=lambda r: r.seed):
        groups[result.group].append(result)
    notes = _notes([group[0] for group in groups.values()])
    families: dict[str, list[Row]] = defaultdict(list)
    for key, group in groups.items():
        experiment = group[0].experiment
        row = Row(tuple(group), title(experiment), published(experiment), notes[key])
        families[family_of(experiment)].append(row)
    tables = []
    for family in sorted(families, key=lambda name: (not name.startswith("table"), natural(name))):
        rows = families[family]
        present = {name for row in rows for name in row.score_names}
        stated = {name for row in rows for name in row.published}
        scores = tuple(name for name in SHOWN if name in present | stated)
        ordered = sorted(rows, key=lambda row: _order(row, scores))
        tables.append(Table(family, title(family), scores, tuple(ordered)))
    return tables


def mean_std(values: Sequence[float | None]) -> tuple[float | None, float | None]:
    """Mean and sample std of what was computed; None where there is too little for it."""
    known = [v for v in values if v is not None]
    mean = statistics.fmean(known) if known else None
    return mean, statistics.stdev(known) if len(known) > 1 else None


def natural(text: str) -> list[tuple[int, int | str]]:
    """Sort key that puts `table1/2` before `table1/10`."""
    parts = re.findall(r"[0-9]{1,9}|[^0-9]+|[0-9]+", text)
    return [(0, int(p)) if p.isascii() and p.isdigit() else (1, p) for p in parts]


def family_of(experiment: str) -> str:
    """Family of an experiment's id: what stands before the first slash."""
    return experiment.split("/")[0]


def method_page(method: str, family: str) -> str:
    """Name the file of a method's page: ours, whatever the method is called."""
    readable = re.sub(r"[^a-z0-9]+", "-", f"{family} {method}".lower()).strip("-")[:50] or "method"
    # No name holds a line break, so no two pairs give the same text.
    digest = sha256("\n".join((family, method)).encode())[:8]
    return f"{readable}-{digest}.html"


def show(score: str, value: float | None) -> str:
    """Write one value: percent with two digits, other numbers short."""
    if value is None:
        return "—"
    percent = describe(score).percent
    if abs(value) >= 1e4:  # a diverged run has R2 of any size
        return f"{value * 100 if percent else value:.1e}"
    return f"{value * 100:.2f}" if percent else f"{value:.4g}"


def show_pair(score: str, mean: float | None, std: float | None) -> str:
    """Write mean and, where there is one, std."""
    return show(score, mean) + (f" ± {show(score, std)}" if std is not None else "")


def show_time(seconds: float | None) -> str:
    """Write a training time, or that nobody measured it."""
    return "—" if seconds is None else duration(seconds)


def _order(row: Row, scores: Sequence[str]) -> tuple:
    first = row.first
    best = [-(row.score(name)[0] or 0.0) for name in scores]
    return (natural(first.experiment), first.tier, first.protocol, best, first.method)


def _notes(firsts: Sequence[Result]) -> dict[tuple[str, ...], str]:
    """Say how rows differ that would look the same: the settings that vary between them."""
    alike: dict[tuple[str, ...], list[Result]] = defaultdict(list)
    for result in firsts:
        alike[result.group[:4]].append(result)
    notes = {}
    for siblings in alike.values():
        settings = [r.settings or {} for r in siblings]
        keys = sorted({k for s in settings for k in s if k != "seed"})
        vary = [k for k in keys if len({repr(s.get(k)) for s in settings}) > 1]
        for result, found in zip(siblings, settings, strict=True):
            parts = [f"{k} {found.get(k)}"[:60] for k in vary[:3]]
            if len({(r.data or {}).get("fingerprint") for r in siblings}) > 1:
                data = result.data or {}
                parts.append(f"{data.get('name', '')} {data.get('fingerprint', '')[:8]}".strip())
            notes[result.group] = ", ".join(parts)
    return notes
