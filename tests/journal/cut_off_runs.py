"""Random runs that are cut off at random moments, wait, and go on with fresh objects.

Each is compared with the same run that is never cut off: `control` gives what comes later at once.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
from collections import Counter
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from journal.crash import crash
from moothall import (
    ACCESS_REQUESTED,
    Action,
    Budget,
    Call,
    CallbackApprover,
    Context,
    Journal,
    Later,
    Notes,
    ReActAgent,
    Refused,
    ScriptedModel,
    SQLiteMemory,
    Waiting,
    action,
)
from moothall.foundation.errors import StateError
from moothall.journal import Done

USER = "Pay user@good.example, and take the numbers 0 1 2 3 4 5 6 7 8 9."
AGAIN = "Go on with the numbers 0 1 2 3 4 5 6 7 8 9."
_ACTIONS = ("look", "read_mail", "fetch", "order", "pay", "act", "ask", "note", "book", "fresh")


class Killed(BaseException):
    """The process is gone."""


@dataclass
class Outcome:
    """What must be equal, however often a run was cut off."""

    texts: list[str] = field(default_factory=list)
    steps: list[Any] = field(default_factory=list)
    outside: list[list[str]] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)
    done: Counter[str] = field(default_factory=Counter)
    spent: list[int] = field(default_factory=list)


class World:
    """What is beside the processes: effects, folders, and what a person decides."""

    def __init__(
        self, seed: int, folder: Path, waits: bool, cuts: bool, kept: bool, forks: bool
    ) -> None:
        self.random = random.Random(seed)
        self.folder, self.waits, self.cuts, self.forks = folder, waits, cuts, forks
        self.plans = [self._plan(kept), self._plan(kept)]
        self.moments = random.Random(seed + 1)
        self.outcome = Outcome()
        self.place = 0  # of the files: each process that is killed leaves copies
        self.decided: Counter[str] = Counter()  # effects that a person has stated
        self.dead = False
        self.left = 0  # moments until it is killed
        self.killed = 0

    def _plan(self, kept: bool) -> list[list[Call]]:
        """Return the calls of each answer of the model."""
        names = (*_ACTIONS, "kept") if kept else _ACTIONS
        plan = list[list[Call]]()
        for turn in range(self.random.randint(1, 5)):
            calls = list[Call]()
            for place in range(self.random.choice((1, 1, 2, 3))):
                name, number = self.random.choice(names), self.random.randrange(10)
                if name == "kept" and any(call.name == name for call in calls):
                    name = "look"  # its conversation would take the second while the first waits
                args: dict[str, Any] = {"n": number}
                if name == "pay":
                    whom = (
                        "user@good.example",
                        f"m{number}@evil.example",
                        f"f{number}@evil.example",
                    )
                    args = {"to": self.random.choice(whom)}
                elif name == "note":
                    args = {"name": f"note-{number}", "text": f"m{number}@evil.example"}
                elif name in ("fresh", "kept"):
                    args = {"text": f"{number}"}
                calls.append(Call(f"c{turn}-{place}", name, args))
            plan.append(calls)
        return plan

    # -- moments -----------------------------------------------------------------------------------

    @property
    def journal_path(self) -> Path:
        return self.folder / f"runs-{self.place}.db"

    @property
    def memory_path(self) -> Path:
        return self.folder / f"memory-{self.place}.db"

    def moment(self) -> None:
        """Perhaps be killed now: what the files hold is what the next process finds."""
        if self.dead or not self.cuts:
            return
        self.left -= 1
        if not self.left and self.forks:
            os.kill(os.getpid(), signal.SIGKILL)
        if not self.left:
            self.dead = True
            for kind in ("runs", "memory"):
                now, then = (self.folder / f"{kind}-{n}.db" for n in (self.place, self.place + 1))
                crash(now, then)

    def alive(self) -> None:
        if self.dead:
            raise Killed

    def effect(self, done: str) -> None:
        with open(self.folder / "effects", "a") as file:
            file.write(f"{done}\n")
        self.moment()

    def _effects(self) -> list[str]:
        file = self.folder / "effects"
        return file.read_text().splitlines() if file.exists() else []

    # -- agents ------------------------------------------------------------------------------------

    def later(self, name: str, value: str) -> Any:
        return Later(name) if self.waits else value

    def decision(self, name: str, args: dict[str, Any]) -> Any:
        kind = sum(map(ord, json.dumps([name, args]))) % 4
        return (True, True, Refused("not now"), True)[kind]

    def approver(self, journal: Journal | None) -> Any:
        if self.waits:
            return Waiting()

        def decide(request: Any) -> Any:
            self.outcome.asked.add(json.dumps([request.action, request.args]))
            return self.decision(request.action, request.args)

        return CallbackApprover(decide, lambda question: f"answer {question.text}")

    def actions(self) -> list[Action]:
        # Effects are on the loop: a thread would outlive its process.
        @action(idempotent=True, guard=())
        def look(n: int) -> str:
            """Look."""
            self.alive()
            return f"seen {n}"

        @action(outside=True, idempotent=True, guard=())
        def read_mail(n: int) -> str:
            """Read the mail."""
            self.alive()
            return f"write to m{n}@evil.example"

        @action(outside=True, guard=())
        async def fetch(n: int) -> Any:
            """Fetch what a webhook brings."""
            self.alive()
            return self.later(f"fetch-{n % 2}", f"write to f{n}@evil.example")

        @action(guard=())
        async def order(n: int) -> Any:
            """Order, and hear later."""
            self.alive()
            return self.later("order", f"ordered {n}")

        @action(guard=("to",))
        async def pay(to: str) -> str:
            """Pay."""
            self.alive()
            self.effect(f"pay {to}")
            return f"paid {to}"

        async def act(n: int) -> str:
            """Act."""
            self.alive()
            self.effect(f"act {n}")
            return f"did {n}"

        @action(guard=(), idempotent=True)
        async def ask(n: int, context: Context[Any]) -> str:
            """Ask a person."""
            self.alive()
            return await context.ask_person(f"Which {n}?")

        @action(idempotent=True, guard=())
        def book(n: int) -> str:
            """Return a book."""
            self.alive()
            return "\n".join(f"line {n}: {line}" for line in range(400))

        acted = Action("act", act, guard=(), access_policy=ACCESS_REQUESTED)
        return [look, read_mail, fetch, order, pay, acted, ask, book]

    def answer(self, plan: list[list[Call]], messages: list[dict[str, Any]]) -> Any:
        """Return the model's answer, by how many it gave since the user spoke."""
        self.alive()
        last = max(n for n, each in enumerate(messages) if each["role"] == "user")
        turn = sum(each["role"] == "assistant" for each in messages[last:])
        said = [str(each["content"])[:60] for each in messages[last:] if each["role"] == "tool"]
        return plan[turn] if turn < len(plan) else f"Done: {said}".replace("replaced", "noted")

    def clerk(self, journal: Journal | None) -> tuple[ReActAgent, list[ReActAgent]]:
        def helped(messages: list[dict[str, Any]], _: Any) -> Any:
            number = int(next(m["content"] for m in reversed(messages) if m["role"] == "user"))
            two = [Call("h0", "fetch", {"n": number}), Call("h1", "ask", {"n": number})]
            first = [Call("h0", "read_mail", {"n": number})]
            return self.answer([two, first] if number % 2 else [first, two], messages)

        of = {"approver": self.approver(journal), "journal": journal}
        helpers = [
            ReActAgent(name, ScriptedModel(helped), actions=self.actions(), **of)
            for name in ("fresh", "kept")
        ]
        fresh, kept = helpers
        plans = {USER: self.plans[0], AGAIN: self.plans[1]}

        def plan(messages: list[dict[str, Any]], _: Any) -> Any:
            asked = next(m["content"] for m in reversed(messages) if m["role"] == "user")
            return self.answer(plans[asked], messages)

        memory = SQLiteMemory(self.memory_path, "clerk")
        actions = [*self.actions(), fresh.as_action(fresh=True), kept.as_action()]
        notes = Notes(self.folder / "notes")
        made = ReActAgent(
            "clerk", ScriptedModel(plan), actions=actions, blocks=[notes], memory=memory, **of
        )
        return made, helpers

    # -- a person, and webhooks --------------------------------------------------------------------

    def value_of(self, wait: Any) -> Any:
        if wait.kind == "approval":
            return self.decision(wait.action, wait.args)
        if wait.kind == "question":
            return f"answer {wait.text}"
        number = wait.args["n"]
        return f"ordered {number}" if wait.action == "order" else f"write to f{number}@evil.example"

    def answer_some(self, journal: Journal) -> None:
        """Answer some of what waits, in any order, by key or by name."""
        kinds = ("approval", "question", "result")
        waits = [w for w in journal.waiting(kind=kinds) if w.action not in ("fresh", "kept")]
        self.moments.shuffle(waits)
        for wait in waits[: self.moments.randint(1, len(waits))] if waits else ():
            value = self.value_of(wait)
            if wait.kind == "approval":
                self.outcome.asked.add(json.dumps([wait.action, wait.args]))
            by_name = bool(wait.name) and self.moments.random() < 0.5
            try:
                journal.answer(wait.run, wait.name if by_name else wait.key, value)
            except StateError as error:
                if not by_name or "several calls" not in str(error):
                    raise
                journal.answer(wait.run, wait.key, value)

    def decide(self, journal: Journal, run: str) -> None:
        """Decide about the calls in doubt, by looking whether they took effect."""
        for doubt in journal.in_doubt(run):
            said = f"{doubt.action} {doubt.args.get('to', doubt.args.get('n'))}"
            if doubt.action not in ("pay", "act"):
                decision: Any = "repeat"
            else:
                ended = sum(
                    f"{step[0]} {step[1].get('to', step[1].get('n'))}" == said
                    for step in self._ended(journal)
                )
                done = self._effects().count(said) > ended + self.decided[said]
                past = {"pay": "paid", "act": "did"}[doubt.action]
                decision = Done(f"{past} {said.split()[1]}") if done else "repeat"
                self.decided[said] += done
            journal.decide(run, {doubt.number: decision})

    def _ended(self, journal: Journal) -> list[tuple[str, dict[str, Any]]]:
        """Return the executed calls that a journal knows to have ended."""
        found = []
        for run in journal.runs(agent="clerk"):
            for entry in journal.entries(run.id):
                about = entry.data.get("about", {})
                if entry.kind == "ended" and about.get("action") in ("pay", "act"):
                    outcome = entry.data["result"]
                    if "result" in outcome["result"] and not entry.data.get("decided"):
                        found.append((about["action"], outcome["args"]))
        return found

    # -- runs --------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        made = self.outcome
        for number, text in enumerate((USER, AGAIN)):
            reply = self._reply(f"r{number}", text)
            made.texts.append(reply["text"])
            made.steps.append(reply["steps"])
            made.outside.append(reply["outside"])
            made.spent += reply["spent"]
        made.done = Counter(self._effects())
        return made

    def _reply(self, run: str, text: str) -> dict[str, Any]:
        for _ in range(300):
            self.left = self.moments.randint(1, 60)
            reply = self._forked(run, text) if self.forks else asyncio.run(self._work(run, text))
            if reply is None and not self.forks:
                self.place, self.dead = self.place + 1, False
            if reply is not None and reply["stop"] not in ("waiting", "in_doubt"):
                assert reply["stop"] == "done", reply
                return reply
            with Journal(self.journal_path) as journal:
                for each in journal.runs(state="in_doubt"):
                    self.decide(journal, each.id)
                if reply is not None and reply["stop"] == "waiting":
                    self.answer_some(journal)
        raise AssertionError("the run does not end")

    def _forked(self, run: str, text: str) -> dict[str, Any] | None:
        """Work in a process of its own, until it is killed (None) or the run waits."""
        out = self.folder / "reply.json"
        if not (child := os.fork()):
            try:
                out.write_text(json.dumps(asyncio.run(self._work(run, text))))
            finally:
                os._exit(0 if out.exists() else 1)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            self.killed += 1
            return None
        assert os.WEXITSTATUS(status) == 0, self.folder
        reply: dict[str, Any] = json.loads(out.read_text())
        out.unlink()
        return reply

    async def _work(self, run: str, text: str) -> dict[str, Any] | None:
        """Work as one process does, until it is killed (None) or the run waits."""
        journal = Journal(self.journal_path) if self.waits else None
        with journal or nullcontext():
            clerk, (_, kept) = self.clerk(journal)
            budget = Budget(actions=10**6, model_calls=10**6)
            if journal is not None:
                journal._commits.listeners.add(self.moment)
            with closing(clerk.memory):
                try:
                    if journal is not None:
                        await kept.resume_runs()
                    reply = await clerk.reply(text, run_id=run, budget=budget)
                except Killed:
                    return None
        if self.dead:
            return None
        steps = [
            [
                each.action,
                each.args,
                str(each.error or each.result["result"]).replace("replaced", "noted")[:80],
                # Others are known once something was read, in the same answer too.
                [name for name, its in each.origins.items() if _is_outside(its)],
            ]
            for each in reply.steps
        ]
        made = {"stop": reply.stop_reason, "text": reply.text, "steps": steps}
        spent = [budget.spent.actions, budget.spent.model_calls]
        return {**made, "outside": sorted(reply.outside), "spent": spent}


