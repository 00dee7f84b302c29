"""A PostgreSQL server of one's own: a private cluster on loopback, that can be broken and mended.

    with Server() as server:
        connect(server.url())
        server.kill()
        server.start()

Nothing of it is shared with a server that the machine runs besides: it has its own port, socket and
data, all in a temporary folder. It waits for the disk at each commit, as by default.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from benchmarks.broker import listens
from benchmarks.ports import free_port

START_S = 30.0
STOP_S = 30.0
ACCOUNTS = ("postgres", "nobody")
SETTINGS = {"max_connections": 200, "shared_buffers": "16MB", "autovacuum": "off"}


class ServerError(RuntimeError):
    """The server did not do what it was told; the message has the end of its log."""


class Authority(NamedTuple):
    """What the server's TLS shows, each as PEM."""

    chain: bytes
    key: bytes


class Server:
    """A PostgreSQL server; `with` starts it, and leaves nothing behind.

    One thread at a time may start and end it.

    Args:
        settings: Lines of postgresql.conf: `{"wal_level": "logical"}`.
        tls: The certificate with which it takes connections by TLS too.
    """

    user = "tester"
    password = "never-shown-7f3a"

    def __init__(
        self, settings: Mapping[str, object] | None = None, tls: Authority | None = None
    ) -> None:
        self.port = free_port()
        self.pid: int | None = None
        self._programs = programs()
        self._account = account()
        self._keeper: subprocess.Popen[bytes] | None = None
        self._heard = b""
        self.folder = Path(tempfile.mkdtemp(prefix="moothall-postgresql-"))
        try:
            self._make({**SETTINGS, **(settings or {})}, tls)
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def url(self, schema: str | None = None, port: int | None = None, password: bool = True) -> str:
        """The URL of its database, for a schema of one's own; by another port, as of a proxy."""
        secret = f":{self.password}" if password else ""
        options = "" if schema is None else f"?options=-csearch_path%3D{schema}"
        return f"postgresql://{self.user}{secret}@127.0.0.1:{port or self.port}/postgres{options}"

    def _make(self, settings: dict[str, object], tls: Authority | None) -> None:
        """Make the cluster."""
        folder, data = self.folder, self.folder / "data"
        (folder / "password").write_text(self.password)
        if self._account is not None:
            for path in (folder, folder / "password"):
                shutil.chown(path, self._account)
        done = subprocess.run(
            (
                *(self._programs / "initdb", "-D", data, "-U", self.user, "--no-sync"),
                *("-A", "scram-sha-256", f"--pwfile={folder / 'password'}"),
                *("-E", "UTF8", "--locale=C.UTF-8", "--no-instructions"),
            ),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
            cwd=folder,
            user=self._account,
            extra_groups=None if self._account is None else [],
        )
        if done.returncode:
            raise ServerError(f"initdb ended with {done.returncode}: {done.stderr}{done.stdout}")
        settings |= {
            "listen_addresses": "'127.0.0.1'",
            "port": self.port,
            "unix_socket_directories": f"'{folder}'",
        }
        if tls is not None:
            for name, content in (("chain.pem", tls.chain), ("key.pem", tls.key)):
                (data / name).write_bytes(content)
                (data / name).chmod(0o600)
                if self._account is not None:
                    shutil.chown(data / name, self._account)
            settings |= {"ssl": "on", "ssl_cert_file": "'chain.pem'", "ssl_key_file": "'key.pem'"}
        with (data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = {value}\n" for name, value in settings.items())

    def __enter__(self) -> Server:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self, timeout: float = START_S) -> None:
        """Start it, again too: with the same port and data; wait until it takes connections."""
        if self.pid is not None:
            raise ServerError(f"the server runs already, as process {self.pid}")
        with contextlib.suppress(FileNotFoundError):
            (self.folder / "data" / "postmaster.pid").unlink()
        self._order(0)
        deadline = time.monotonic() + timeout
        while self.pid is None:
            self._hear(START_S)
        ready = self.folder / "data" / "postmaster.pid"
        while not (_says_ready(ready) and listens(self.port)):
            self._hear(0.02)
            if self.pid is None:
                raise ServerError(f"PostgreSQL ended while it started:\n{self.log()}")
            if time.monotonic() > deadline:
                raise ServerError(f"PostgreSQL was not ready in {timeout:g} s:\n{self.log()}")

    def stop(self) -> None:
        """End it as an operator does, with its connections."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """End it at once, as a crash does: what was committed is in its log."""
        self._end(signal.SIGQUIT)

    def close(self) -> None:
        """Kill it if it runs, and remove all that it wrote. A second time does nothing."""
        keeper, self._keeper, self.pid = self._keeper, None, None
        if keeper is not None:
            assert keeper.stdin is not None
            assert keeper.stdout is not None
            keeper.stdin.close()
            keeper.wait()
            keeper.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self, lines: int = 100) -> str:
        """The last lines of what it wrote."""
        path = self.folder / "log"
        text = path.read_text(errors="replace") if path.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def _end(self, number: int) -> None:
        if self.pid is None:
            return
        self._order(number)
        deadline = time.monotonic() + STOP_S
        while self.pid is not None:
            self._hear(1.0)
            if time.monotonic() > deadline:
                raise ServerError(f"PostgreSQL did not end in {STOP_S:g} s:\n{self.log()}")

    def _order(self, order: int) -> None:
        """Tell the keeper to start the server (0), or to send it a signal."""
        if self._keeper is None:
            if order:
                raise ServerError("the server is not started, or closed")
            setup = {
                "parent": os.getpid(),
                "command": [str(self._programs / "postgres"), "-D", str(self.folder / "data")],
                "environment": {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"},
                "folder": str(self.folder),
                "log": str(self.folder / "log"),
                "user": self._account,
            }
            self._keeper = subprocess.Popen(
                (sys.executable, "-I", Path(__file__).with_name("keeper.py"), json.dumps(setup)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
        assert self._keeper.stdin is not None
        self._keeper.stdin.write(bytes([order]))

    def _hear(self, timeout: float) -> None:
        """Take the keeper's next line if it comes in time."""
        assert self._keeper is not None
        assert self._keeper.stdout is not None
        output = self._keeper.stdout.fileno()
        if b"\n" not in self._heard and select.select((output,), (), (), timeout)[0]:
            read = os.read(output, 4096)
            if not read:
                self.pid = None
                raise ServerError("the program that keeps PostgreSQL has ended")
            self._heard += read
        line, end, rest = self._heard.partition(b"\n")
        if not end:
            return
        self._heard = rest
        word, _, value = line.decode().partition(" ")
        if word == "started":
            self.pid = int(value)
        elif word == "ended":
            self.pid = None


def _says_ready(file: Path) -> bool:
    with contextlib.suppress(OSError):
        lines = file.read_text().splitlines()
        return len(lines) >= 8 and lines[7].strip() == "ready"
    return False


def programs() -> Path:
    """The folder of PostgreSQL's own programs, which Debian keeps out of the path."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    versions = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if not versions:
        raise ServerError("PostgreSQL is not installed; on Debian: apt install postgresql")
    return max(versions, key=lambda path: float(path.parent.name))


def account() -> str | None:
    """Whom to run it as: it does not run as root."""
    if os.geteuid():
        return None
    there = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in ACCOUNTS if name in there)
