"""The leaderboard as Markdown tables, for a README."""

import re
from collections.abc import Sequence

from ..scoring import describe
from .tables import Row, Table, show_pair, show_time


def markdown(built: Sequence[Table]) -> str:
    """Write one table per family of experiments; scores in percent, mean ± std over seeds."""
    parts = []
    for table in built:
        heading = escape(table.title or table.family)
        columns = ["No.", "Method", "Setting", "Tier", "Protocol"]
        for label in (describe(score).label for score in table.scores):
            columns += [label, f"paper {label}"]
        columns += ["Time", "Seeds"]
        lines = [columns, ["---"] * 5 + ["---:"] * (len(columns) - 5)]
        lines += [_cells(row, table.scores) for row in table.rows]
        body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        parts.append(f"### {heading}\n\n{body}\n")
    return "\n".join(parts)


def escape(text: str) -> str:
    """Make text plain in Markdown: no links, no HTML, no table cells of its own."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"([\\`*_\[\]|~$])", r"\\\1", text)
    return text.replace("://", "\\://").replace("www.", "www\\.")  # GitHub links bare addresses


def _cells(row: Row, scores: Sequence[str]) -> list[str]:
    first = row.first
    setting = "; ".join(part for part in (row.title, row.note) if part)
    stated = (first.experiment, first.method, setting, first.tier, first.protocol)
    cells = [escape(part) for part in stated]
    for score in scores:
        cells += [show_pair(score, *row.score(score))]
        cells += [show_pair(score, *row.published.get(score, (None, None)))]
    return [*cells, show_time(row.seconds), str(len(row.results))]
