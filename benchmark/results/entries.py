"""Entries to the leaderboard: packed into one folder, read back with care.

    ENTRY/entry.json              the records, the embeddings' digests, and a seal over both
    ENTRY/embeddings-s<seed>.npy  embeddings of the scored rows, float32 or float64 (n, k)
    ENTRY/encoder-s<seed>.safetensors  the trained encoder, if it is packed, too

An entry comes from a stranger: nothing in it is executed, sizes are limited, file names are made
here from the seeds, links are refused.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct

from ident3d.errors import DataError
from ident3d.files import atomic_folder, canonical_sha256, file_digest, write_bytes

from ..scoring import PROVABLE
from .embeddings import read_embeddings, save_embeddings
from .result import MAX_DIM, Result, load
from .schema import read_json, stated

MAX_EMBEDDINGS = 600_000_000  # bytes of one file: 250,000 rows of 256 doubles fit
Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class Entry(
    Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="ident3d-entry",
):
    """What `entry.json` holds: runs that differ in their seed, each seed's embeddings, a seal."""

    records: Annotated[list[Result], Meta(min_length=1, max_length=100)]
    embeddings: Annotated[dict[str, Digest], Meta(max_length=100)]  # seed -> digest of its file
    encoders: Annotated[dict[str, Digest], Meta(max_length=100)] = {}  # the same, if there are any
    seal: str = ""
    version: Literal[1] = 1


def pack(records: Sequence[str | Path], out: str | Path, encoders: bool = False) -> Path:
    """Make an entry folder from record files that lie beside their embeddings.

    The records must be of one method and setting, one per seed. Scores that embeddings alone
    cannot prove are left out. `encoders` packs the trained encoders that lie beside them, too.
    """
    out, paths = Path(out), [Path(path) for path in records]
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"`out` must be a new or empty folder, got {str(out)!r}.")
    results = [load(path) for path in paths]
    _check_together(results, "`records`")
    arrays = [submitted(path.with_suffix(".npy")) for path in paths]
    networks = [path.with_suffix(".safetensors") for path in paths if encoders]
    for result, path in zip(results, networks, strict=False):
        check_encoder(path, result)
    with atomic_folder(out) as folder:  # a full disk leaves nothing half-made
        digests, kept = {}, {}
        for result, array in zip(results, arrays, strict=True):
            path = folder / embeddings_name(result.seed)
            save_embeddings(path, array)
            digests[str(result.seed)] = file_digest(path)
        for result, network in zip(results, networks, strict=False):
            write_bytes(folder / encoder_name(result.seed), network.read_bytes())
            kept[str(result.seed)] = file_digest(network)
        entry = Entry(
            records=[_provable(result) for result in results], embeddings=digests, encoders=kept
        )
        content = msgspec.to_builtins(entry)
        if not kept:
            del content["encoders"]  # which earlier versions do not know
        text = msgspec.json.encode(content | {"seal": seal(content)})  # keeps the factors' order
        write_bytes(folder / "entry.json", msgspec.json.format(text, indent=1))
    return out


def read_entry(folder: Path) -> Entry:
    """Read `entry.json`, check its shape, its seal and that the folder holds nothing else."""
    if folder.is_symlink():
        raise DataError(f"{folder} is a link; an entry must be the folder itself, so name that.")
    if not folder.is_dir():
        raise ValueError(f"`entry` must be a folder, got {str(folder)!r}.")
    path = folder / "entry.json"
    if not path.exists():
        raise DataError(f"{folder} has no entry.json; `ident3d benchmark pack` makes entries.")
    found = read_json(path)
    try:
        entry = stated(found, Entry)
    except ValueError as error:
        raise DataError(f"{path}: {error}") from error
    _check_together(entry.records, str(path))
    if entry.seal != seal(found):
        raise DataError(f"{path} was changed after packing: its seal does not agree.")
    _check_files(folder, entry)
    return entry


def submitted(path: Path) -> np.ndarray:
    """Read the embeddings of an entry: a stranger's, so within limits, and no link."""
    if path.is_symlink() or (path.is_file() and path.stat().st_size > MAX_EMBEDDINGS):
        raise DataError(f"{path} must be a plain file of at most {MAX_EMBEDDINGS} bytes.")
    array = read_embeddings(path)
    if array.dtype not in (np.float32, np.float64) or array.shape[1] > MAX_DIM:
        raise DataError(
            f"{path} must be float32 or float64, 1 to {MAX_DIM} values in a row, "
            f"got {array.dtype} {array.shape}."
        )
    return array


def check_encoder(path: Path, result: Result) -> None:
    """Refuse an encoder that is not what its record's settings describe: a stranger's, so no link.

    Its numbers are read, and go into a network of ours; nothing in it is executed.
    """
    from ..encoders.trained import read_trained  # imports torch

    if path.is_symlink() or not path.is_file():
        raise DataError(
            f"{path} must be a plain file; a run keeps its encoder beside its held-out record."
        )
    if read_trained(path).settings != result.settings:
        raise DataError(f"{path} is the encoder of another run: its settings differ.")


def encoder_name(seed: int) -> str:
    """Name a seed's encoder inside an entry."""
    return f"encoder-s{int(seed)}.safetensors"


def embeddings_name(seed: int) -> str:
    """Name a seed's embeddings inside an entry."""
    return f"embeddings-s{int(seed)}.npy"


def seal(entry: dict[str, Any]) -> str:
    """Digest of all that an entry states; catches any later edit."""
    return canonical_sha256({key: value for key, value in entry.items() if key != "seal"})


def _provable(result: Result) -> Result:
    kept = {name: value for name, value in result.scores.items() if name in PROVABLE}
    return msgspec.structs.replace(result, scores=kept)


def _check_together(results: Sequence[Result], where: str) -> None:
    if not results:
        raise ValueError("`records` must name at least one record file.")
    if len({result.group for result in results}) > 1:
        raise DataError(
            f"{where} must be runs of one method and setting that differ in the seed; "
            f"these differ in {_differing(results)}: pack them apart."
        )
    if any(result.control for result in results):
        raise DataError(f"{where} must be no control; `ident3d benchmark controls` makes those.")
    seeds = [result.seed for result in results]
    if len(set(seeds)) < len(seeds):
        raise DataError(f"{where} must have each seed once, got {sorted(seeds)}.")
    if results[0].data is None:
        raise DataError(
            f"{where} is a synthetic run, with no data set to check it against; "
            "its command reproduces it."
        )


def _differing(results: Sequence[Result]) -> str:
    """Name what keeps records of several groups from being one entry."""
    fields = ("experiment", "tier", "protocol", "method")
    names = [name for name in fields if len({getattr(result, name) for result in results}) > 1]
    if len({(result.data or {}).get("fingerprint") for result in results}) > 1:
        names.append("data")
    return ", ".join(names or ["settings"])


def _check_files(folder: Path, entry: Entry) -> None:
    seeds = [result.seed for result in entry.records]
    allowed = {"entry.json"} | {embeddings_name(seed) for seed in seeds}
    allowed |= {encoder_name(seed) for seed in seeds if str(seed) in entry.encoders}
    for path in sorted(folder.iterdir()):
        if path.name not in allowed or path.is_symlink() or not path.is_file():
            raise DataError(
                f"{folder} must hold entry.json and the files it names, found {path.name!r}."
            )
    for name in sorted(allowed):
        if not (folder / name).is_file():
            raise DataError(f"{folder / name} is missing; an entry carries the files it names.")
