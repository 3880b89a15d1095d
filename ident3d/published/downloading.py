"""Fetching published archives: resumes, retries, and checks what came against its MD5."""

import hashlib
import http.client
import json
import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urljoin

from ..errors import DataError, choose
from .transfer import byte_progress, check_url, fetch, open_url


@dataclass(frozen=True)
class Remote:
    """One published file. The MD5 comes from a third party; None where none is known."""

    split: str | None  # None: all splits in one file
    name: str
    md5: str | None


@dataclass(frozen=True)
class Catalogue:
    """Where a data set is published, and its files."""

    record: int  # on Zenodo
    files: tuple[Remote, ...]

    @property
    def page(self) -> str:
        """The page that people read; it shows the publisher's own MD5 sums."""
        return f"https://zenodo.org/records/{self.record}"

    @property
    def url(self) -> str:
        """The folder its files are under."""
        return f"https://zenodo.org/records/{self.record}/files/"

    @property
    def api(self) -> str:
        """The record as JSON, with the publisher's MD5 sums."""
        return f"https://zenodo.org/api/records/{self.record}"


CATALOGUE = {
    "3dident": Catalogue(
        4502485,
        (
            Remote("train", "3dident_train.tar", "df132b4dacf04fa28e1c8ca9d2168634"),
            Remote("test", "3dident_test.tar", "35020bca16c9faa80cf0c926d265d678"),
        ),
    ),
    "causal3dident": Catalogue(
        4784282,
        (
            Remote("train", "trainset.tar.gz", "acd98fda30eee75856dbbc7c54a27e45"),
            Remote("test", "testset.tar.gz", "c5d9d32d3737e241a2b12b968275fcb8"),
        ),
    ),
    "multimodal3dident": Catalogue(7678231, (Remote(None, "m3di.tar.gz", None),)),
}


@dataclass(frozen=True)
class Fetched:
    """A downloaded file, and what is known of its bytes."""

    path: Path
    note: str
    right: bool = True  # False: its MD5 differs from the one a third party gave


def download(
    name: str,
    out: str | os.PathLike,
    split: str | None = None,
    url: str | None = None,
    pause: float = 1.0,
) -> list[Fetched]:
    """Fetch the files of a published data set; those already there are kept.

    Args:
        name: A key of `CATALOGUE`.
        out: The folder for the archives.
        split: Only the archive of this split, where there is one per split.
        url: A mirror: the folder that holds the files under their published names.
        pause: Seconds before the first new attempt after a broken connection.

    Raises:
        DataError: The server refuses or stays away, or the publisher's MD5 differs.
    """
    catalogue = choose(CATALOGUE, name, "name")
    files = {file.split or "all": file for file in catalogue.files}
    wanted = list(files.values()) if split is None else [choose(files, split, "split")]
    base = catalogue.url if url is None else url.rstrip("/") + "/"
    check_url(base)
    sums = publisher_sums(catalogue.api) if url is None else {}
    Path(out).mkdir(parents=True, exist_ok=True)
    return [
        _fetch_one(urljoin(base, file.name), Path(out), file, sums.get(file.name), catalogue, pause)
        for file in wanted
    ]


def publisher_sums(api: str) -> dict[str, str]:
    """Ask the publisher for the MD5 of each file; an empty answer if it does not tell."""
    try:
        with open_url(api) as response:
            files = json.loads(response.read(1 << 24))["files"]
        sums = {str(file["key"]): str(file["checksum"]) for file in files}
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return {}
    return {name: md5.removeprefix("md5:") for name, md5 in sums.items() if md5[:4] == "md5:"}


def _fetch_one(
    url: str, out: Path, file: Remote, publisher: str | None, catalogue: Catalogue, pause: float
) -> Fetched:
    path, part, doubtful = (out / f"{file.name}{suffix}" for suffix in ("", ".part", ".unverified"))
    if path.exists():
        return Fetched(path, "is there already")
    if doubtful.exists():
        raise DataError(
            f"{doubtful} is there from an earlier download; compare its MD5 with {catalogue.page}, "
            f"then rename it to {file.name} or remove it."
        )
    fetch(url, part, pause)
    md5 = _md5(part)
    expected = publisher or file.md5
    if expected is None or md5 == expected:
        os.replace(part, path)
        whose = "the publisher's" if publisher else "the known one"
        return Fetched(path, f"MD5 {md5}, " + (whose if expected else "none known to compare with"))
    if publisher:
        part.unlink()
        raise DataError(
            f"{file.name} came with MD5 {md5}, the publisher's is {publisher}; "
            "the damaged download was removed, run the command again."
        )
    os.replace(part, doubtful)
    note = (
        f"MD5 {md5} differs from {file.md5}, a sum that comes from a third party and may be wrong "
        f"itself; kept as {doubtful.name}. If {catalogue.page} shows the same MD5, rename it to "
        f"{file.name}; if not, remove it and download again."
    )
    return Fetched(doubtful, note, right=False)


def _md5(path: Path) -> str:
    digest = hashlib.md5(usedforsecurity=False)  # the only sum the publisher gives
    with open(path, "rb") as stream, byte_progress(path.stat().st_size, "checking") as bar:
        while block := stream.read(1 << 20):
            digest.update(block)
            bar.update(len(block))
    return digest.hexdigest()
