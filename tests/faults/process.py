"""The worker's process, started, told and killed."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Self

from commands import Command

WAIT_S = 30
TESTS = Path(__file__).resolve().parent.parent


def wait_for(condition: Any, what: str, timeout: float = WAIT_S) -> None:
    """Wait on a condition in another process, of which nothing gives notice."""
    tick = threading.Event()
    for _ in range(int(timeout * 100)):
        if condition():
            return
        tick.wait(0.01)
    raise AssertionError(f"it did not come about in {timeout} s: {what}")


class Rivals:
    """Processes that all want one id, at once."""

    def __init__(self, port: int, exchange: str, id: str, count: int = 2) -> None:
        command = (sys.executable, "-m", "faults.rival", str(port), exchange, id)
        self.processes = [
            subprocess.Popen(
                command,
                cwd=TESTS,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                bufsize=1,
            )
            for _ in range(count)
        ]

    def wait(self) -> None:
        """Wait until all are connected."""
        assert self._said() == ["ready"] * len(self.processes)

    def claim(self) -> list[str]:
        """Have all claim the id at once; gives what each says: `mine` or `taken`."""
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.write("now\n")
        return self._said()

    def _said(self) -> list[str]:
        streams = [process.stdout for process in self.processes if process.stdout is not None]
        return [stream.readline().strip() for stream in streams]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()


class Process:
    """Runs `faults.worker`; its log is kept in a file, also over a restart."""

    def __init__(self, settings: dict[str, Any], log: Path) -> None:
        self._log = log
        self._settings = json.dumps(settings)
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = Command(
                self._settings,
                module="faults.worker",
                cwd=TESTS,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._hear("ready")

    def tell(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(word + "\n")
        self._hear("done")

    def wait(self) -> None:
        """Wait until it has ended by itself."""
        self._process.wait(WAIT_S)
        self._process.communicate(timeout=WAIT_S)

    def kill(self) -> None:
        """Have it gone, at once."""
        self._process.kill()
        self._process.communicate()

    def close(self) -> None:
        """Have it close its space and end."""
        self._process.communicate(timeout=WAIT_S)
        assert self._process.returncode == 0, self.log

    @property
    def log(self) -> str:
        return self._log.read_text()

    def said(self, text: str) -> bool:
        return text in self.log

    def wait_to_say(self, text: str) -> None:
        wait_for(lambda: self.said(text), f"{text!r} in the worker's log")

    def _hear(self, word: str) -> None:
        assert self._process.stdout is not None
        heard = self._process.stdout.readline()
        assert heard == f"{word}\n", f"the worker said {heard!r}, not {word!r}: {self.log}"
