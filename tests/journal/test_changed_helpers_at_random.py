"""Random runs whose helper is another one in each process, cut off at random moments.

Each ends as a run that is never cut off and whose helper stays the same: each effect happens once.
Or it waits, and says what differs.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from journal.crash import crash
from moothall import (
    ACCESS_REQUESTED,
    Action,
    Journal,
    Later,
    ReActAgent,
    RunMismatch,
    ScriptedModel,
    Waiting,
)
from moothall.journal import Done
from moothall.models.protocol import Call

_PROCESSES = 25  # after so many, none is killed any more
_FORMS = ("kept", "fresh", "fork")
_CHANGES = [
    (form, where, id, prompt)
    for form, where, id, prompt in itertools.product(
        _FORMS, ("none", "same", "other"), ("helper", "helper2"), ("Help.", "Help briefly.")
    )
    if not (form != "kept" and where == "other")
]


class Killed(BaseException):
    """The process is gone."""


class World:
    """What is beside the processes: the plan, its effects, and where the journal is."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.random = random.Random(seed)
        self.folder = folder
        self.place = 0
        self.done: Counter[str] = Counter()
        self.left = 0
        self.dead = False
        self.mismatches = 0
        self.journals: dict[Path, Journal] = {}  # of all processes, until the end
        plan = self.random
        self.asked = {
            f"ask-{n}": [
                Call("0", plan.choice(("work", "pay", "order")), {"key": f"{n}.{step}"})
                for step in range(plan.randint(1, 3))
            ]
            for n in range(plan.randint(1, 3))
        }
        self.answers = [
            (
                Call("a", "helper", {"text": text}),
                *([Call("b", "work", {"key": f"own {text}"})] if plan.random() < 0.4 else ()),
            )
            for text in self.asked
        ]

    @property
    def file(self) -> Path:
        return self.folder / f"{self.place}.db"

    def journal(self, file: Path) -> Journal:
        if file not in self.journals:
            self.journals[file] = Journal(file)
        return self.journals[file]

    def moment(self) -> None:
        """Perhaps the process ends now: what its file holds is all that is left of it."""
        if not self.dead and self.left:
            self.left -= 1
            if not self.left:
                if self.file.exists():
                    crash(self.file, self.folder / f"{self.place + 1}.db")
                self.dead = True
        if self.dead:
            raise Killed

    def act(self, key: str) -> str:
        self.moment()
        self.done[key] += 1
        self.moment()
        return f"did {key}"

    # -- a process ---------------------------------------------------------------------------------

    def actions(self) -> list[Action]:
        async def work(key: str) -> str:
            return self.act(key)

        async def order(key: str) -> str:
            self.act(key)
            raise Later(f"order {key}")

        return [
            Action("work", work, "Work.", guard=()),
            Action("pay", work, "Pay.", access_policy=ACCESS_REQUESTED, guard=()),
            Action("order", order, "Order.", guard=()),
        ]

    def model(self, answers: dict[str, list[Any]]) -> ScriptedModel:
        """Return a model that makes the calls of what it was asked, and says their results."""

        def answer(heard: list[dict[str, Any]], _: Any) -> Any:
            self.moment()
            last = max(n for n, each in enumerate(heard) if each["role"] == "user")
            since = heard[last + 1 :]
            turns = [each for each in since if each.get("tool_calls")]
            calls = answers[str(heard[last]["content"])]
            if len(turns) < len(calls):
                return calls[len(turns)]
            return "; ".join(str(each["content"]) for each in since if each["role"] == "tool")

        return ScriptedModel(answer)

    def clerk(self, form: str, where: str, id: str, prompt: str) -> ReActAgent:
        file = {"none": None, "same": self.file, "other": self.folder / "own.db"}[where]
        helper = ReActAgent(
            id,
            self.model({text: [*calls] for text, calls in self.asked.items()}),
            actions=self.actions(),
            approver=Waiting(),
            journal=None if file is None else self.journal(file),
            system_prompt=prompt,
        )
        options = {"fresh": form == "fresh", "fork": form == "fork"}
        asking = helper.as_action("helper", "Ask.", **options)
        return ReActAgent(
            "clerk",
            self.model({"go": [*self.answers]}),
            actions=[asking, self.actions()[0]],
            journal=self.journal(self.file),
        )

    async def live(self, change: Any) -> str:
        """Run one process; return why the reply ended."""
        self.dead = False
        try:
            reply = await self.clerk(*change).reply("go", run_id="r")
        except Killed:
            self.place += (self.folder / f"{self.place + 1}.db").exists()
            return "killed"
        except RunMismatch as error:
            self.mismatches += bool(error.changed)
            return "mismatch"
        if self.dead:  # a task beside it was killed
            self.place += (self.folder / f"{self.place + 1}.db").exists()
            return "killed"
        if reply.stop_reason == "done":
            self.text = reply.text
        assert reply.stop_reason in ("done", "waiting", "in_doubt"), reply
        return reply.stop_reason

    def answer(self) -> None:
        """Have a person, and others, answer what waits."""
        journal = self.journal(self.file)
        for wait in journal.waiting(kind=("approval", "result", "doubt")):
            if wait.kind == "approval":
                journal.answer(wait.run, wait.key, True, by="eva")
            elif wait.kind == "result" and wait.name.startswith("order "):
                journal.answer(wait.run, wait.key, f"came {wait.name}")
            elif wait.kind == "doubt":
                key = str(wait.args.get("key"))
                word = "came order" if wait.action == "order" else "did"
                decision: Any = Done(f"{word} {key}") if self.done[key] else "repeat"
                journal.answer(wait.run, wait.key, decision, by="eva")


