"""The leaderboard as Markdown tables, for a README."""

import re
from collections.abc import Sequence

from ..scoring import describe
from .tables import Row, Table, show_pair, show_time


def markdown(built: Sequence[Table]) -> str:
    """Write a table per family of experiments and tier; percent, mean ± std over seeds."""
    parts = []
    for table in built:
        columns = ["No.", "Method", "Setting", "Protocol"]
        for score in table.scores:
            label = describe(score).label
            columns += [label, *[f"{label} published, at full size"] * (score in table.published)]
        columns += ["Time", "Seeds"]
        lines = [columns, ["---"] * 4 + ["---:"] * (len(columns) - 4)]
        for row in table.rows:
            shown = [row, *row.controls] if row.leads else [row]
            lines += [_cells(each, table) for each in shown]
        body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        parts.append(f"### {escape(table.heading)}\n\n{body}\n")
    return "\n".join(parts)


def escape(text: str) -> str:
    """Make text plain in Markdown: no links, no HTML, no table cells of its own."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"([\\`*_\[\]|~$])", r"\\\1", text)
    return text.replace("://", "\\://").replace("www.", "www\\.")  # GitHub links bare addresses


def _cells(row: Row, table: Table) -> list[str]:
    first = row.first
    differs = f"not as published: {', '.join(row.differs)}" if row.differs else ""
    setting = "; ".join(part for part in (row.title, row.note, row.words, differs) if part)
    cells = [escape(part) for part in (first.experiment, first.method, setting, row.protocol)]
    if first.control:
        cells[1] = f"*{cells[1]}*"
    for score in table.scores:
        stands = row.above_chance(score)
        cells += [show_pair(score, *row.score(score)) + (f" ({stands})" if stands else "")]
        if score in table.published:
            cells += [show_pair(score, *row.published.get(score, (None, None)))]
    return [*cells, show_time(row.seconds), str(len(row.results))]
