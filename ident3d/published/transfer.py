"""One file over HTTP, however often the connection breaks."""

import http.client
import os
import re
import shutil
import ssl
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from tqdm import tqdm

from ..errors import DataError
from ..files import Lock
from ..progress import progress

_ATTEMPTS = 6  # in a row that bring nothing new
_LONGEST_PAUSE = 60.0  # seconds
_TIMEOUT = 60.0
_CHUNK = 1 << 20
_TRANSIENT = {408, 425, 429, 500, 502, 503, 504}
_LENGTH = re.compile(r"[0-9]{1,18}")
_RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18}|\*)")
_DROPPED = (  # what a network does, and a full disk does not
    urllib.error.URLError,
    http.client.HTTPException,
    ConnectionError,
    TimeoutError,
    ssl.SSLError,
)


def check_url(url: str) -> None:
    """Refuse addresses of files on this machine, and what is no address at all."""
    wrong = ValueError(f"`url` must be an http or https address, got {url!r:.200}.")
    try:
        parts = urlsplit(url)
        (parts.hostname or "").encode("idna")
        _ = parts.port  # which is read when it is asked for
    except ValueError:
        raise wrong from None
    plain = url.isascii() and url.isprintable() and " " not in url
    if parts.scheme not in ("http", "https") or not parts.hostname or not plain:
        raise wrong


def open_url(url: str, headers: dict[str, str] | None = None) -> http.client.HTTPResponse:
    """Open an address, following redirects; http and https only, unlike `urlopen`."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler,
        urllib.request.UnknownHandler,
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
        urllib.request.HTTPRedirectHandler,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.HTTPErrorProcessor,
    ):
        opener.add_handler(handler())
    request = urllib.request.Request(url, headers={"User-Agent": "ident3d", **(headers or {})})
    return opener.open(request, timeout=_TIMEOUT)


def byte_progress(total: int | None, label: str) -> tqdm:
    """Open a progress bar that counts bytes, shown as kB, MB, GB."""
    bar = progress(total, label)
    bar.unit, bar.unit_scale = "B", True
    return bar


def fetch(url: str, part: Path, pause: float = 1.0) -> bool:
    """Download to `part`, going on where an earlier attempt or an earlier run stopped.

    Gives up after several attempts in a row that bring nothing new, waiting `pause` seconds and
    then twice as long each time between them. What came stays in `part`.

    Returns:
        Whether the file is known to be whole; False where the server never told its length.
    """
    failures = 0
    with Lock(part), byte_progress(None, part.stem) as bar:
        most = part.stat().st_size
        while isinstance(problem := _attempt(url, part, bar), str):
            size = part.stat().st_size
            # A server that ignores ranges starts anew every time: only a new most is progress.
            failures = 0 if size > most else failures + 1
            most = max(size, most)
            if failures == _ATTEMPTS:
                raise DataError(
                    f"{url} broke off {_ATTEMPTS} times in a row ({problem}); {most:,} bytes are "
                    "kept, run the command again to go on."
                )
            time.sleep(min(pause * 2 ** max(failures - 1, 0), _LONGEST_PAUSE))
    _etag_file(part).unlink(missing_ok=True)
    return problem


def _attempt(url: str, part: Path, bar: tqdm) -> str | bool:
    """Try once; return what broke it, or, at the end, whether the file is known to be whole."""
    try:
        return _transfer(url, part, bar)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 416:  # nothing after what we have: the end, or another file
                if error.headers.get("Content-Range") == f"bytes */{part.stat().st_size}":
                    return True
                os.truncate(part, 0)
            elif error.code not in _TRANSIENT:
                raise DataError(f"{url} answers {error.code} {error.reason}.") from None
            return f"{error.code} {error.reason}"
    except urllib.error.URLError as error:
        if isinstance(error.reason, ssl.SSLCertVerificationError):
            raise DataError(
                f"{url} has a certificate that is not valid here: {error.reason}"
            ) from None
        return str(error.reason)
    except (http.client.InvalidURL, UnicodeError) as error:  # a redirect's, for one
        raise DataError(f"{url} leads to a malformed address ({error}).") from None
    except _DROPPED as error:
        return str(error) or type(error).__name__


def _transfer(url: str, part: Path, bar: tqdm) -> bool:
    """Read one answer to its end; tell whether the file is known to be whole."""
    have = part.stat().st_size
    etag = _etag_file(part).read_text() if have and _etag_file(part).exists() else ""
    headers = {"Range": f"bytes={have}-"} if have else {}
    if etag:
        headers["If-Range"] = etag  # the rest, if it is still the same file; else all of it
    with open_url(url, headers) as response:
        start, end, total = _extent(response)
        if start > have:
            raise http.client.HTTPException("the server sent another range than asked for")
        if total is not None and total - start > shutil.disk_usage(part.parent).free:
            raise DataError(f"{part.parent} has no room for the {total:,} bytes of {part.stem}.")
        _remember_etag(part, response.headers.get("ETag", ""))
        bar.total, bar.n = total, start
        bar.refresh()
        with open(part, "r+b") as stream:
            stream.truncate(start)
            stream.seek(start)
            while chunk := response.read1(_CHUNK):
                stream.write(chunk)
                stream.flush()  # however slow the line, a kill loses nothing that came
                bar.update(len(chunk))
    if end is not None and part.stat().st_size != (end if total is None else total):
        raise http.client.HTTPException("the connection closed early")
    if response.status == 206 and total is None:  # asked for what follows, the server tells the end
        raise http.client.HTTPException("the server sent a part and not the file's length")
    # In chunks, a file that breaks off is an error by itself; else only the length tells.
    return end is not None or response.chunked


def _extent(response: http.client.HTTPResponse) -> tuple[int, int | None, int | None]:
    """Where the answer's bytes begin and end in the file, and how long that is."""
    if response.status == 206:
        match = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if match is None or int(match[2]) < int(match[1]):
            raise http.client.HTTPException("the server sent a range it does not name")
        return int(match[1]), int(match[2]) + 1, None if match[3] == "*" else int(match[3])
    length = response.headers.get("Content-Length", "")
    total = int(length) if _LENGTH.fullmatch(length) and not response.chunked else None
    return 0, total, total


def _remember_etag(part: Path, etag: str) -> None:
    if etag.startswith('"'):  # a weak one, W/"...", does not promise equal bytes
        _etag_file(part).write_text(etag)
    else:
        _etag_file(part).unlink(missing_ok=True)


def _etag_file(part: Path) -> Path:
    return part.with_name(f"{part.name}.etag")
