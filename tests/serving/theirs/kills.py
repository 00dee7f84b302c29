"""Kills a run at each of its points, and resumes it: what is done twice or not at all shows."""

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

from moothall import Journal
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


MakeAgent = Callable[[Points, Path], Any]


def _start(make: MakeAgent, folder: Path, deadly: int | None) -> dict[str, Any] | None:
    """Run the agent in a process of its own; return what came of it, None if it was killed."""
    out = folder / "out.json"
    out.unlink(missing_ok=True)
    if not (process := os.fork()):
        points = Points(folder / "log", deadly)
        try:
            agent = make(points, folder / "runs.db")
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


def kill_everywhere(make: MakeAgent, folder: Path) -> dict[str, Any]:
    """Kill a run at each of its points, and resume each to its end; return what came of it."""
    (folder / "whole").mkdir()
    whole = _start(make, folder / "whole", None)
    assert whole is not None
    assert whole["reason"] == "done", whole
    expected = _log(folder / "whole")
    result: dict[str, Any] = {"points": whole["points"], "killed": 0, "asked": 0, "wrong": []}
    result["requests again"] = 0
    for deadly in range(1, whole["points"] + 1):
        place = folder / f"{deadly}"
        place.mkdir()
        end = _start(make, place, deadly)
        result["killed"] += end is None
        for _ in range(5):
            if end is not None and end["reason"] == "done":
                break
            if end is not None and end["reason"] == "in_doubt":
                result["asked"] += _decide(place)
            end = _start(make, place, None)
        log = _log(place)
        result["requests again"] += log.pop("model") - expected["model"]
        effects = Counter({name: n for name, n in expected.items() if name != "model"})
        if end is None or end["text"] != whole["text"] or log != effects:
            result["wrong"].append((deadly, end, dict(log)))
    return result


def _decide(place: Path) -> int:
    """Decide about the calls in doubt as somebody does who looks whether they took effect."""
    log = _log(place)
    with Journal(place / "runs.db") as journal:
        doubts = journal.in_doubt(RUN)
        decisions = {}
        for each in doubts:
            name = "-".join(map(str, (each.action, *each.args.values())))
            decisions[each.number] = Done(f"{name} done") if log[name] else "repeat"
        journal.decide(RUN, decisions)
    return len(doubts)
