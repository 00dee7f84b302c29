"""Any run, broken off anywhere, comes to the same."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from journal.crash import crash
from moothall import Journal, ReActAgent, ScriptedModel, SQLiteMemory
from moothall.actions import action
from moothall.agents.replies.reply import Reply
from moothall.foundation.errors import AskAgain
from moothall.models.protocol import Call, ModelReply, Usage

CALL = st.tuples(st.sampled_from(["once", "again", "plain", "fails", "asks"]), st.integers(0, 2))
FAULTY = st.sampled_from([[("burn", 1)], [("once", "x")], []])
TURN = st.one_of(
    st.lists(CALL, min_size=1, max_size=3),
    st.lists(CALL, min_size=1, max_size=3),
    FAULTY,
)
SCRIPT = st.lists(TURN, max_size=6)


class Program:
    """One that keeps what a crash would leave at the n-th thing that happens."""

    def __init__(self, folder: Path, script: list[list[tuple[str, Any]]], last: str) -> None:
        self.folder = folder
        self.script = script
        self.last = last
        self.happened = 0
        self.ended: list[tuple[str, int]] = []
        self.began: list[tuple[str, int]] = []
        self.at_crash: tuple[list[tuple[str, int]], list[tuple[str, int]]] | None = None

    def run(self, name: str, crash_at: int | None = None) -> Reply:
        journal = Journal(self.folder / name)
        memory = SQLiteMemory(self.folder / f"{name}.memory")
        self.happened, self.began, self.ended = 0, [], []

        def happens() -> None:
            self.happened += 1
            if self.happened == crash_at:
                for file in (name, f"{name}.memory"):
                    crash(self.folder / file, self.folder / file.replace(name, "crashed"))
                self.at_crash = (self.began[:], self.ended[:])

        async def done(what: str, n: int) -> str:
            self.began.append((what, n))
            happens()
            for _ in range(n):
                await asyncio.sleep(0)
            happens()
            self.ended.append((what, n))
            if what == "fails":
                raise ValueError(f"no {n}")
            if what == "asks":
                raise AskAgain(f"not {n}")
            return f"{what} {n}"

        @action
        async def once(n: int) -> str:
            """Once."""
            return await done("once", n)

        @action(idempotent=True)
        async def again(n: int) -> str:
            """Again."""
            return await done("again", n)

        @action(terminal=True)
        async def plain(n: int) -> str:
            """Terminal where it is not 0."""
            said = await done("plain", n)
            if n:
                return said
            raise ValueError("go on")

        @action
        async def fails(n: int) -> str:
            """Fail."""
            return await done("fails", n)

        @action
        async def asks(n: int) -> str:
            """Ask again."""
            return await done("asks", n)

        def answer(calls: list[tuple[str, Any]]) -> Any:
            made = tuple(
                Call(f"c{number}", call, {"n": n}) for number, (call, n) in enumerate(calls)
            )

            def answered(messages: Any, actions: Any) -> ModelReply:
                happens()
                return ModelReply("", made, Usage(3, 2))

            return answered

        answers = [answer(calls) for calls in self.script] + [self.last] * 3
        agent = ReActAgent(
            "a",
            ScriptedModel(answers),
            actions=[once, again, plain, fails, asks],
            memory=memory,
            journal=journal,
            max_iterations=5,
        )
        with journal, memory:
            if name == "crashed":
                self.doubted = journal.decide("R", "repeat")
            reply = agent.reply_sync("go", run_id="R")
            assert journal.replay("R").messages == reply.messages
            # A memory also has where each message comes from, in a field of its own.
            kept = [{k: v for k, v in m.items() if k != "provenance"} for m in memory.messages()]
            assert kept == reply.messages
            assert journal.in_doubt("R") == []
        return reply


@given(SCRIPT, st.sampled_from(["Yes.", ""]), st.integers(1, 30))
def test_run_broken_off_anywhere(
    script: list[list[tuple[str, Any]]], last: str, crash_at: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        program = Program(Path(folder), script, last)
        unbroken = program.run("unbroken", crash_at)
        if program.at_crash is None:
            return
        began, ended = program.at_crash
        whole = program.ended
        reply = program.run("crashed")
        assert reply.messages == unbroken.messages
        assert (reply.text, reply.stop_reason, reply.usage, reply.detail) == (
            unbroken.text,
            unbroken.stop_reason,
            unbroken.usage,
            unbroken.detail,
        )
        assert [(step.action, step.args, step.error) for step in reply.steps] == [
            (step.action, step.args, step.error) for step in unbroken.steps
        ]
        doubted = {(doubt.action, doubt.args["n"]) for doubt in program.doubted}
        under_way = set(began) - set(ended)
        assert {each for each in under_way if each[0] != "again"} <= doubted
        assert len(ended) + len(program.ended) <= len(whole) + len(program.doubted) + sum(
            each[0] == "again" for each in ended
        )