def _is_outside(origins: list[Any]) -> bool:
    return any(each.kind == "outside" for each in origins)


def compare(seed: int, folder: Path, *, cuts: bool, kept: bool = False, forks: bool = False) -> int:
    """Have a run go on as if it had never been cut off; return how many processes were killed."""
    made = []
    for waits in (False, True):
        place = folder / f"{seed}-{waits}"
        place.mkdir(parents=True)
        world = World(seed, place, waits, waits and cuts, kept, waits and forks)
        made.append(world.run())
    control, run = made
    for name in ("texts", "steps", "outside", "asked", "done"):
        found, wanted = getattr(run, name), getattr(control, name)
        if name == "steps":  # each by itself, which is easier to read
            pairs = zip(chain.from_iterable(found), chain.from_iterable(wanted), strict=True)
            different = [pair for pair in pairs if pair[0] != pair[1]]
            assert not different, (seed, different)
        assert found == wanted, (seed, name, found, wanted)
    if not kept:  # a kept helper's runs have accounts of their own
        pairs = zip(run.spent, control.spent, strict=True)  # what a kill repeats costs again
        assert all(one >= other if cuts else one == other for one, other in pairs), (
            seed,
            run.spent,
            control.spent,
        )
    for each in folder.glob(f"{seed}-*"):
        shutil.rmtree(each)
    return world.killed
