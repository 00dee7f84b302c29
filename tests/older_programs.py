"""The programs whose journals and messages older versions have recorded, for `test_older_programs`.

`python -m older_programs FOLDER` records them with the moothall that it imports: each run in a
process that is killed in the midst of it, but those that end.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from moothall import (
    ACCESS_REQUESTED,
    Action,
    Agent,
    CallbackApprover,
    Conversation,
    DualActAgent,
    Journal,
    MaxTurns,
    ReActAgent,
    Researcher,
    ScriptedModel,
    action,
)
from moothall.research import Resource
from moothall.society import City, MobilityBlock, NeedsBlock, PlanBlock, Population, Society

LOOK: Final = {"name": "look", "args": {"at": "shelf"}}
PAY: Final = {"name": "pay", "args": {"coins": 3}}
DECISIONS: Final = tuple(
    json.dumps({"action": each, "new_instruction": text, "reasoning": ""})
    for each, text in (("CONTINUE", "Look."), ("REDIRECT", "Look again."), ("TERMINATE", ""))
)


class Deeds:
    """What the actions of a program have done, and after how many of them its process dies."""

    def __init__(self, dies_at: int = 0) -> None:
        self.dies_at, self.done = dies_at, list[str]()

    def did(self, deed: str) -> None:
        """Note what was done, or die of it."""
        self.done.append(deed)
        if len(self.done) == self.dies_at:
            os._exit(9)

    def look(self) -> Action:
        """An action that may be repeated."""

        def look(at: str) -> str:
            """Look at it."""
            self.did(f"look at {at}")
            return f"the {at} is red"

        return Action("look", look, "Look.", idempotent=True)

    def pay(self, **options: Any) -> Action:
        """An action that may not be repeated."""

        def pay(coins: int) -> str:
            """Pay."""
            self.did(f"pay {coins}")
            return f"paid {coins}"

        return Action("pay", pay, "Pay.", **options)


def loop(deeds: Deeds, journal: Journal) -> ReActAgent:
    """Looks twice, and says so."""
    model = ScriptedModel([LOOK, {"name": "look", "args": {"at": "wall"}}, "Both are red."])
    return ReActAgent("loop", model, actions=[deeds.look()], journal=journal)


def payer(deeds: Deeds, journal: Journal) -> ReActAgent:
    """Pays."""
    model = ScriptedModel([PAY, "It is paid."])
    return ReActAgent("payer", model, actions=[deeds.pay()], journal=journal)


def asking(deeds: Deeds, journal: Journal) -> ReActAgent:
    """Pays once a person has permitted it, who is asked by a function."""

    def permit(_: Any) -> bool:
        deeds.did("asked")
        return True

    pay = deeds.pay(access_policy=ACCESS_REQUESTED)
    model = ScriptedModel([PAY, "It is paid."])
    approver = CallbackApprover(permit)
    return ReActAgent("asking", model, actions=[pay], approver=approver, journal=journal)


def waiting(deeds: Deeds, journal: Journal) -> ReActAgent:
    """Pays once a person has answered in the journal, for versions that have it."""
    from moothall import Waiting

    pay = deeds.pay(access_policy=ACCESS_REQUESTED)
    model = ScriptedModel([PAY, "It is paid."])
    return ReActAgent("waiting", model, actions=[pay], approver=Waiting(), journal=journal)


def dual(deeds: Deeds, journal: Journal) -> DualActAgent:
    """H has R look twice."""
    human = ReActAgent("H", ScriptedModel(DECISIONS))
    model = ScriptedModel([LOOK, "It is red.", LOOK, "It is red indeed."])
    reactive = ReActAgent("R", model, actions=[deeds.look()])
    return DualActAgent(human=human, reactive=reactive, id="dual", journal=journal)


def talk(deeds: Deeds, journal: Journal) -> Conversation:
    """Two look, each in its turn."""
    agents = [
        ReActAgent(id, ScriptedModel([LOOK, f"{id} has looked."] * 2), actions=[deeds.look()])
        for id in ("ann", "bob")
    ]
    return Conversation(agents, until=MaxTurns(3), id="talk", journal=journal)


def boss(deeds: Deeds, journal: Journal) -> ReActAgent:
    """Has a helper look, as an action."""
    helper = ReActAgent("helper", ScriptedModel([LOOK, "Red."]), actions=[deeds.look()])
    model = ScriptedModel([{"name": "helper", "args": {"text": "Look."}}, "It is red."])
    return ReActAgent("boss", model, actions=[helper.as_action()], journal=journal)


def researcher(deeds: Deeds, journal: Journal) -> Researcher:
    """Reads a page, without a model."""

    @action(idempotent=True)
    def search(query: str) -> list[Resource]:
        """Search."""
        deeds.did("search")
        text = "The lighthouse of Genoa is 77 metres tall."
        return [Resource("https://a.test/lighthouse", "Lighthouse", True, text)]

    return Researcher("researcher", None, tools=[search], iterations=2, journal=journal)


PROGRAMS: Final[dict[str, tuple[Callable[[Deeds, Journal], Any], str, int]]] = {
    "loop": (loop, "Look at both.", 0),
    "loop-cut": (loop, "Look at both.", 2),
    "doubt": (payer, "Pay.", 1),
    "asking": (asking, "Pay.", 1),
    "waiting": (waiting, "Pay.", 0),
    "dual": (dual, "What colour is the shelf?", 0),
    "dual-cut": (dual, "What colour is the shelf?", 2),
    "talk-cut": (talk, "Look, each of you.", 2),
    "boss-cut": (boss, "What colour is it?", 1),
    "research": (researcher, "How tall is the lighthouse of Genoa?", 0),
    "research-cut": (researcher, "How tall is the lighthouse of Genoa?", 1),
}
"""By the id of its run: who makes the agent, its task, and at which deed its process dies."""


def town(journal: Journal | None, *, rows: bool) -> Society:
    """A town of six: of agents, or in columns."""
    city, blocks = City.generate(seed=1, citizens=10), [NeedsBlock(), PlanBlock(), MobilityBlock()]
    if rows:
        return Society(Population(6, city, blocks, seed=1), seed=1, journal=journal)
    return Society(6, city, seed=1, journal=journal)


class Clerk(Agent):
    """Gets what lay in its queue."""

    def __init__(self) -> None:
        super().__init__("clerk")
        self.heard = list[tuple[str, Any]]()

    @action
    async def note(self, text: str) -> None:
        """Note something."""
        self.heard.append((str(self._current_message["from"]), text))  # type: ignore[index]

    @action
    async def add(self, a: int, b: int) -> int:
        """Add two numbers."""
        return a + b


def live(path: str, *, rows: bool, stop: int) -> None:
    """Have a town live 8 steps, or die at one of them."""

    def progress(row: dict[str, Any]) -> None:
        if row["step"] == stop:
            os._exit(9)

    with Journal(path) as journal, town(journal, rows=rows) as society:
        run_id = "rows" if rows else "agents"
        options: Any = {"run_id": run_id, "save_every": 2, "progress": progress}
        asyncio.run(society.run(steps=8, **options))


def record(folder: Path, name: str) -> None:
    """Record one run, in this process."""
    if name in ("agents", "rows"):
        live(str(folder / "towns.db"), rows=name == "rows", stop=5)
    make, task, dies_at = PROGRAMS[name]
    with Journal(folder / "runs.db") as journal:
        make(Deeds(dies_at), journal).reply_sync(task, run_id=name, thread="anna")


def main(folder: Path) -> None:
    """Record all that the imported moothall can."""
    for name in (*PROGRAMS, "agents", "rows"):
        command = (sys.executable, "-m", "older_programs", str(folder), name)
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        print(name, done.returncode, done.stderr[-300:])


if __name__ == "__main__":
    if len(sys.argv) > 2:
        record(Path(sys.argv[1]), sys.argv[2])
    else:
        main(Path(sys.argv[1]))
