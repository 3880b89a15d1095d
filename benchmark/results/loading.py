"""A folder of results: single records and packed entries."""

from pathlib import Path

from ident3d.errors import DataError

from .entries import read_entry
from .result import Result, load


def load_all(
    folder: str | Path, refused: list[str] | None = None, *, entries: bool = True
) -> list[Result]:
    """Read every record below `folder`: single records, and `entries`, packed ones.

    A bad file raises `DataError`; with a list `refused` it is left out and its sentence added.
    An entry may be a stranger's: it adds rows of its own, and none to a method that is there.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(f"`results` must be a folder of records, got {str(folder)!r}.")
    # rglob does not walk into linked folders; read_json refuses linked files.
    paths = [
        path
        for path in sorted(folder.rglob("*.json"))
        # unfinished runs keep their state in a hidden folder
        if not any(part.startswith(".") for part in path.relative_to(folder).parts)
    ]
    runs: dict[tuple[object, ...], Path] = {}
    rows: dict[tuple[str, ...], Path] = {}
    found: list[Result] = []
    for path in sorted(paths, key=_is_entry):  # single records first
        if _is_entry(path) and not entries:
            continue
        try:
            read = read_entry(path.parent).records if _is_entry(path) else [load(path)]
            for result in read:
                if other := runs.get((*result.group, result.seed)):
                    raise DataError(f"{path} repeats the run of {other}.")
                if _is_entry(path) and (other := rows.get(result.group)):
                    raise DataError(
                        f"{path} has the method and settings of {other}; pack it under a method "
                        "name of its own."
                    )
        except DataError as error:
            if refused is None:
                raise
            refused.append(str(error))
            continue
        found += read
        runs |= {(*result.group, result.seed): path for result in read}
        rows |= {result.group: path for result in read}
    return sorted(found, key=lambda r: (*r.group, r.seed))


def _is_entry(path: Path) -> bool:
    return path.name == "entry.json"
