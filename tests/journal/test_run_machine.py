"""Runs agree with an account on paper, whatever is done with them and wherever they break off.

Each call of a run has its effect once, and each interruption is heard once: nothing is repeated or
lost. What a run waits for can be seen, a fork is another run, and what is deleted is gone.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    rule,
    run_state_machine_as_test,
)

from journal.crash import crash
from moothall import (
    ACCESS_REQUESTED,
    Context,
    Journal,
    Later,
    ReActAgent,
    Refused,
    Reply,
    ScriptedModel,
    Waiting,
    action,
)
from moothall.foundation.errors import NoSuchRun
from moothall.journal import Done
from moothall.models import Call, ModelReply, Usage

WAITS = {"pay": "approval", "order": "result", "ask": "question"}
turns = st.lists(st.sampled_from(("look", "act", "act", *WAITS)), min_size=1, max_size=3) | st.just(
    ["turn"]
)
plans = st.lists(turns, min_size=1, max_size=3)
breaks = st.none() | st.tuples(st.sampled_from(("kill", "cancel")), st.integers(1, 9))


class Killed(BaseException):
    """The process is gone."""


class Paper:
    """What is known of a run beside its journal."""

    def __init__(self, id: str, plan: list[list[str]]) -> None:
        self.id, self.plan = id, plan
        self.refused: set[str] = set()  # the calls that a person did not permit
        self.answered: set[str] = set()  # the calls whose wait has its answer
        self.past: set[str] = set()  # the calls that took effect before it was forked
        self.unheard: set[str] = set()  # the interruptions after the entry where it was forked
        self.reply: Reply | None = None
        self.waits = False  # its last reply said so

    @property
    def task(self) -> str:
        return f"secret of {self.id.partition('.')[0]}: {json.dumps(self.plan)}"

    @property
    def keys(self) -> dict[str, str]:
        """The action of each call, by its step."""
        return {
            f"{n}.{place}": name
            for n, turn in enumerate(self.plan, 1)
            for place, name in enumerate(turn)
        }

    def result(self, key: str) -> str:
        if key in self.refused:
            return f'"pay" not permitted: not {key}'
        if self.keys[key] == "turn":
            return "cancelled before it ended; whether it had an effect is not known"
        return f"{self.keys[key]} {key}"


class RunMachine(RuleBasedStateMachine):
    """Runs in a journal's file: one process works on them, and another one answers."""

    papers = Bundle("papers")

    def __init__(self) -> None:
        super().__init__()
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = Path(self.temporary.name)
        self.effects: Counter[tuple[str, str]] = Counter()
        self.living: dict[str, Paper] = {}
        self.begun = self.place = 0
        self.open()

    def open(self) -> None:
        self.journal, self.office = (Journal(self.folder / f"{self.place}.db") for _ in range(2))

    def close(self) -> None:
        self.journal.close()
        self.office.close()

    def teardown(self) -> None:
        try:
            for paper in self.living.values():
                self.finish(paper)
        finally:
            self.close()
            self.temporary.cleanup()

    # -- a process ---------------------------------------------------------------------------------

    async def moment(self) -> None:
        """Perhaps be killed or cancelled now."""
        if self.dead:
            raise Killed
        self.left -= 1
        if self.left:
            return
        if self.way == "cancel":
            self.work.cancel()
            await asyncio.Event().wait()
        crash(self.journal.path, self.folder / f"{self.place + 1}.db")
        self.dead = True
        raise Killed

    async def done(self, name: str, key: str, run: Any) -> str:
        await self.moment()
        self.effects[str(run), key] += 1
        await self.moment()
        return f"{name} {key}"

    def agent(self) -> ReActAgent:
        @action(idempotent=True)
        async def look(key: str, context: Context[Any]) -> str:
            """Look."""
            await self.moment()
            return f"look {key}"

        @action
        async def act(key: str, context: Context[Any]) -> str:
            """Act."""
            return await self.done("act", key, context.run_id)

        @action(access_policy=ACCESS_REQUESTED)
        async def pay(key: str, context: Context[Any]) -> str:
            """Pay."""
            return await self.done("pay", key, context.run_id)

        @action(idempotent=True)
        async def order(key: str) -> Later:
            """Order."""
            await self.moment()
            return Later(f"order {key}")

        @action(idempotent=True)
        async def ask(key: str, context: Context[Any]) -> str:
            """Ask a person."""
            return await context.ask_person(f"Which {key}?")

        @action(idempotent=True)
        async def turn(key: str, context: Context[Any]) -> None:
            """Be interrupted."""
            await self.moment()
            self.said.put_nowait((f"Now {key}.", context.thread))
            await asyncio.Event().wait()

        async def answer(messages: list[dict[str, Any]], _: Any) -> ModelReply:
            await self.moment()
            plan = json.loads(messages[0]["content"].partition(": ")[2])
            # A turn that was cut off stands there once more with its results.
            keys = [call["args"]["key"] for each in messages for call in each.get("tool_calls", ())]
            at = max((int(key.partition(".")[0]) for key in keys), default=0)
            if at == len(plan):
                return ModelReply("Done.", (), Usage(1, 1))
            calls = (
                Call(f"c{at + 1}.{n}", name, {"key": f"{at + 1}.{n}"})
                for n, name in enumerate(plan[at])
            )
            return ModelReply("", tuple(calls), Usage(1, 1))

        return ReActAgent(
            "clerk",
            ScriptedModel([answer] * 100),
            actions=[look, act, pay, order, ask, turn],
            journal=self.journal,
            approver=Waiting(),
        )

    def process(self, asks: Any, broken: tuple[str, int] | None) -> Any:
        """Have a process do something; return None if it was killed or cancelled meanwhile."""
        self.way, self.left = broken or ("", 0)
        self.dead = False

        async def work() -> Any:
            agent, self.said = self.agent(), asyncio.Queue()

            async def interrupt() -> None:
                while True:
                    text, thread = await self.said.get()
                    agent.interrupt(text, thread=thread)

            person = asyncio.create_task(interrupt())
            self.work = asyncio.ensure_future(asks(agent))
            try:
                return await self.work
            finally:
                person.cancel()

        try:
            return asyncio.run(work())
        except (Killed, asyncio.CancelledError):
            return None
        finally:
            if self.dead:
                self.close()
                self.place += 1
                self.open()

    def note(self, paper: Paper, reply: Reply | None) -> None:
        """Put on paper what a reply says."""
        paper.waits = reply is not None and reply.stop_reason == "waiting"
        if reply is None or reply.stop_reason in ("waiting", "in_doubt"):
            return
        assert (reply.stop_reason, reply.text) == ("done", "Done."), reply.detail
        assert paper.reply in (None, reply)
        paper.reply = reply

    # -- what is done with runs --------------------------------------------------------------------

    @rule(target=papers, plan=plans, broken=breaks)
    def begin(self, plan: list[list[str]], broken: tuple[str, int] | None) -> Paper:
        self.begun += 1
        paper = self.living[f"r{self.begun}"] = Paper(f"r{self.begun}", plan)
        self.go_on(paper, broken)
        return paper

    @rule(paper=papers, broken=breaks)
    def go_on(self, paper: Paper, broken: tuple[str, int] | None) -> None:
        if paper.id not in self.living:
            return
        about = {"run_id": paper.id, "thread": paper.id.partition(".")[0]}
        self.note(paper, self.process(lambda agent: agent.reply(paper.task, **about), broken))

    @rule(which=st.sampled_from(("resume_runs", "resume_decided")), broken=breaks)
    def start(self, which: str, broken: tuple[str, int] | None) -> None:
        """Another program starts, or looks again, and goes on with what can go on."""
        for paper in self.living.values():
            paper.waits = paper.waits and broken is None
        for each in self.process(lambda agent: getattr(agent, which)(), broken) or ():
            assert each.outcome in ("resumed", "in_doubt", "empty", "forked"), each
            if each.outcome in ("resumed", "in_doubt"):
                self.note(self.living[each.run.id], each.reply)

    @rule(paper=papers, place=st.integers(0, 2), permits=st.booleans())
    def answer(self, paper: Paper, place: int, permits: bool) -> None:
        if paper.id not in self.living or not paper.waits:
            return
        waits = sorted(self.office.waiting(paper.id), key=lambda each: each.step)
        if not waits:
            return
        wait = waits[place % len(waits)]
        if wait.kind == "approval" and not permits:
            self.office.answer(paper.id, wait.key, Refused(f"not {wait.step}"))
            paper.refused.add(wait.step)
        elif wait.kind == "approval":
            self.office.answer(paper.id, wait.key, True)
        else:
            self.office.answer(paper.id, wait.key, f"{wait.action} {wait.step}")
        paper.answered.add(wait.step)

    @rule(paper=papers)
    def decide(self, paper: Paper) -> None:
        """Decide about the calls in doubt, by looking whether they took effect."""
        if paper.id not in self.living or not self.is_known(paper):
            return
        for doubt in self.office.in_doubt(paper.id):
            key, decision = doubt.args["key"], "repeat"
            if any(self.effects[id, key] for id in self.lineage(paper)):
                decision = Done(f"{doubt.action} {key}")
                paper.past |= {key} if not self.effects[paper.id, key] else set()
            self.office.decide(paper.id, {doubt.number: decision})

    def lineage(self, paper: Paper) -> list[str]:
        """The ids of a run and of those that it was forked from."""
        parts = paper.id.split(".")
        return [".".join(parts[:n]) for n in range(1, len(parts) + 1)]

    def is_known(self, paper: Paper) -> bool:
        """Whether anything of a run is recorded."""
        return any(each.id == paper.id for each in self.office.runs())

    @rule(target=papers, paper=papers, place=st.integers(0, 3))
    def fork(self, paper: Paper, place: int) -> Paper:
        if paper.id not in self.living or not self.is_known(paper):
            return paper
        states = [each for each in self.office.entries(paper.id) if each.kind == "state"]
        upto = states[place].sequence if place < len(states) else None
        self.begun += 1
        copy = Paper(f"{paper.id}.{self.begun}", paper.plan)
        assert self.office.fork(paper.id, copy.id, upto=upto) == copy.id
        self.living[copy.id] = copy
        ended, kept = self.ended(copy), str(self.office.entries(copy.id))
        copy.refused, copy.past = paper.refused & ended, ended - paper.refused
        copy.unheard = {key for key in ended if f"Now {key}." not in kept}
        if upto is None and paper.reply is not None:
            copy.reply = replace(paper.reply, run_id=copy.id)
        return copy

    def ended(self, paper: Paper) -> set[str]:
        """The calls of a run that have ended."""
        ended = [each for each in self.office.entries(paper.id) if each.kind == "ended"]
        return {each.data["key"] for each in ended} & paper.keys.keys()

    @rule(paper=consumes(papers))
    def delete(self, paper: Paper) -> None:
        if paper.id not in self.living or not self.is_known(paper):
            return
        assert self.office.delete(paper.id).runs == [paper.id]
        del self.living[paper.id]
        for use in (self.journal.run, self.journal.entries, self.journal.replay):
            with pytest.raises(NoSuchRun):
                use(paper.id)
        family = paper.task.partition(":")[0]
        if not any(each.task.startswith(f"{family}:") for each in self.living.values()):
            self.office.compact()
            for file in self.folder.glob(f"{self.place}.db*"):
                assert family.encode() + b":" not in file.read_bytes(), file

    # -- what always holds -------------------------------------------------------------------------

    @invariant()
    def agrees(self) -> None:
        assert self.effects.most_common(1) == [] or self.effects.most_common(1)[0][1] == 1
        known = {each.id: each for each in self.journal.runs()}
        assert known.keys() <= self.living.keys()
        assert known.keys() == {each.id for each in self.office.runs()}
        for paper in self.living.values():
            if paper.reply is not None and paper.id in known:
                assert known[paper.id].state == "done"
                assert self.journal.waiting(paper.id) == self.journal.in_doubt(paper.id) == []
            if paper.waits:
                self.shows_its_waits(paper, known[paper.id].state)

    def shows_its_waits(self, paper: Paper, state: str) -> None:
        ended = self.ended(paper)
        at = next(key.partition(".")[0] for key in paper.keys if key not in ended)
        open = {
            (WAITS[name], name, key)
            for key, name in paper.keys.items()
            if key.startswith(f"{at}.") and key not in ended | paper.answered
        }
        waits = [each for each in self.office.waiting(paper.id) if each.answer is None]
        assert {(each.kind, each.action, each.step) for each in waits} == open
        assert all(each.args == {"key": each.step} for each in waits)
        assert state == "waiting" or not open

    # -- the end -----------------------------------------------------------------------------------

    def finish(self, paper: Paper) -> None:
        """Bring a run to its end, which is what it would be if it had never broken off."""
        for _ in range(20):
            if paper.reply is not None:
                break
            self.go_on(paper, None)
            while paper.waits and [w for w in self.office.waiting(paper.id) if w.answer is None]:
                self.answer(paper, 0, True)
            self.decide(paper)
        self.go_on(paper, None)
        reply = paper.reply
        assert reply is not None, "the run does not end"
        assert self.journal.replay(paper.id).messages == reply.messages
        # A turn that was cut off with a call in doubt stands there, too, before its results.
        steps = {each.args["key"]: each.error or each.result["result"] for each in reply.steps}
        assert steps == {key: paper.result(key) for key in paper.keys}
        at = [each.iteration for each in reply.steps]
        assert at == sorted(at)
        said = [each["content"] for each in reply.messages if each["role"] == "user"]
        turns = (key for key, name in paper.keys.items() if name == "turn")
        assert said == [paper.task, *(f"Now {key}." for key in turns if key not in paper.unheard)]
        for key, name in paper.keys.items():
            once = name in ("act", "pay") and key not in paper.refused | paper.past
            assert self.effects[paper.id, key] == once, (paper.id, key)


TestRuns = RunMachine.TestCase
TestRuns.settings = settings(max_examples=12, stateful_step_count=20)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_runs_of_many_histories_agree_with_paper() -> None:
    run_state_machine_as_test(RunMachine, settings=settings(max_examples=1000))
