"""A folder of HTML pages as a small web on loopback, with a search engine of SearXNG's shape.

    python -m benchmarks.docweb FOLDER

Prints the port. `/search?q=…&format=json` gives the ten pages that have most to do with the words,
by a full-text index of its own over titles and texts; `/count`, how many pages were given so far;
`/slow/N`, a page after SLOW_S seconds; every other path, the file as it is. There is no robots.txt.
"""

from __future__ import annotations

import html
import json
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

RESULTS = 10
SLOW_S = 0.2

_TITLE = re.compile(r"<title>(.*?)</title>", re.DOTALL)
_UNSEEN = re.compile(r"<(script|style|head)\b.*?</\1>|<!--.*?-->", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
_WORD = re.compile(r"\w+")


def text_of(page: str) -> str:
    """What a page says, by the plainest of means: without its tags."""
    return html.unescape(_TAG.sub("", _UNSEEN.sub("", page)))


class Engine:
    """Finds pages by their words: FTS5, its words joined by OR, a title's words three times."""

    def __init__(self, folder: Path) -> None:
        self._db = sqlite3.connect(":memory:", check_same_thread=False)
        self._lock = threading.Lock()
        self._db.execute(
            "CREATE VIRTUAL TABLE pages USING fts5 "
            "(path UNINDEXED, title, text, tokenize = 'porter unicode61')"
        )
        for path in sorted(folder.rglob("*.html")):
            page = path.read_text("utf-8", "replace")
            title = _TITLE.search(page)
            row = (
                path.relative_to(folder).as_posix(),
                html.unescape(title[1]) if title else path.stem,
                " ".join(text_of(page).split()),
            )
            self._db.execute("INSERT INTO pages VALUES (?, ?, ?)", row)

    def search(self, query: str) -> list[dict[str, Any]]:
        """Results as SearXNG gives them, their URLs below `/`."""
        match = " OR ".join(f'"{word}"' for word in dict.fromkeys(_WORD.findall(query)))
        with self._lock:
            rows = self._db.execute(
                "SELECT path, title, snippet(pages, 2, '', '', '…', 40) FROM pages "
                "WHERE pages MATCH ? ORDER BY bm25(pages, 0, 3, 1) LIMIT ?",
                (match or '""', RESULTS),
            ).fetchall()
        return [{"url": path, "title": title, "content": text} for path, title, text in rows]


class Handler(BaseHTTPRequestHandler):
    """Answers; the folder, the engine and the count are the server's."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Web

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        web = self.server
        if parts.path == "/search":
            base = f"http://{self.headers['Host']}/"
            query = parse_qs(parts.query).get("q", [""])[0]
            found = [{**each, "url": base + each["url"]} for each in web.engine.search(query)]
            self._give("application/json", json.dumps({"query": query, "results": found}).encode())
        elif parts.path == "/count":
            self._give("application/json", json.dumps(web.given).encode())
        elif parts.path.startswith("/slow/"):
            threading.Event().wait(SLOW_S)
            page = f"<title>{parts.path}</title><p>What {parts.path} says of slowness.</p>"
            self._give("text/html; charset=utf-8", page.encode())
        else:
            path = (web.folder / unquote(parts.path).lstrip("/")).resolve()
            if path.suffix != ".html" or not path.is_relative_to(web.folder) or not path.is_file():
                self._give("text/plain", b"not here", 404)
                return
            with web.lock:
                web.given += 1
            self._give("text/html; charset=utf-8", path.read_bytes())

    def _give(self, kind: str, body: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class Web(ThreadingHTTPServer):
    """The server, on a port of loopback that is free."""

    daemon_threads = True
    request_queue_size = 100

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder = folder.resolve()
        self.engine = Engine(self.folder)
        self.lock = threading.Lock()
        self.given = 0


@contextmanager
def running(folder: Path | str) -> Iterator[int]:
    """The server in a process of its own, by its port; it ends with the one who started it."""
    command = [sys.executable, "-m", "benchmarks.docweb", str(folder)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())


def main() -> None:
    web = Web(Path(sys.argv[1]))
    threading.Thread(target=web.serve_forever, daemon=True).start()
    print(web.server_port, flush=True)
    sys.stdin.read()  # until who started it is gone


if __name__ == "__main__":
    main()
