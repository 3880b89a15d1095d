"""Write the leaderboard: a static page per method, one index, and Markdown for a README.

Everything shown may come from strangers: Jinja2 escapes every string, drawings escape theirs,
file names are ours, and the pages' content security policy admits only our own script.
"""

import base64
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ident3d import __version__
from ident3d.files import sha256, write_bytes

from ..results import Result
from ..scoring import PROTOCOLS
from ..scoring.scores import SCORES, SHOWN, describe
from . import plots, tables
from .data_section import Figure, audit_tables, flat, read_figure
from .markdown import markdown
from .tables import Differs, Published, Row, Table

CURVES = ("loss", "r2", "mcc")  # drawn first, in this order; others follow
MAX_PANELS = 12


def write(
    results: Sequence[Result],
    out: str | Path,
    published: Published = lambda experiment: {},
    title: Callable[[str], str] = lambda experiment: "",
    figure: str | Path | None = None,
    audit: str | Path | None = None,
    tiers: Mapping[str, str] = MappingProxyType({}),
    differs: Differs = lambda result: (),
) -> Path:
    """Write `index.html`, `methods/*.html` and `leaderboard.md` into `out`; returns the index.

    Args:
        results: The records, as `load_all` gives them.
        out: Folder of the site; made if needed.
        published: Published numbers of an experiment's id, fractions of 1.
        title: Words for an experiment's id, or for its family.
        figure: PNG of the data set's traversals.
        audit: JSON of the data set's audit.
        tiers: What each tier means, smallest first, explained on the page.
        differs: What keeps a record from being comparable with the published numbers, in words.
    """
    if not results:
        raise ValueError("`results` must hold at least one record, got none.")
    out = Path(out)
    (out / "methods").mkdir(parents=True, exist_ok=True)
    built = tables.build(results, published, title, differs, list(tiers))
    picture = read_figure(Path(figure)) if figure else None
    if picture:
        write_bytes(out / picture.name, picture.content)
    pages = _environment()
    for name, page in _method_pages(built, pages):
        write_bytes(out / "methods" / name, page.encode())
    audits = audit_tables(Path(audit)) if audit else []
    index = pages.get_template("index.html").render(_index(built, results, picture, audits, tiers))
    write_bytes(out / "leaderboard.md", markdown(built).encode())
    write_bytes(out / "index.html", index.encode())  # last: it links to the rest
    return out / "index.html"


def _index(
    built: list[Table],
    results: Sequence[Result],
    figure: Figure | None,
    audit: list,
    tiers: Mapping[str, str],
) -> dict[str, Any]:
    rows = [row for table in built for row in table.rows if not row.first.control]
    families = dict.fromkeys(table.family for table in built)
    colours = {family: number for number, family in enumerate(families)}
    ranked = [r for r in results if not r.control]
    stated = {name for r in results for name in r.scores}
    drawn = [(SCORES[s].label, plots.time_chart(rows, s, colours)) for s in SHOWN if SCORES[s].bar]
    used = {r.tier for r in results}
    protocols: dict[str, str] = {}  # by the names on the page: held-out has two in records
    for name in (n for n in PROTOCOLS if n in {r.protocol for r in results}):
        protocols.setdefault(PROTOCOLS[name].label, PROTOCOLS[name].words)
    data_sets = {r.data["fingerprint"] for r in results if r.data}
    counts = {
        "run": len(ranked),
        "method": len({r.method for r in ranked}),
        "experiment": len({r.experiment for r in results}),
        "data set": len(data_sets),
    }
    facts = [(count, what + "s" * (count > 1)) for what, count in counts.items() if count]
    return {
        "tables": built,
        "rows": rows,
        "colours": colours,
        "titles": {table.family: table.title or table.family for table in built},
        "charts": [(name, chart) for name, chart in drawn if chart],
        "facts": facts,
        "meanings": [(s.label, s.meaning) for n, s in SCORES.items() if s.meaning and n in stated],
        "words": tiers,
        "explained": [
            *((f"Protocol {name}", text) for name, text in protocols.items()),
            *((f"Tier {name}", text) for name, text in tiers.items() if name in used),
        ],
        "figure": figure,
        "audit": audit,
    }


def _section(row: Row) -> dict[str, Any]:
    """Everything the method's page shows of one row."""
    matched = next((r for r in row.results if r.correlation), None)
    first = row.first
    facts = [
        ("Settings", flat(first.settings or {})),
        ("Data set", flat(first.data or {})),
        ("Environment", flat(first.environment or {})),
    ]
    return {
        "row": row,
        "curves": _curves(row),
        "predicted": plots.predicted(row),
        "factors": plots.per_factor(row),
        "correlation": plots.correlation(matched) if matched else None,
        "correlation_seed": matched.seed if matched else None,
        "metric": plots.metric(row.results),
        "commands": list(dict.fromkeys(r.command for r in row.results if r.command)),
        "facts": [(caption, items) for caption, items in facts if items],
    }


def _curves(row: Row) -> list[tuple[str, Markup]]:
    """Draw a panel per quantity; numbered ones, such as `metric_0`, `metric_1`, share a panel."""
    names = {name for r in row.results for name in (r.curves or {})} - {"step"}
    families = defaultdict(list)
    for name in sorted(names, key=tables.natural):
        if found := re.fullmatch(r"(.*)_\d+", name):
            families[found[1]].append(name)
    single = names - {name for family in families.values() for name in family}
    ordered = [n for n in CURVES if n in single] + sorted(single - set(CURVES))
    drawn = [
        (describe(name).label, plots.curve(row.results, name)) for name in ordered[:MAX_PANELS]
    ]
    for family, members in sorted(families.items())[:MAX_PANELS]:
        run = next(r for r in row.results if members[0] in (r.curves or {}))
        caption = f"{describe(family).label}, seed {run.seed}"
        drawn.append((caption, plots.curve_family(run, members, family)))
    return [(caption, plot) for caption, plot in drawn if plot]


def _method_pages(built: Sequence[Table], pages: Environment) -> Iterator[tuple[str, str]]:
    """Render a page for each method of each table, with links to its pages for other tables."""
    groups: dict[str, dict[str, list[Row]]] = defaultdict(dict)  # method -> family -> rows
    for table in built:
        for row in table.rows:
            if not row.first.control:
                groups[row.first.method].setdefault(table.family, []).append(row)
    titles = {table.family: table.title or table.family for table in built}
    template = pages.get_template("method.html")
    for method, families in groups.items():
        links = [(titles[family], rows[0].page) for family, rows in families.items()]
        for family, rows in families.items():
            others = [link for link in links if link[1] != rows[0].page]
            sections = [_section(row) for row in rows]
            yield (
                rows[0].page,
                template.render(
                    method=method, family=titles[family], others=others, sections=sections
                ),
            )


def _environment() -> Environment:
    folder = Path(str(files("ident3d.assets"))) / "page"
    style, script = ((folder / name).read_text("utf-8") for name in ("style.css", "script.js"))
    pages = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.globals |= {
        "version": __version__,
        "style": Markup(style),  # ours, not a stranger's
        "script": Markup(script),
        "style_digest": _digest(style),
        "script_digest": _digest(script),
        "show": tables.show,
        "show_pair": tables.show_pair,
        "show_time": tables.show_time,
        "describe": describe,
        "bar": plots.bar,
    }
    return pages


def _digest(content: str) -> str:
    """What a content security policy calls this inline style or script."""
    return "sha256-" + base64.b64encode(bytes.fromhex(sha256(content.encode()))).decode()
