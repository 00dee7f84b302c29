"""`moothall serve company.yaml`, as its operator sees it."""

from __future__ import annotations

import os
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

from commands import Command


class Served:
    """The command, and the port that it serves."""

    def __init__(self, folder: Path, file: str = "company.yaml") -> None:
        self.process = Command(
            "serve",
            file,
            cwd=folder,
            env={**os.environ, "TOKEN": "secret"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()
        assert self.line, f"it has ended with {self.end()}"
        self.port = int(self.line.rpartition("at port ")[2].partition(".")[0])

    def get(self, path: str, token: str | None = None) -> tuple[int, str]:
        """Return the status and the body of an answer."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        asked = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", headers=headers)
        try:
            with urllib.request.urlopen(asked, timeout=20) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def end(self) -> int:
        """Wait for its end; return the exit code."""
        code = self.process.wait(40)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        return code
