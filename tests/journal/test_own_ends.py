"""How runs of an orchestrator of one's own stop, wait and end: nothing of them is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from journal.crash import crash, settled
from moothall import (
    Budget,
    ConfigError,
    InDoubt,
    Journal,
    Later,
    ModelReply,
    NobodyToAsk,
    ReActAgent,
    RunMismatch,
    ScriptedModel,
    StateError,
)
from moothall.build import APPENDED, Record, StepHandle, Stop, completed, recorded
from moothall.journal import Done


@dataclass
class Round:
    delivered: list[str] = field(default_factory=list, metadata=APPENDED)


async def deliver(journal: Journal, task: str, dies: Callable[[], None] | None = None) -> None:
    """Deliver at each place of the task; `dies` is called at the place `c`."""
    async with recorded(journal, "r", "Courier", "bo", Round, task=task) as record:
        state = record.state or Round()
        for place in task.split()[len(state.delivered) :]:

            async def ring(step: StepHandle, place: str = place) -> str:
                await step.begins({"place": place})
                if place == "c" and dies is not None:
                    dies()
                return place

            state.delivered.append(
                await record.step(f"ring.{place}", ring, outcome="ask", action="ring")
            )
            record.save(state)
        await record.end("done", text=" ".join(state.delivered))


def cut_off_at_c(folder: Path, task: str) -> Journal:
    """Return the journal of a process that died as it rang at `c`."""
    with Journal(folder / "whole.db") as journal:
        asyncio.run(deliver(journal, task, lambda: crash(folder / "whole.db", folder / "left.db")))
    return Journal(folder / "left.db")


def test_orchestrator_with_another_task_is_not_resumed(tmp_path: Path) -> None:
    with cut_off_at_c(tmp_path, "a b c") as journal:
        with pytest.raises(RunMismatch, match='task: was "a b c", is "a b"') as refused:
            asyncio.run(deliver(journal, "a b"))
        assert refused.value.changed == ("task",)
        assert "--agent" not in str(refused.value)
        assert [each.action for each in journal.in_doubt("r")] == ["ring"]


async def test_run_of_an_orchestrator_recorded_without_its_task_compared_is_resumed(
    journal: Journal,
) -> None:
    async with recorded(journal, "r", "Courier", "bo", Round) as record:
        record.save(Round(["a"]))
    await deliver(journal, "a b")
    assert journal.run("r").state == "done"
    async with recorded(journal, "r", "Courier", "bo", Round) as record:  # states no task
        assert record.over == {"reason": "done", "text": "a b"}


def test_run_of_an_orchestrator_in_doubt_does_not_end(tmp_path: Path) -> None:
    with cut_off_at_c(tmp_path, "c") as journal:

        async def end(reason: str) -> None:
            async with recorded(journal, "r", "Courier", "bo", Round) as record:
                await record.end(reason, text="nothing to do")

        with pytest.raises(InDoubt, match=r"step 'ring\.c' .* `moothall resume r --repeat`"):
            asyncio.run(end("done"))
        assert [each.action for each in journal.in_doubt("r")] == ["ring"]
        assert journal.run("r").state == "in_doubt"
        asyncio.run(end("cancelled"))  # it goes on later
        assert journal.run("r").state == "in_doubt"
        journal.decide("r", "repeat")
        asyncio.run(deliver(journal, "c"))
        assert journal.run("r").state == "done"


async def test_run_does_not_end_beside_a_call_that_was_cancelled(journal: Journal) -> None:
    async def ring(step: StepHandle) -> None:
        await step.begins()
        await asyncio.Event().wait()  # nobody opens

    async with recorded(journal, "r", "Courier", "bo", Round) as record:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await record.step("ring", ring, outcome="ask", action="ring")
        with pytest.raises(InDoubt):
            await record.end("done", text="rung")
        with pytest.raises(InDoubt, match="'ring' of run 'r' was running"):
            await record.step("ring", ring, outcome="ask", action="ring")
    assert [each.action for each in journal.in_doubt("r")] == ["ring"]


async def test_run_does_not_end_beside_a_call_of_a_part_unless_its_step_has_ended(
    journal: Journal,
) -> None:
    async def half(step: StepHandle) -> str:
        part = Record(record.member("half/bo", "bo"), Round)

        async def ring(step: StepHandle) -> None:
            await step.begins()
            await asyncio.Event().wait()  # nobody opens

        with suppress(TimeoutError):
            async with asyncio.timeout(0.2):
                await part.step("ring", ring, outcome="ask", action="ring")
        if fails:
            raise ConnectionError("nobody opens")
        return "it is not known whether somebody has heard it"

    async with recorded(journal, "r", "Courier", "bo", Round) as record:
        fails = True
        with pytest.raises(ConnectionError):
            await record.step("half", half)
        with pytest.raises(InDoubt, match="step 'half/bo/ring' of run 'r'"):
            await record.end("done", text="rung")
    assert journal.run("r").state == "in_doubt"
    async with recorded(journal, "r", "Courier", "bo", Round) as record:
        with pytest.raises(InDoubt):
            await record.end("done", text="rung")
        record.mark("half", "nobody opens")
        await record.end("done", text="rung")
    assert (journal.in_doubt("r"), journal.run("r").state) == ([], "done")


@pytest.mark.parametrize("how", ("raises", "waits", "waits, and says how it ended"))
async def test_step_beside_one_that_fails_or_waits_ends_before_its_run_is_left(
    journal: Journal, how: str
) -> None:
    rung: list[str] = []
    is_over = asyncio.Event()

    async def ring(step: StepHandle) -> str:
        await step.begins()
        await is_over.wait()
        await settled()
        rung.append("rung")
        return "rung"

    async def sign(step: StepHandle) -> Later:
        await step.begins()
        is_over.set()
        if how == "raises":
            raise ConnectionError("nobody is there")
        return Later("signature")

    async def deliver_all() -> Outcome:
        steps = ("ring", ring), ("sign", sign)
        done = (record.step(key, call, outcome="ask", beside=True) for key, call in steps)
        return Outcome("done", str(await asyncio.gather(*done)))

    def stopped(stop: Stop) -> Outcome:
        return Outcome(stop.reason)

    for _ in range(2):
        with suppress(ConnectionError, Stop):
            async with recorded(journal, "r", "Courier", "bo", Round) as record:
                if how.endswith("ended"):
                    await record.run_to_end(deliver_all, vars, stopped)
                else:
                    await deliver_all()
        assert (rung, journal.in_doubt("r")) == (["rung"], [])


async def test_step_that_ended_is_not_called_again_by_the_same_process(journal: Journal) -> None:
    called: list[str] = []

    async def ring(step: StepHandle) -> Outcome:
        await step.begins()
        called.append("ring")
        return Outcome("done", "rung" * 1000)

    async def open_door(step: StepHandle) -> str:
        called.append("open")
        if called.count("open") < 3:
            raise ConnectionError("nobody opens")
        return "opened"

    async def visit() -> tuple[Outcome, str]:
        rung = await record.step("ring", ring, of=Outcome, outcome="ask", action="ring")
        return rung, await record.step("open", open_door)

    async with recorded(journal, "r", "Courier", "bo", Round) as record:
        for _ in range(2):
            with pytest.raises(ConnectionError):
                await visit()
        assert await visit() == await visit() == (Outcome("done", "rung" * 1000), "opened")
    assert called == ["ring", "open", "open", "open"]


async def ring_at(journal: Journal, *, skipped: str = "") -> str:
    """Ring, and take what a person decided; `skipped` is raised for a step that is skipped."""

    def decided(past_step: object) -> Outcome:
        raise ConfigError(skipped)

    async with recorded(journal, "r", "Courier", "bo", Round) as record:

        async def ring(step: StepHandle) -> Outcome:
            raise AssertionError("it runs again")

        async def go() -> Outcome:
            takes = decided if skipped else None
            rung: Outcome | None = await record.step(
                "ring.c", ring, of=Outcome, outcome="ask", action="ring", decided=takes
            )
            return Outcome("done", "nobody knows" if rung is None else rung.text)

        ended = await record.run_to_end(
            go, lambda ended: {"text": ended.text}, lambda stop: Outcome(stop.reason, stop.detail)
        )
        return ended.text


def test_step_that_is_skipped_returns_none_and_the_run_goes_on(tmp_path: Path) -> None:
    with cut_off_at_c(tmp_path, "c") as journal:
        journal.decide("r", "skip")
        assert asyncio.run(ring_at(journal)) == "nobody knows"
        assert journal.replay("r")["over"] == {"reason": "done", "text": "nobody knows"}
        assert journal.in_doubt("r") == []


def test_step_that_was_skipped_returns_none_at_each_later_call(tmp_path: Path) -> None:
    with cut_off_at_c(tmp_path, "c") as journal:
        journal.decide("r", "skip")
        for _ in range(2):

            async def ring(step: StepHandle) -> Outcome:
                raise AssertionError("it runs again")

            async def once() -> object:
                async with recorded(journal, "r", "Courier", "bo", Round) as record:
                    return await record.step("ring.c", ring, of=Outcome, outcome="ask")

            assert asyncio.run(once()) is None


@pytest.mark.parametrize("decision", ("skip", Done("no outcome")))
def test_decision_that_the_program_refuses_leaves_the_run_in_doubt(
    tmp_path: Path, decision: Any
) -> None:
    with cut_off_at_c(tmp_path, "c") as journal:
        for _ in range(2):
            journal.decide("r", decision)
            with pytest.raises((ConfigError, TypeError, AttributeError, StateError)):
                asyncio.run(ring_at(journal, skipped="it must ring"))
            assert journal.run("r").state == "in_doubt"
            (wait,) = journal.waiting("r")
            assert (wait.kind, wait.args) == ("doubt", {"place": "c"})
        journal.decide("r", {1: Done({"stop_reason": "done", "text": "rung"})})
        assert asyncio.run(ring_at(journal)) == "rung"


@dataclass
class Outcome:
    stop_reason: str
    text: str = ""


async def signed(journal: Journal | None, later: Later, *, raises: bool = False) -> str:
    """Wait for a signature, as docs/journal-extend.md shows it."""
    async with recorded(journal, "r", "Courier", "bo", Round, task="sign") as record:
        if record.is_over:
            assert record.over is not None
            return str(record.over["text"])

        async def sign(step: StepHandle) -> object:
            await step.begins()
            if raises:
                raise later
            return later

        async def go() -> Outcome:
            by = await record.step("sign", sign, outcome="ask", action="sign")
            return Outcome("done", f"signed by {by}")

        outcome = await record.run_to_end(
            go, lambda done: {"text": done.text}, lambda stop: Outcome(stop.reason, stop.detail)
        )
        return outcome.text


@pytest.mark.parametrize("raises", (False, True))
def test_orchestrator_waits_for_a_later_and_goes_on_with_what_came(
    journal: Journal, raises: bool
) -> None:
    assert "waiting for the result 'signature'" in asyncio.run(
        signed(journal, Later("signature"), raises=raises)
    )
    assert journal.run("r").state == "waiting"
    (wait,) = journal.waiting()
    assert (wait.name, wait.action) == ("signature", "sign")
    assert journal.in_doubt("r") == []
    journal.answer("r", "signature", "eva")
    for _ in range(2):
        assert asyncio.run(signed(journal, Later("signature"))) == "signed by eva"
    assert journal.run("r").state == "done"


def test_later_without_what_it_waits_for_or_a_journal_is_refused(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal, pytest.raises(ConfigError, match="key or until="):
        asyncio.run(signed(journal, Later()))
    with pytest.raises(ConfigError, match="needs a journal"):
        asyncio.run(signed(None, Later("signature")))


def test_later_that_nobody_answers_has_its_default_or_is_an_error(tmp_path: Path) -> None:
    for default, name in (({"default": "nobody"}, "a"), ({}, "b")):
        with Journal(tmp_path / name) as journal:
            text = "signed by nobody"
            if default:
                assert asyncio.run(signed(journal, Later("s", until=0, **default))) == text
                continue
            with pytest.raises(NobodyToAsk, match=r"step 'sign' .*nobody has answered"):
                asyncio.run(signed(journal, Later("s", until=0)))


async def plainly(journal: Journal) -> None:
    """Wait without `run_to_end`."""
    async with recorded(journal, "r", "Courier", "bo", Round) as record:

        async def sign(step: StepHandle) -> object:
            return Later("signature")

        await record.step("sign", sign, action="sign")


def test_orchestrator_stopped_by_a_wait_waits_and_is_cancelled(journal: Journal) -> None:
    for _ in range(2):
        with pytest.raises(Stop, match="waiting for the result 'signature'"):
            asyncio.run(plainly(journal))
        assert journal.run("r").state == "waiting"
        assert len(journal.waiting()) == 1
    journal.cancel("r", by="eva")
    assert journal.run("r").state == "cancelled"
    assert journal.waiting() == []


def test_run_cut_off_as_it_began_to_wait_is_cancelled(tmp_path: Path) -> None:
    async def wait(journal: Journal) -> None:
        async with recorded(journal, "r", "Courier", "bo", Round) as record:

            async def sign(step: StepHandle) -> None:
                try:
                    await step.wait("signature", "result", Later("signature"), action="sign")
                finally:
                    crash(tmp_path / "j", tmp_path / "left")

            await record.step("sign", sign)

    with Journal(tmp_path / "j") as journal, pytest.raises(Stop):
        asyncio.run(wait(journal))
    with Journal(tmp_path / "left") as journal:
        assert [each.key for each in journal.waiting()] == ["signature"]
        journal.cancel("r")
        assert journal.waiting() == []
        assert journal.run("r").state == "cancelled"


async def poem(journal: Journal, budget: Budget) -> Outcome:
    """Have a model write two lines, and an agent judge them, within a budget."""
    model, critic = ScriptedModel(["one", "two"]), ReActAgent("critic", ScriptedModel(["fine"]))
    async with recorded(journal, "p", "Poem", "poet", Round) as record:
        state = record.state or Round()
        record.catch_up(model, model, budget)

        async def line(step: StepHandle) -> ModelReply:
            prompt = [{"role": "user", "content": "A line."}]
            return cast(ModelReply, await completed(model, budget, prompt, None, step))

        async def judge(step: StepHandle) -> str:
            reply = await critic.reply("Is it good?", budget=budget)
            reply.raise_for_error()
            return reply.text

        async def write() -> Outcome:
            while len(state.delivered) < 2:
                key = f"line.{len(state.delivered)}"
                reply = await record.step(key, line, of=ModelReply, model=model.name)
                state.delivered.append(reply.text)
                record.save(state)
            return Outcome("done", f"{state.delivered}: {await record.step('critic', judge)}")

        return await record.run_to_end(write, vars, lambda stop: Outcome(stop.reason, stop.detail))


def test_orchestrator_whose_budget_is_spent_ends_as_budget_and_goes_on_with_more(
    journal: Journal,
) -> None:
    for calls in (1, 2):
        ended = asyncio.run(poem(journal, Budget(model_calls=calls)))
        assert ended.stop_reason == journal.run("p").state == "budget"
        assert f"are needed and 0 of {calls} are left" in ended.text
    ended = asyncio.run(poem(journal, Budget(model_calls=3)))
    assert ended == Outcome("done", "['one', 'two']: fine")
