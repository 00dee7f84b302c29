"""The peers of `pins.toml`, their programs under way, and our server that is killed."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import tomllib
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pytest

from commands import Command
from packages import node, npm_folder, python

HERE = Path(__file__).parent
PROGRAMS = HERE / "programs"


@dataclass(frozen=True)
class Peer:
    """A client or server of other people's."""

    name: str
    title: str
    program: str
    modes: list[str]
    npm: tuple[str, ...] = ()
    pypi: tuple[str, ...] = ()
    kind: str = "client"
    """`client` calls our server; `mcp`, `a2a` and `llama` are servers that we call."""
    quick: bool = False
    """Whether `make test` plays it, too."""
    speaks: str = "openai"
    """Its protocol."""

    def __repr__(self) -> str:
        return self.name

    def command(self) -> list[str]:
        """Return the command of its program; the first time, its packages are installed."""
        if self.pypi:
            return [python(*self.pypi), "-E", "-X", "utf8", str(PROGRAMS / self.program)]
        if not self.npm:
            return [sys.executable, str(PROGRAMS / self.program)]
        folder = npm_folder(*self.npm)
        for each in PROGRAMS.glob("*.mjs"):  # Node looks for packages from the file's folder up
            fresh = folder / f"{each.name}.{os.getpid()}"
            shutil.copy(each, fresh)
            fresh.replace(folder / each.name)
        return [node(), str(folder / self.program)]


def peers() -> list[Peer]:
    pins = tomllib.loads(HERE.joinpath("pins.toml").read_text())
    made = []
    for name, its in pins.items():
        lists = {key: tuple(its.pop(key, ())) for key in ("npm", "pypi")}
        made.append(Peer(name, **lists, **its))
    return made


def plays(kind: str) -> list[Any]:
    """Return the peers of a kind, as the cases of a test."""
    cases = []
    for peer in peers():
        if peer.kind == kind:
            marks = [pytest.mark.timeout(300), *([] if peer.quick else [pytest.mark.long])]
            cases.append(pytest.param(peer, marks=marks, id=peer.name))
    return cases


class Program:
    """A program at a port of its own, which is killed and started again there."""

    def __init__(self, *command: str) -> None:
        self._command = command
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._process: subprocess.Popen[bytes] | Command

    def _started(self) -> subprocess.Popen[bytes] | Command:
        return subprocess.Popen(self._command, stdin=self._listening)

    def __enter__(self) -> Self:
        self._process = self._started()
        return self

    def restart(self) -> None:
        """Kill it, and start it again at its port."""
        self._kill()
        self._process = self._started()

    def _kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def __exit__(self, *_: object) -> None:
        self._kill()
        self._listening.close()


class Hall(Program):
    """Our server, of an agent behind all doors over a journal."""

    def _started(self) -> Command:
        stdin = self._listening.fileno()
        imports = ("uvicorn", "mcp.server.lowlevel", "starlette.applications")
        about = {"module": "peers.hall", "imports": imports, "cwd": HERE.parent}
        return Command(*self._command, stdin=stdin, **about)


class Conversations:
    """What a peer's program holds with a server, one in each mode."""

    def __init__(self, peer: Peer, url: str, *args: str) -> None:
        self.modes, self.url = list(peer.modes), url
        self._process = subprocess.Popen(
            [*peer.command(), url, *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._said: list[str] = []
        self._listening = threading.Thread(
            target=lambda: self._said.extend(self._process.stderr or ())
        )
        self._listening.start()

    def ask(self, mode: str, question: Any) -> str:
        """Have it take a turn, and return the answer, or what went wrong."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"mode": mode, "question": question}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            self._listening.join()
            raise AssertionError(f"it ended in mode {mode} at {question!r}:\n{''.join(self._said)}")
        told = json.loads(line)
        text = told.get("error", told.get("text"))
        return text if isinstance(text, str) else json.dumps(text)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._listening.join()
        for each in (self._process.stdin, self._process.stdout, self._process.stderr):
            if each is not None:
                with suppress(BrokenPipeError):
                    each.close()


def playing(peer: Peer, url: str) -> closing[Conversations]:
    return closing(Conversations(peer, url))
