"""Fetching published archives: resumes, retries, and checks what came against its MD5."""

import http.client
import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urljoin

from ..errors import DataError, choose
from ..files import file_digest, publish
from ..outside import parse_json
from .catalogue import CATALOGUE
from .transfer import byte_progress, check_url, fetch, open_url


@dataclass(frozen=True)
class Fetched:
    """A downloaded file, and what is known of its bytes."""

    path: Path
    note: str
    right: bool = True  # False: its MD5 differs from a third party's, or nothing vouches for it


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
    published = choose(CATALOGUE, name, "name")
    archives = published.archives
    wanted = archives.values() if split is None else [choose(archives, split, "split")]
    base = published.url if url is None else url.rstrip("/") + "/"
    check_url(base)
    sums = publisher_sums(published.api) if url is None else {}
    Path(out).mkdir(parents=True, exist_ok=True)
    return [
        _fetch_one(base, Path(out, archive), md5, sums.get(archive), published.page, pause)
        for archive, md5 in wanted
    ]


def publisher_sums(api: str) -> dict[str, str]:
    """Ask the publisher for the MD5 of each file; an empty answer if it does not tell."""
    try:
        with open_url(api) as response:
            files = parse_json(response.read(1 << 24))["files"]
        sums = {str(file["key"]): str(file["checksum"]) for file in files}
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return {}
    return {name: md5.removeprefix("md5:") for name, md5 in sums.items() if md5[:4] == "md5:"}


def _fetch_one(
    base: str, path: Path, known: str | None, publisher: str | None, page: str, pause: float
) -> Fetched:
    part, unverified = (path.with_name(path.name + end) for end in (".part", ".unverified"))
    if path.exists():
        return Fetched(path, "is there already")
    if unverified.exists():
        raise DataError(
            f"{unverified} is there from an earlier download; compare its MD5 with {page}, "
            f"then rename it to {path.name} or remove it."
        )
    whole = fetch(urljoin(base, path.name), part, pause)
    with byte_progress(part.stat().st_size, "checking") as bar:
        md5 = file_digest(part, "md5", bar.update)
    if md5 == (publisher or known or (md5 if whole else None)):
        publish(part, path)
        agreed = "the known one" if known else "none known to compare with"
        return Fetched(path, f"MD5 {md5}, " + ("the publisher's" if publisher else agreed))
    if publisher:
        part.unlink()
        raise DataError(
            f"{path.name} came with MD5 {md5}, the publisher's is {publisher}; "
            "the damaged download was removed, run the command again."
        )
    publish(part, unverified)
    if known is None:
        note = (
            f"neither its length nor its MD5 is known, so it may have been cut off; kept as "
            f"{unverified.name}. If {page} shows the MD5 {md5}, rename it to {path.name}; if not, "
            "remove it and download again."
        )
        return Fetched(unverified, note, right=False)
    note = (
        f"MD5 {md5} differs from {known}, a sum that comes from a third party and may be wrong "
        f"itself; kept as {unverified.name}. If {page} shows the same MD5, rename it to "
        f"{path.name}; if not, remove it and download again."
    )
    return Fetched(unverified, note, right=False)
