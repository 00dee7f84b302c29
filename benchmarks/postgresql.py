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
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from benchmarks.kept import KeptServer, listens

SETTINGS = {"max_connections": 200, "shared_buffers": "16MB", "autovacuum": "off"}


class ServerError(RuntimeError):
    """The server did not do what it was told; the message has the end of its log."""


class Authority(NamedTuple):
    """What the server's TLS shows, each as PEM."""

    chain: bytes
    key: bytes


class Server(KeptServer):
    """A PostgreSQL server; `with` starts it, and leaves nothing behind.

    Args:
        settings: Lines of postgresql.conf: `{"wal_level": "logical"}`.
        tls: The certificate with which it takes connections by TLS too.
    """

    what, error, start_s = "PostgreSQL", ServerError, 30.0
    stopping, killing, accounts = signal.SIGINT, signal.SIGQUIT, ("postgres", "nobody")
    user = "tester"
    password = "never-shown-7f3a"

    def __init__(
        self, settings: Mapping[str, object] | None = None, tls: Authority | None = None
    ) -> None:
        self._programs = programs()
        self._settings: dict[str, object] = {**SETTINGS, **(settings or {})}
        self._tls = tls
        super().__init__()

    def url(self, schema: str | None = None, port: int | None = None, password: bool = True) -> str:
        """The URL of its database, for a schema of one's own; by another port, as of a proxy."""
        secret = f":{self.password}" if password else ""
        options = "" if schema is None else f"?options=-csearch_path%3D{schema}"
        return f"postgresql://{self.user}{secret}@127.0.0.1:{port or self.port}/postgres{options}"

    def _write(self) -> tuple[list[str], dict[str, str]]:
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
        settings = self._settings | {
            "listen_addresses": "'127.0.0.1'",
            "port": self.port,
            "unix_socket_directories": f"'{folder}'",
        }
        if self._tls is not None:
            for name, content in (("chain.pem", self._tls.chain), ("key.pem", self._tls.key)):
                (data / name).write_bytes(content)
                (data / name).chmod(0o600)
                if self._account is not None:
                    shutil.chown(data / name, self._account)
            settings |= {"ssl": "on", "ssl_cert_file": "'chain.pem'", "ssl_key_file": "'key.pem'"}
        with (data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = {value}\n" for name, value in settings.items())
        environment = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"}
        return [str(self._programs / "postgres"), "-D", str(data)], environment

    def start(self, timeout: float | None = None) -> None:
        """Start it, as in `KeptServer`, also after a kill, which leaves its file of its process."""
        if self.pid is None:
            with contextlib.suppress(FileNotFoundError):
                (self.folder / "data" / "postmaster.pid").unlink()
        super().start(timeout)

    def _is_ready(self) -> bool:
        return _says_ready(self.folder / "data" / "postmaster.pid") and listens(self.port)


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
