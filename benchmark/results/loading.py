"""A folder of results: single records and packed entries."""

from pathlib import Path

from ident3d.errors import DataError

from .entries import read_entry
from .result import Result, load


def load_all(folder: str | Path, refused: list[str] | None = None) -> list[Result]:
    """Read every record below `folder`: single records and packed entries.

    A bad file raises `DataError`; with a list `refused` it is left out and its sentence added.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(f"`results` must be a folder of records, got {str(folder)!r}.")
    found: dict[str, tuple[Path, Result]] = {}
    # rglob does not walk into linked folders; read_json refuses linked files.
    for path in sorted(folder.rglob("*.json")):
        if any(part.startswith(".") for part in path.relative_to(folder).parts):
            continue  # unfinished runs keep their state in a hidden folder
        try:
            packed = path.name == "entry.json"
            for result in read_entry(path.parent).records if packed else [load(path)]:
                if result.id in found:
                    raise DataError(f"{path} repeats the run of {found[result.id][0]}.")
                found[result.id] = (path, result)
        except DataError as error:
            if refused is None:
                raise
            refused.append(str(error))
    return sorted((result for _, result in found.values()), key=lambda r: (*r.group, r.seed))
