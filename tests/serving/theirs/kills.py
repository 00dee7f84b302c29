"""Has runs wait for an approval, and kills them at each of their points, to resume them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from moothall import Journal, Reply
from moothall.journal import Done

RUN = "r"


class Points:
    """The points of a run at which a process may be killed: each calls `here`."""

    def __init__(self, log: Path, deadly: int | None) -> None:
        self._log, self._deadly, self.count = log, deadly, 0

    def here(self) -> None:
        self.count += 1
        if self.count == self._deadly:
            os.kill(os.getpid(), signal.SIGKILL)

    def effect(self, name: str) -> str:
        """Do something that must not be done twice, with a point before and after."""
        self.here()
        with self._log.open("a") as file:
            file.write(f"{name}\n")
        self.here()
        return f"{name} done"

    def model(self) -> None:
        """Note a request to a model, with a point in it."""
        with self._log.open("a") as file:
            file.write("model\n")
        self.here()

    def watch_commits(self) -> None:
        """Have a point before and after each commit of the journal."""

        def watch(frame: FrameType, event: str, _: Any) -> None:
            code = frame.f_code
            is_commit = code.co_name == "write" and code.co_filename.endswith("journal/commits.py")
            if is_commit and event in ("call", "return"):
                self.here()

        threading.setprofile(watch)
        sys.setprofile(watch)


MakeAgent = Callable[[Points, str], Any]
"""Makes the agent, whose journal is there."""
Store = Callable[[Path], str]
"""Gives the path or the URL of the journal of a folder."""


def in_file(folder: Path) -> str:
    """Return the path of a folder's journal."""
    return str(folder / "runs.db")


def _start(make: MakeAgent, folder: Path, where: str, points: Points) -> dict[str, Any] | None:
    """Run the agent in a process of its own; return what came of it, None if it was killed."""
    out = folder / "out.json"
    out.unlink(missing_ok=True)
    if not (process := os.fork()):
        try:
            agent = make(points, where)
            points.watch_commits()
            reply = asyncio.run(agent.reply("Go", run_id=RUN))
            sys.setprofile(None)
            result = {"text": reply.text, "reason": reply.stop_reason, "detail": reply.detail}
            out.write_text(json.dumps({**result, "points": points.count}))
        finally:
            os._exit(0)
    os.waitpid(process, 0)
    return json.loads(out.read_text()) if out.exists() else None


def _log(folder: Path) -> Counter[str]:
    log = folder / "log"
    return Counter(log.read_text().split("\n")[:-1] if log.exists() else [])


async def reply_once_decided(
    make: Callable[[], Any], path: Path, decision: bool, effects: list[Any], task: str = "Pay Anna"
) -> Reply:
    """Return the reply of a run that waits for an approval, which another agent resumes."""
    first = await make().reply(task, run_id=RUN)
    assert (first.stop_reason, effects) == ("waiting", []), first.detail
    with Journal(path) as journal:
        (wait,) = journal.waiting()
        journal.answer(RUN, wait.key, decision)
    (resumed,) = await make().resume_decided()
    assert resumed.reply is not None
    assert resumed.reply.stop_reason == "done", resumed.reply.detail
    return resumed.reply


class _Killed:
    """A run that is killed at one of its points, and goes on to its end."""

    def __init__(self, make: MakeAgent, folder: Path, where: str, deadly: int | None) -> None:
        folder.mkdir()
        self.end: dict[str, Any] | None = None
        self.was_killed, self.asked = False, 0
        points = Points(folder / "log", deadly)
        for _ in range(8):
            self.end = _start(make, folder, where, points)
            if self.end is None:
                self.was_killed, points = True, Points(folder / "log", None)
                continue
            points.count = self.end["points"]
            if self.end["reason"] == "done":
                break
            with Journal(where) as journal:
                for wait in (each for each in journal.waiting() if each.kind == "approval"):
                    journal.answer(RUN, wait.key, True)
                self.asked += _decide(journal, _log(folder))
        self.log = _log(folder)


def kill_everywhere(
    make: MakeAgent, folder: Path, store: Store = in_file, every: int | None = None
) -> None:
    """Kill a run at each of its points, and resume each: nothing is done twice, or not at all.

    Unless told, a run in a file is killed at every third: that on a server, a long test, at each.
    What it waits for is permitted, and what is in doubt is decided by who looks at the effects.
    """
    whole = _Killed(make, folder / "whole", store(folder / "whole"), None)
    assert whole.end is not None
    assert whole.end["reason"] == "done", whole.end
    expected, wrong = {**whole.log, "model": 0}, []
    runs = [
        _Killed(make, folder / f"{deadly}", store(folder / f"{deadly}"), deadly)
        for deadly in range(1, whole.end["points"] + 1, every or (3 if store is in_file else 1))
    ]
    assert whole.end["points"] >= 20
    for place, run in enumerate(runs, 1):
        if (
            run.end is None
            or run.end["text"] != whole.end["text"]
            or {**run.log, "model": 0} != expected
        ):
            wrong.append((place, run.end, run.log))
    assert wrong == []
    assert len(runs) == sum(each.was_killed for each in runs)
    assert sum(each.asked for each in runs) > 0


def _decide(journal: Journal, log: Counter[str]) -> int:
    """Decide about the calls in doubt as somebody does who looks whether they took effect."""
    doubts = journal.in_doubt(RUN)
    decisions: dict[int, Any] = {}
    for each in doubts:
        name = "-".join(map(str, (each.action, *each.args.values())))
        decisions[each.number] = Done(f"{name} done") if log[name] else "repeat"
    journal.decide(RUN, decisions)
    return len(doubts)
