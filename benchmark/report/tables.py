"""From records to the rows of a leaderboard: seeds averaged, published numbers beside ours."""

import re
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ident3d.files import sha256
from ident3d.progress import duration

from ..results import Result
from ..scoring import AS_RELEASED, PROTOCOLS
from ..scoring.chance import TABLE, block_chance
from ..scoring.controls import METHODS
from ..scoring.scores import SCORES, describe

Numbers = Mapping[str, tuple[float, float | None]]  # score -> mean, std
Published = Callable[[str], Numbers]  # of an experiment's id, as fractions of 1
Differs = Callable[[Result], Sequence[str]]  # from the published run, in words


@dataclass(frozen=True)
class Row:
    """Runs that differ in their seed only."""

    results: tuple[Result, ...]
    title: str = ""  # of the experiment
    published: Numbers = field(default_factory=dict)
    note: str = ""  # the settings that tell it from its siblings
    differs: tuple[str, ...] = ()  # what keeps it from being comparable with what is published
    controls: tuple["Row", ...] = ()
    leads: bool = True  # the first of its table with these controls

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

    @property
    def protocol(self) -> str:
        """Its protocol's name for people."""
        return PROTOCOLS[self.first.protocol].label

    @property
    def words(self) -> str:
        """What a control does, as its record says."""
        stated = (self.first.settings or {}).get("control")
        if not isinstance(stated, dict):
            return ""
        ordered = sorted(stated, key=lambda name: name != "words")  # whatever order it was kept in
        return "; ".join(str(stated[name]) for name in ordered)

    def chance(self, score: str) -> tuple[float, float] | None:
        """Mean and 95th percentile of a score under random rotations; None if not known."""
        known, correlation = self.first.factors, self.first.correlation or ()
        if known and correlation and len(correlation[0]) > len(known):
            return None  # of more dimensions than factors the best are picked
        if score == "mcc_block":
            return block_chance(self.first.settings or {})
        # Without the matrix nobody knows how many dimensions it was: a record keeps none of many.
        return TABLE.get(len(known or correlation)) if score == "mcc" and correlation else None

    def above_chance(self, score: str) -> str:
        """Say where a score stands between chance and one; empty if that is not known."""
        mean, chance = self.score(score)[0], self.chance(score)
        if mean is None or chance is None:
            return ""
        if mean <= chance[0]:
            return "at or below chance"
        return f"{(mean - chance[0]) / (1 - chance[0]):.2f} of the way from chance to 1"

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
    """All rows of one family of experiments, such as `table4`, in one tier."""

    family: str
    tier: str
    title: str
    scores: tuple[str, ...]
    published: frozenset[str]  # scores that some row has a published number for
    rows: tuple[Row, ...]

    @property
    def heading(self) -> str:
        """Its title and its tier."""
        return f"{self.title or self.family} · {self.tier}"

    @property
    def columns(self) -> int:
        """How many columns it has: number, method, protocol, scores, time and seeds."""
        return 5 + len(self.scores) + sum(name in self.published for name in self.scores)

    @property
    def long_ids(self) -> bool:
        """Whether experiments have names, not numbers."""
        return any(len(row.number) > 4 for row in self.rows)


