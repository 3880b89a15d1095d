"""Write the leaderboard: a static page per method, one index, and Markdown for a README.

Everything shown may come from strangers: Jinja2 escapes every string, drawings escape theirs,
file names are ours, and the pages' content security policy admits only our own script.
"""

import base64
import hashlib
import importlib.metadata
import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from . import plots, tables
from .data_section import Figure, audit_tables, read_figure
from .markdown import markdown
from .results import PROTOCOLS, Result
from .tables import Published, Row, Table

CURVES = ("loss", "r2", "mcc")  # drawn first, in this order; others follow


def write(
    results: Sequence[Result],
    out: str | Path,
    published: Published = lambda experiment: {},
    title: Callable[[str], str] = lambda experiment: "",
    figure: str | Path | None = None,
    audit: str | Path | None = None,
) -> Path:
    """Write `index.html`, `methods/*.html` and `leaderboard.md` into `out`; returns the index.

    Args:
        results: The records, as `load_all` gives them.
        out: Folder of the site; made if needed.
        published: Published numbers of an experiment's id, fractions of 1.
        title: Words for an experiment's id, or for its family.
        figure: PNG of the data set's traversals.
        audit: JSON of the data set's audit.
    """
    if not results:
        raise ValueError("`results` must hold at least one record, got none.")
    out = Path(out)
    (out / "methods").mkdir(parents=True, exist_ok=True)
    built = tables.build(results, published, title)
    picture = read_figure(Path(figure)) if figure else None
    if picture:
        _write(out / picture.name, picture.content)
    pages = _environment()
    for method, rows in _by_method(built).items():
        sections = [_section(row) for row in rows]
        page = pages.get_template("method.html").render(method=method, sections=sections)
        _write(out / "methods" / tables.method_page(method), page.encode())
    audits = audit_tables(Path(audit)) if audit else []
    index = pages.get_template("index.html").render(_index(built, results, picture, audits))
    _write(out / "leaderboard.md", markdown(built).encode())
    _write(out / "index.html", index.encode())  # last: it links to the rest
    return out / "index.html"


def _index(
    built: list[Table], results: Sequence[Result], figure: Figure | None, audit: list
) -> dict[str, Any]:
    rows = [row for table in built for row in table.rows]
    colours = {table.family: number for number, table in enumerate(built)}
    drawn = [(tables.label(s), plots.time_chart(rows, s, colours)) for s in ("r2", "mcc")]
    data_sets = {r.data["fingerprint"] for r in results if r.data}
    facts = [
        (len(results), "run" if len(results) == 1 else "runs"),
        (len({r.method for r in results}), "methods"),
        (len({r.experiment for r in results}), "experiments"),
        (len(data_sets), "data set" if len(data_sets) == 1 else "data sets"),
    ]
    return {
        "tables": built,
        "rows": rows,
        "colours": colours,
        "titles": {table.family: table.title or table.family for table in built},
        "charts": [(name, chart) for name, chart in drawn if chart],
        "facts": facts,
        "protocols": PROTOCOLS,
        "figure": figure,
        "audit": audit,
    }


def _section(row: Row) -> dict[str, Any]:
    """Everything the method's page shows of one row."""
    names = {name for r in row.results for name in (r.curves or {})} - {"step"}
    ordered = [n for n in CURVES if n in names] + sorted(names - set(CURVES))
    curves = [(name, plots.curve(row.results, name)) for name in ordered[:12]]
    matched = next((r for r in row.results if r.correlation), None)
    first = row.first
    facts = [
        ("Settings", _flat(first.settings)),
        ("Data set", _flat(first.data)),
        ("Environment", _flat(first.environment)),
    ]
    return {
        "row": row,
        "curves": [(name, plot) for name, plot in curves if plot],
        "predicted": plots.predicted(row),
        "factors": plots.per_factor(row),
        "correlation": plots.correlation(matched) if matched else None,
        "correlation_seed": matched.seed if matched else None,
        "metric": plots.metric(row.results),
        "commands": list(dict.fromkeys(r.command for r in row.results if r.command)),
        "tables": [(caption, items) for caption, items in facts if items],
    }


def _flat(table: dict[str, Any] | None, prefix: str = "") -> list[tuple[str, str]]:
    """Turn nested settings into lines of name and text."""
    lines = []
    for name, value in (table or {}).items():
        if isinstance(value, dict):
            lines += _flat(value, f"{prefix}{name}.")
        elif isinstance(value, list):
            lines.append((prefix + name, ", ".join(str(v) for v in value[:50])))
        else:
            lines.append((prefix + name, "—" if value is None else str(value)))
    return lines


def _by_method(built: Sequence[Table]) -> dict[str, list[Row]]:
    methods: dict[str, list[Row]] = defaultdict(list)
    for table in built:
        for row in table.rows:
            methods[row.first.method].append(row)
    return methods


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
        "version": importlib.metadata.version("ident3d"),
        "style": Markup(style),  # ours, not a stranger's
        "script": Markup(script),
        "style_digest": _digest(style),
        "script_digest": _digest(script),
        "show": tables.show,
        "show_time": tables.show_time,
        "label": tables.label,
        "is_percent": tables.is_percent,
        "bar": plots.bar,
    }
    return pages


def _digest(content: str) -> str:
    """What a content security policy calls this inline style or script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def _write(path: Path, content: bytes) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(content)
    os.replace(partial, path)
