"""A server on loopback with the answers of a model hub, and the faults of networks.

    with HubServer({"org/name/weights.gguf": data}) as hub: …

Knobs: `cut_after` bytes of a body the connection is cut, once, and then every request fails with
503 while `down`; `cut_wheel` bytes of a wheel it is cut, once; `wrong` serves other bytes than the
hash says; `gated` refuses all with 401, `password` those without that Authorization; without
`ranges` it sends the whole file each time; it redirects to `elsewhere`, the URL of another. Until
`hold` is set, it sends half of what it is asked for, having set `holding`.
"""

from __future__ import annotations

import gzip
import hashlib
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

COMMIT = "c" * 40


@dataclass(frozen=True)
class Request:
    """One that came in, and how much of a body went out to it."""

    method: str
    path: str
    range: str | None
    sent: int
    key: str | None


class HubServer:
    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.cut_after: int | None = None
        self.cut_wheel: int | None = None
        self.down = False
        self.wrong = False
        self.gated = False
        self.hashes = True
        self.ranges = True
        self.password: str | None = None
        self.elsewhere = ""
        self.requests: list[Request] = []
        self.hold: threading.Event | None = None
        self.holding = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def bodies(self) -> list[Request]:
        """The requests that asked for the content of a file."""
        return [request for request in self.requests if request.method == "GET"]

    def __enter__(self) -> HubServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.hold is not None:
            self.hold.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(hub: HubServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_GET(self) -> None:
            self._answer(body=True)

        def _answer(self, body: bool) -> None:
            path = urlsplit(self.path).path  # through a proxy it is a whole URL
            data = hub.files.get(path.lstrip("/").replace("/resolve/main/", "/"))
            if hub.password and self.headers.get("Authorization") != hub.password:
                self._refuse(401, {"WWW-Authenticate": "Basic"})
            elif hub.down:
                self._refuse(503, {})
            elif hub.gated:
                self._refuse(401, {"X-Error-Code": "GatedRepo", "X-Error-Message": "gated"})
            elif data is None:
                known = any(
                    self.path.startswith(f"/{'/'.join(k.split('/')[:2])}/") for k in hub.files
                )
                code = "EntryNotFound" if known else "RepoNotFound"
                self._refuse(404, {"X-Error-Code": code, "X-Error-Message": "not found"})
            else:
                self._give(data, body)

        def _refuse(self, status: int, headers: dict[str, str]) -> None:
            self._note(0)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def _give(self, data: bytes, body: bool) -> None:
            wanted = self.headers.get("Range")
            if not hub.ranges:
                wanted = None
            start, end = 0, len(data)
            if wanted:
                first, _, last = wanted.removeprefix("bytes=").partition("-")
                start, end = int(first), int(last) + 1 if last else len(data)
            if start >= len(data) > 0:
                self._refuse(416, {"Content-Range": f"bytes */{len(data)}"})
                return
            rest = (data[::-1] if hub.wrong else data)[start:end]
            self.send_response(302 if hub.elsewhere else 206 if wanted else 200)
            if hub.elsewhere:
                self.send_header("Location", hub.elsewhere + self.path)
            if self.path.endswith(".gguf") and "gzip" in self.headers.get("Accept-Encoding", ""):
                rest = gzip.compress(rest, 1)  # as hubs send to who takes it
                self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(rest)))
            if wanted:
                self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(data)}")
            digest = hashlib.sha256(data).hexdigest()
            self.send_header("ETag", f'"{digest if hub.hashes else "an-etag"}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("X-Linked-Size", str(len(data)))
            if hub.ranges:
                self.send_header("Accept-Ranges", "bytes")
            if self.path.endswith(".html"):
                self.send_header("Content-Type", "text/html")
            self.end_headers()
            if not body:
                self._note(0)
                return
            cut = hub.cut_after
            if cut is not None:
                hub.cut_after = None
                hub.down = True
                rest = rest[:cut]
                self.close_connection = True
            whole = hub.cut_wheel is None or len(rest) <= hub.cut_wheel
            if not whole and self.path.endswith(".whl"):
                rest, hub.cut_wheel = rest[: hub.cut_wheel], None
                self.close_connection = True
            self._note(len(rest))
            if hub.hold is not None and len(rest) > 100_000:
                self.wfile.write(rest[: len(rest) // 2])
                self.wfile.flush()
                hub.holding.set()
                hub.hold.wait(30)
                rest = rest[len(rest) // 2 :]
            self.wfile.write(rest)

        def _note(self, sent: int) -> None:
            given = self.headers.get("Range"), sent, self.headers.get("Authorization")
            hub.requests.append(Request(self.command, self.path, *given))

    return Handler
