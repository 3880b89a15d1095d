"""`ident3d index PATH`: build the look-up index and print its certificate."""

import itertools
import time
from pathlib import Path
from typing import Any

import click

from ..dataset import load
from ..factors import columns
from ..index import DEVICES, RECALL, Index
from .options import echo, examples, json_option


@click.command(
    epilog=examples(
        "ident3d index 3dident/train",
        "ident3d index 3dident/train --factors position --recall 0.9999",
    )
)
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--recall", default=RECALL, show_default=True, help="Recall@1 to reach.")
@click.option("--factors", help="Only these factors or groups, as in `position,object_hue`.")
@click.option(
    "--device", type=click.Choice(list(DEVICES)), default="cpu", show_default=True,
    help="Where to try a search once the index is built.",
)  # fmt: skip
@json_option
def index(path: Path, recall: float, factors: str | None, device: str, as_json: bool) -> None:
    """Build the IVF-HNSW index of a data set, save it beside the data, print its certificate."""
    data = load(path)
    weights = None
    if factors is not None:
        chosen = columns(factors, data.factors)
        weights = [float(column in chosen) for column in range(len(data.factors))]
    start = time.perf_counter()
    built = Index.build(data.latents, weights, data.classes, recall=recall)
    seconds = time.perf_counter() - start
    built.to(device)
    record = {
        "path": str(built.save(data.path, data.fingerprint)),
        "fingerprint": data.fingerprint,
        "factors": [f.name for f in itertools.compress(data.factors, built.weights)],
        "seconds": seconds,
        **built.summary(),
    }
    echo(record, _text(record), as_json)


def _text(record: dict[str, Any]) -> str:
    certificate = record["certificate"]
    lines = [
        f"{record['path']}: {record['rows']:,} rows, {', '.join(record['factors'])}",
        *_parts(record["parts"]),
        f"recall@1    {certificate['recall']:.4f} against exact search, on "
        f"{certificate['queries']:,} queries (target {certificate['target']:g})",
        f"speed       {certificate['per_second']:,.0f} queries per second",
        f"distances   median {certificate['distance_median']:.3f}, "
        f"95 % below {certificate['distance_95']:.3f}",
        f"built in    {record['seconds']:.1f} s",
    ]
    if certificate["recall"] < certificate["target"]:
        lines.append("The target was not reached; it is the best these settings do.")
    return "\n".join(lines)


def _parts(parts: list[dict[str, Any]]) -> list[str]:
    """One line for the whole set, or one for each class."""
    lines = []
    for part in parts:
        name = "search    " if len(parts) == 1 else f"class {part['class']:<4}"
        if part["kind"] == "exact":
            text = f"exact search: {part['rows']:,} rows are too few to need an index"
        else:
            text = (
                f"IVF-HNSW over {part['rows']:,} rows: {part['lists']} lists of {part['codes']}, "
                f"nprobe {part['probes']}, efSearch {part['ef_search']}, "
                f"{part['candidates']} candidates"
            )
        lines.append(f"{name}  {text}")
    return lines
