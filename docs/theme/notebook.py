"""Notebooks without Jupyter: run one, and write it as a Markdown page.

    python docs/theme/notebook.py docs/notebook.ipynb     # runs it, and keeps what it shows

A notebook is JSON; running its cells in one namespace and keeping what the last expression of each
shows takes the forty lines below, and saves the tests Jupyter's twenty packages.
"""

import ast
import base64
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

Notebook = dict[str, Any]


def run(notebook: Notebook) -> Notebook:
    """Run every cell, in order, in one namespace; return the notebook with its outputs."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells, count = [], 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            count += 1
            outputs = _run_cell("".join(cell["source"]), names, count)
            cell = {**cell, "outputs": outputs, "execution_count": count}
        cells.append(cell)
    return {**notebook, "cells": cells}


def _run_cell(source: str, names: dict[str, Any], count: int) -> list[dict[str, Any]]:
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"cell {count}", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {count}", "eval"), names)
    outputs = []
    if printed.getvalue():
        text = printed.getvalue().splitlines(True)
        outputs.append({"output_type": "stream", "name": "stdout", "text": text})
    if value is not None:
        shown = {"output_type": "execute_result", "execution_count": count, "metadata": {}}
        outputs.append({**shown, "data": _shown(value)})
    return outputs


def _shown(value: Any) -> dict[str, Any]:
    """Show a value as Jupyter does, by the methods that the value brings."""
    data: dict[str, Any] = {"text/plain": repr(value).splitlines(True)}
    if hasattr(value, "_repr_html_"):
        data["text/html"] = value._repr_html_().splitlines(True)
    if hasattr(value, "_repr_png_"):
        data["image/png"] = base64.b64encode(value._repr_png_()).decode()
        data["text/plain"] = [f"<{type(value).__name__}>"]  # its repr holds an address
    return data


def to_markdown(notebook: Notebook) -> str:
    """Write cells and outputs as a page."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        parts += [_output(output) for output in cell.get("outputs", ())]
    return "\n\n".join(parts) + "\n"


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {"text/plain": output.get("text", "")})
    if "image/png" in data:
        return f'<img alt="What the cell shows" src="data:image/png;base64,{data["image/png"]}">'
    if "text/html" in data:
        return f"<div>{''.join(data['text/html'])}</div>"
    return f"```text\n{''.join(data['text/plain']).rstrip()}\n```"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = Path(name)
        finished = run(json.loads(path.read_text()))
        path.write_text(json.dumps(finished, indent=1, ensure_ascii=False) + "\n")
