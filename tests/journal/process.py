"""Processes that are killed, seen from outside."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Self

from journal.program import RUN, THREADS, WIDTH, as_data, recorded, remembering
from moothall import Journal

TESTS = Path(__file__).resolve().parent.parent
KILLED = -9


class Processes:
    """Starts a process for each job, and waits until it has ended."""

    def __init__(self, module: str = "journal.program") -> None:
        self._starter = subprocess.Popen(
            (sys.executable, "-m", module),
            cwd=TESTS,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._starter.kill()
        self._starter.communicate()

    def run(self, folder: Path, program: str = "", **job: Any) -> int:
        """How a process ended that did the job."""
        assert self._starter.stdin is not None
        assert self._starter.stdout is not None
        job |= {"folder": str(folder), "program": program}
        self._starter.stdin.write(json.dumps(job) + "\n")
        return int(self._starter.stdout.readline())


def effects(folder: Path) -> Counter[str]:
    """How often each action began and ended, such as `begin post 1`."""
    path = folder / "effects"
    data = path.read_bytes() if path.exists() else b""
    return Counter(data[at : at + WIDTH].decode().strip() for at in range(0, len(data), WIDTH))


class Traces:
    """What the processes of a run have left in a folder."""

    def __init__(self, folder: Path, program: str) -> None:
        self.folder = folder
        self.program = program

    def effects(self) -> Counter[str]:
        return effects(self.folder)

    def doubted(self) -> list[str]:
        """What the journal has in doubt, such as `post 1`."""
        with self.journal() as journal:
            if not any(outline.id == RUN for outline in journal.runs()):
                return []
            return [f"{doubt.action} {doubt.args['n']}" for doubt in journal.in_doubt(RUN)]

    def decide(self, repeat: bool) -> None:
        with self.journal() as journal:
            journal.decide(RUN, "repeat" if repeat else "skip")

    def journal(self) -> Journal:
        return recorded(self.folder)

    def reply(self) -> dict[str, Any]:
        """The reply of the process that came to one."""
        said = json.loads((self.folder / "reply.json").read_text())
        return dict(said["reply"])

    def commits(self) -> int:
        said = json.loads((self.folder / "reply.json").read_text())
        return int(said["commits"])

    def replayed(self) -> dict[str, Any]:
        with self.journal() as journal:
            return json.loads(json.dumps(as_data(journal.replay(RUN))))  # type: ignore[no-any-return]

    def remembered(self) -> dict[str, list[dict[str, Any]]]:
        """Every message of the memory, by thread."""
        with remembering(self.folder) as memory:
            return {id: list(memory.thread(id).messages()) for id in THREADS[self.program]}