def expected(world: World) -> tuple[Counter[str], str]:
    """Return each effect, and the text, of a run that nothing cuts off."""
    texts = []
    effects = Counter[str]()
    for text, answer in zip(world.asked, world.answers, strict=True):
        results = []
        for call in world.asked[text]:
            key = call.args["key"]  # type: ignore[index]
            effects[key] += 1
            results.append(f"came order {key}" if call.name == "order" else f"did {key}")
        texts.append("; ".join(results))
        if len(answer) > 1:
            effects[f"own {text}"] += 1
            texts.append(f"did own {text}")
    return effects, "; ".join(texts)


def compare(seed: int, folder: Path) -> tuple[int, int]:
    """Compare a run with one that nothing cuts off; return how often it was killed, and waited."""
    folder.mkdir(exist_ok=True)
    world = World(seed, folder)
    changes = [world.random.choice(_CHANGES) for _ in range(world.random.randint(1, 4))]
    killed = 0

    async def live() -> str:
        nonlocal killed
        end = ""
        for number in range(_PROCESSES + 8 * len(changes)):
            world.left = world.random.randint(1, 20) if number < _PROCESSES else 0
            if number and world.random.random() < 0.4:
                change = world.random.choice(changes)
            else:
                change = changes[number % len(changes)]
            end = await world.live(change)
            killed += end == "killed"
            if end == "done":
                break
            world.answer()
        return end

    assert asyncio.run(live()) == "done", (seed, world.done)
    for journal in world.journals.values():
        journal.close()
    effects, text = expected(world)
    assert (world.done, world.text) == (effects, text), seed
    return killed, world.mismatches


@pytest.mark.parametrize("seed", range(12))
def test_run_whose_helper_changes_does_everything_once(tmp_path: Path, seed: int) -> None:
    for each in range(seed * 5, seed * 5 + 5):
        compare(each, tmp_path / str(each))


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_runs_whose_helpers_change_do_everything_once(tmp_path: Path) -> None:
    ends = [compare(seed, tmp_path / str(seed)) for seed in range(1000, 3000)]
    assert all(sum(each) > 1000 for each in zip(*ends, strict=True))
