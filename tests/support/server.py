"""A local server of one file, which misbehaves as told."""

import contextlib
import http.server
import re
import threading
import time
from dataclasses import dataclass, field

import numpy as np

DATA = np.random.default_rng(0).bytes(300_000)


@dataclass
class Behaviour:
    """How the server misbehaves, and what it saw."""

    data: bytes = DATA
    most: int = 1 << 30  # bytes of one answer before the connection drops
    ranges: bool = True
    etag: str | None = '"v1"'
    statuses: list[int] = field(default_factory=list)  # answered first, one each
    shift: int = 0  # error in the range it sends
    delay: float = 0.0  # seconds per 10,000 bytes
    length: bool = True  # tells how long an answer is
    chunked: bool = False
    total: bool = True  # tells, with a part, how long the whole file is
    part: int = 1 << 30  # bytes of one part that it is willing to send
    redirect: str | None = None
    requests: list[dict] = field(default_factory=list)


@contextlib.contextmanager
def serving(behaviour):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            behaviour.requests.append(dict(self.headers) | {"path": self.path})
            if behaviour.statuses:
                self.send_error(behaviour.statuses.pop(0))
                return
            if behaviour.redirect is not None:
                self.send_response(302)
                self.send_header("Location", behaviour.redirect)
                self.end_headers()
                return
            asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
            same = self.headers.get("If-Range", behaviour.etag) == behaviour.etag
            start = int(asked[1]) if asked and behaviour.ranges and same else 0
            total = len(behaviour.data)
            if start >= total:
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{total}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(206 if start else 200)
            if start:
                start += behaviour.shift
            stop = min(total, start + behaviour.part) if start else total
            if start:
                whole = total if behaviour.total else "*"
                self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{whole}")
            if behaviour.etag:
                self.send_header("ETag", behaviour.etag)
            if behaviour.chunked:
                self.send_header("Transfer-Encoding", "chunked")
            elif behaviour.length:
                self.send_header("Content-Length", str(stop - start))
            self.end_headers()
            rest = behaviour.data[start : min(stop, start + behaviour.most)]
            for offset in range(0, len(rest), 10_000):
                piece = rest[offset : offset + 10_000]
                self.wfile.write(
                    b"%x\r\n%s\r\n" % (len(piece), piece) if behaviour.chunked else piece
                )
                time.sleep(behaviour.delay)
            if behaviour.chunked and len(rest) == stop - start:
                self.wfile.write(b"0\r\n\r\n")

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *arguments: None  # clients are killed on purpose
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/files"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
