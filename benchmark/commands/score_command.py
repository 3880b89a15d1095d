"""`ident3d benchmark score`: scores of representations made anywhere."""

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np

from ident3d.commands.options import echo, examples, json_option, table
from ident3d.dataset import Dataset, load
from ident3d.errors import DataError, choose

from ..results.embeddings import finite, read_embeddings
from ..results.records import image_record
from ..results.schema import read_json
from ..scoring.protocols import AS_RELEASED, HELD_OUT, OLD, PROTOCOLS, TODAY, scored_rows

_path = click.Path(path_type=Path)
_folder = click.Path(path_type=Path, file_okay=False)
_file = click.Path(path_type=Path, exists=True, dir_okay=False)
TRAINED = ".safetensors"  # how the files of trained encoders end


@click.command(
    epilog=examples(
        "ident3d benchmark score --data 3dident/test --embeddings mine.npy",
        "ident3d benchmark score --data 3dident/test --encoder my_module:encoder --out results",
        "ident3d benchmark score --data 3dident/test --encoder results/RUN.safetensors",
    )
)
@click.option("--data", type=_path, required=True, help="The split that was embedded.")
@click.option("--embeddings", type=_file, help="A .npy file (n, k), rows in the order of the data.")
@click.option(
    "--encoder",
    help="module:name of an encoder, or of a function that makes one; or the RUN.safetensors that "
    "`benchmark run` keeps.",
)
@click.option("--weights", type=_file, help="The encoder's weights, safetensors.")
@click.option(
    "--protocol",
    default=HELD_OUT,
    show_default=True,
    callback=lambda _, __, name: read_protocol(name),
    help=f"{' or '.join(TODAY)}.",
)
@click.option("--fingerprint", help="Of the data that was embedded; refused if it is another.")
@click.option("--method", help="Name on the leaderboard [default: the file or the encoder].")
@click.option("--experiment", default="table4/other", show_default=True)
@click.option("--tier", default="open", show_default=True, help="Size of the run, for the table.")
@click.option(
    "--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True,
    help="Tells runs of one method apart.",
)  # fmt: skip
@click.option("--out", type=_folder, help="Also write a result record and the embeddings here.")
@json_option
def score(
    data: Path,
    embeddings: Path | None,
    encoder: str | None,
    weights: Path | None,
    protocol: str,
    fingerprint: str | None,
    method: str | None,
    experiment: str,
    tier: str,
    seed: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """Score embeddings of a data set, or an encoder that is run over it first.

    Linear R2, MCC, kernel-ridge R2 and DCI against the factors that vary in the data.
    """
    if (embeddings is None) == (encoder is None):
        raise ValueError("Give one of `--embeddings` and `--encoder`.")
    if weights is not None and encoder is None:
        raise ValueError("`--weights` belong to an `--encoder`.")
    split = load(data)
    ordered = encoder is not None  # whether rows stand in the protocol's order, not in the data's
    if embeddings is not None:
        z_hat = read_embeddings(embeddings)
        recorded, scored_as = _recorded(embeddings)
        fingerprint = fingerprint or recorded
        ordered = scored_as == AS_RELEASED
        if ordered and protocol != AS_RELEASED:
            raise DataError(
                f"{embeddings} holds rows in the order of the protocol {AS_RELEASED}, as the "
                f"record beside it says; add --protocol {AS_RELEASED}."
            )
    if fingerprint and fingerprint != split.fingerprint:
        raise DataError(
            f"The embeddings are of data {fingerprint[:64]}, but {data} is {split.fingerprint}; "
            "embed this data, or name the one that was embedded (the whole fingerprint)."
        )
    if encoder is not None:
        z_hat = _run(encoder, weights, split, protocol)
    z_hat = check_embeddings(z_hat, split, protocol, ordered)
    result = image_record(
        split,
        z_hat,
        protocol=protocol,
        method=method or (embeddings.stem if embeddings else str(encoder)),
        experiment=experiment,
        tier=tier,
        seed=seed,
        # Files of weights differ between the seeds of a method; the command names them.
        settings={"encoder": None if str(encoder).endswith(TRAINED) else encoder},
        command=shlex.join(["ident3d", *sys.argv[1:]]),
    )
    echo(result.scores, score_table(result.scores), as_json)
    if out is not None:
        _refuse_to_replace(out / f"{result.id}.npy", z_hat)
        path = result.save(out, z_hat)
        click.echo(f"Wrote {path}.", err=as_json)


def read_protocol(name: str) -> str:
    """Return the protocol that a name means; says so if the name is an old one."""
    if name in OLD:
        click.echo(f"Protocol {name!r} is called {OLD[name]!r} now.", err=True)
    return choose({known: known for known in TODAY} | OLD, name, "protocol")


def check_embeddings(z_hat: np.ndarray, data: Dataset, protocol: str, ordered: bool) -> np.ndarray:
    """Return the embeddings of the rows that the protocol scores, or say what does not fit.

    They come for all images, in the data's order, or for the scored rows, in the protocol's:
    `ordered` tells which where both are as many.
    """
    wanted = scored_rows(protocol, len(data))
    if len(z_hat) == len(data) and not ordered:
        z_hat = z_hat[wanted]
    elif len(z_hat) != len(wanted):
        raise ValueError(
            f"`embeddings` must have a row for each of the {len(data):,} images, "
            f"got {len(z_hat):,}."
        )
    return finite(z_hat, "`embeddings`")


def score_table(scores: dict[str, Any]) -> str:
    """Lay out the scores: first the plain ones, then those of every factor."""
    tables = {name: value for name, value in scores.items() if isinstance(value, dict)}
    plain = [[name, _shown(value)] for name, value in scores.items() if name not in tables]
    names = next(iter(tables.values()))
    rows = [[name, *(_shown(values[name]) for values in tables.values())] for name in names]
    heads = [name.removesuffix("_per_factor") for name in tables]
    return "\n\n".join([table(plain, ["score", "value"]), table(rows, ["factor", *heads])])


def _run(spec: str, weights: Path | None, data: Dataset, protocol: str) -> np.ndarray:
    from ..encoders.trained import read_trained
    from ..scoring.embedding import embed, find_encoder

    if spec.endswith(TRAINED):
        if weights is not None:
            raise ValueError(f"`--weights` are for module:name; {spec} has its own.")
        trained = read_trained(Path(spec))
        height, width, channels = data.images.shape[1:]
        if trained.sample[1:] != (channels, height, width):
            raise ValueError(
                f"`--encoder` {spec} takes inputs of shape {trained.sample[1:]}; the images of "
                f"{data.path} are {(channels, height, width)}."
            )
        encoder: Callable[[Any], Any] = trained.encoder
    else:
        encoder = find_encoder(spec, weights)
    rows = scored_rows(protocol, len(data))
    return embed(encoder, data.images, rows=rows, train_mode=PROTOCOLS[protocol].train_mode)


def _refuse_to_replace(path: Path, z_hat: np.ndarray) -> None:
    """Scoring again is harmless; other embeddings under the same name would lose the old ones."""
    if path.exists() and not np.array_equal(read_embeddings(path), z_hat):
        raise DataError(
            f"{path} holds other embeddings; give another `--seed` or `--method`, or delete it."
        )


def _recorded(embeddings: Path) -> tuple[str | None, str | None]:
    """Read the data's fingerprint and the protocol from a record beside the embeddings, if any."""
    record = embeddings.with_suffix(".json")
    found = read_json(record) if record.is_file() else None
    found = found if isinstance(found, dict) else {}
    data = found.get("data")
    fingerprint = data.get("fingerprint") if isinstance(data, dict) else None
    protocol = found.get("protocol")
    return (
        fingerprint if isinstance(fingerprint, str) else None,
        protocol if isinstance(protocol, str) else None,
    )


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