def build(
    results: Sequence[Result],
    published: Published = lambda experiment: {},
    title: Callable[[str], str] = lambda experiment: "",
    differs: Differs = lambda result: (),
    tiers: Sequence[str] = (),
) -> list[Table]:
    """Sort records into tables: experiments in their own order, the best score first in each.

    Controls stand with the rows that share their data, and are never ranked; those without such a
    row stand alone, last. `tiers` are named smallest first; the largest comes first.
    """
    groups: dict[tuple[str, ...], list[Result]] = defaultdict(list)
    for result in sorted(results, key=lambda r: r.seed):
        groups[result.group].append(result)
    controls = [Row(tuple(group)) for group in groups.values() if group[0].control]
    controls.sort(key=lambda row: (natural(row.first.experiment), _rank(row.first.method)))
    runs = {key: group for key, group in groups.items() if not group[0].control}
    notes = _notes([group[0] for group in runs.values()])
    parts: dict[tuple[str, str], list[Row]] = defaultdict(list)
    used: set[int] = set()
    for key, group in runs.items():
        first = group[0]
        beside = _controls_of(first, controls)
        used |= {id(row) for row in beside}
        numbers = published(first.experiment)
        words = tuple(differs(first)) if numbers else ()
        row = Row(tuple(group), title(first.experiment), numbers, notes[key], words, beside)
        parts[family_of(first.experiment), first.tier].append(row)
    for row in controls:
        if id(row) not in used:
            alone = replace(row, title=title(row.first.experiment))
            parts[row.family, row.first.tier].append(alone)
    return [_table(*key, parts[key], title) for key in sorted(parts, key=_place(tiers))]


def _table(family: str, tier: str, rows: Sequence[Row], title: Callable[[str], str]) -> Table:
    present = {name for row in rows for name in row.score_names}
    stated = frozenset(name for row in rows for name in row.published)
    ranks = "mcc_spearman" in stated
    columns = [name for name, known in SCORES.items() if known.shown or (ranks and known.beside)]
    scores = tuple(name for name in columns if name in present | stated)
    ordered, seen = [], set()
    for row in sorted(rows, key=lambda row: _order(row, scores)):
        beside = tuple(id(control) for control in row.controls)
        ordered.append(replace(row, leads=beside not in seen))
        seen.add(beside)
    return Table(family, tier, title(family), scores, stated, tuple(ordered))


def _place(tiers: Sequence[str]) -> Callable[[tuple[str, str]], tuple]:
    size = {tier: -number for number, tier in enumerate(tiers)}

    def key(part: tuple[str, str]) -> tuple:
        family, tier = part
        return (not family.startswith("table"), natural(family), size.get(tier, 1), natural(tier))

    return key


def _controls_of(first: Result, controls: Sequence[Row]) -> tuple[Row, ...]:
    """Return the controls on the same data: of the experiment, of its parent, or of its family.

    `table1/1/supervised` has those of `table1/1`. Images are the same if their fingerprint is;
    synthetic data if tier and number of factors are.
    """
    names = first.experiment.split("/")
    parents = ["/".join(names[:count]) for count in range(len(names), 0, -1)]
    alike = [row for row in controls if _same_data(first, row.first)]
    for parent in parents:
        if found := tuple(row for row in alike if row.first.experiment == parent):
            return found
    family = [row for row in alike if first.data and row.family == parents[-1]]
    return tuple(row for row in family if row.first.experiment == family[0].first.experiment)


def _same_data(run: Result, control: Result) -> bool:
    if PROTOCOLS[run.protocol].label != PROTOCOLS[control.protocol].label:
        return False
    if run.data is not None or control.data is not None:
        one, two = run.data or {}, control.data or {}
        return one.get("fingerprint") == two.get("fingerprint")
    dims = [(result.settings or {}).get("dim") for result in (run, control)]
    return run.tier == control.tier and dims[0] == dims[1]


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


def show(score: str, value: float | dict | None) -> str:
    """Write one value: percent with two digits, other numbers short.

    A score of somebody's own may be a number in one seed and a table in another: no value.
    """
    if value is None or isinstance(value, dict):
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
    best: list[Any] = [-(row.score(name)[0] or 0.0) for name in scores]
    if first.control:
        best = [_rank(first.method)]
    place = (first.control, natural(first.experiment), first.protocol == AS_RELEASED)
    return (*place, first.protocol, best, first.method)


def _rank(control: str) -> tuple[int, str]:
    """Sort key of controls: their own order, those of others after them."""
    return (METHODS.index(control) if control in METHODS else len(METHODS), control)


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
