"""Interrupting a reply: it stops what it is doing, hears the text, and goes on."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from moothall import (
    ACCESS_REQUESTED,
    CallbackApprover,
    Journal,
    MailboxFull,
    ModelReply,
    NativeSpace,
    ReActAgent,
    ScriptedModel,
    TokenBoundedMemory,
    action,
)

WAIT = 20


class Gate:
    """Lets a test know that something has begun, and holds it until told."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.open = asyncio.Event()
        self.cancelled = 0

    async def wait(self) -> str:
        self.begun.set()
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return "opened"


def contents(agent: ReActAgent, thread: str | None = None) -> list[str]:
    state = agent.state_dict()
    memory = state["memory"] if thread is None else state["threads"][thread]
    return [f"{m['role']}: {m['content']}" for m in memory["items"]]


@pytest.mark.parametrize("killed", (False, True))
async def test_interrupt_at_the_last_allowed_answer_gets_an_answer(
    tmp_path: Path, killed: bool
) -> None:
    """With one answer allowed, too: who says something more gets an answer; also after a resume."""
    gate, late = Gate(), Gate()
    model = ScriptedModel([lambda *_: gate.wait(), lambda *_: late.wait(), "In French then."])
    with Journal(tmp_path / "runs.db") as journal:
        agent = ReActAgent("thinker", model, max_iterations=1, journal=journal)
        task = asyncio.create_task(agent.reply("Tell me a story.", run_id="r"))
        await gate.begun.wait()
        assert await agent.interrupt("In French, please.") is True
        await asyncio.wait_for(late.begun.wait(), WAIT)
        if killed:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            model = ScriptedModel(["The one that was cut off.", "In French then."])
            agent = ReActAgent("thinker", model, max_iterations=1, journal=journal)
            reply = await agent.reply("Tell me a story.", run_id="r")
        else:
            late.open.set()
            reply = await task
    assert (reply.stop_reason, reply.text) == (
        "done",
        "In French then." if killed else "opened",
    )


async def test_interrupt_cancels_the_models_answer_and_is_heard() -> None:
    gate = Gate()
    model = ScriptedModel([lambda *_: gate.wait(), "In French then."])
    agent = ReActAgent("thinker", model)
    task = asyncio.create_task(agent.reply("Tell me a story."))
    await gate.begun.wait()
    interruption = agent.interrupt("In French, please.")
    assert interruption
    assert await interruption is True
    reply = await task
    assert (reply.text, reply.stop_reason) == ("In French then.", "done")
    assert gate.cancelled == 1
    assert contents(agent) == [
        "user: Tell me a story.",
        "user: In French, please.",
        "assistant: In French then.",
    ]
    assert not task.cancelling()


@pytest.mark.parametrize("hanging", (1, 2))
async def test_actions_are_cancelled_and_what_ended_before_is_kept(hanging: int) -> None:
    gate = Gate()

    async def quick() -> str:
        return "was quick"

    calls = [{"name": "quick"}, *[{"name": "wait"}] * hanging]
    model = ScriptedModel([calls, "Stopped."])
    agent = ReActAgent("thinker", model, actions=[quick, gate.wait])
    task = asyncio.create_task(agent.reply("go"))
    await gate.begun.wait()
    agent.interrupt("Stop that.")
    reply = await task
    assert reply.text == "Stopped."
    assert gate.cancelled == hanging
    quick_step, *others = reply.steps
    assert quick_step.result["result"] == "was quick"
    for step in others:
        assert "whether it had an effect is not known" in (step.error or "")
    seen = model.received[1]
    assert [m["role"] for m in seen] == ["user", "assistant", *["tool"] * len(calls), "user"]
    assert seen[-1]["content"] == "Stop that."


@pytest.mark.parametrize("recorded", (False, True))
async def test_interrupt_during_an_approval_tells_that_the_call_had_no_effect(
    tmp_path: Path, recorded: bool
) -> None:
    gate = Gate()

    @action(access_policy=ACCESS_REQUESTED)
    def pay() -> str:
        raise AssertionError("not permitted")

    agent = ReActAgent(
        "payer",
        ScriptedModel([{"name": "pay"}, "I will not."]),
        actions=[pay],
        approver=CallbackApprover(lambda _: gate.wait()),
        journal=tmp_path / "j.db" if recorded else None,
    )
    task = asyncio.create_task(agent.reply("Pay."))
    await gate.begun.wait()
    agent.interrupt("Do not.")
    (step,) = (await task).steps
    assert step.error == "not executed: cancelled before it was permitted"
    assert not step.executed


@pytest.mark.parametrize("recorded", (False, True))
async def test_interrupt_during_a_hook_tells_that_the_call_had_no_effect(
    tmp_path: Path, recorded: bool
) -> None:
    """It has not begun, as where a person has paused the run before it."""
    gate = Gate()

    def pay() -> str:
        raise AssertionError("it is held")

    async def held(agent: Any, about: dict[str, Any]) -> None:
        await gate.wait()

    model = ScriptedModel([{"name": "pay"}, "I will not."])
    journal = tmp_path / "j.db" if recorded else None
    agent = ReActAgent("payer", model, actions=[pay], journal=journal)
    agent.register_hook("pre_acting", "held", held)
    task = asyncio.create_task(agent.reply("Pay."))
    await gate.begun.wait()
    agent.interrupt("Do not.")
    (step,) = (await task).steps
    assert step.error == "not executed: cancelled before it began"
    assert not step.executed


def test_interrupt_without_a_reply_under_way_is_heard_first_by_the_next() -> None:
    model = ScriptedModel(["ok", "ok"])
    agent = ReActAgent("thinker", model)
    assert not agent.interrupt("Be brief.")

    async def awaited() -> bool:
        return await agent.interrupt("Very brief.")

    assert asyncio.run(awaited()) is False
    agent.reply_sync("Who are you?")
    said = [m["content"] for m in model.received[0]]
    assert said == ["Be brief.", "Very brief.", "Who are you?"]
    agent.reply_sync("And now?")
    assert [m["content"] for m in model.received[1]] == [*said, "ok", "And now?"]


async def test_interrupts_at_once_are_all_heard_in_order() -> None:
    gate = Gate()
    agent = ReActAgent("thinker", ScriptedModel([lambda *_: gate.wait(), "ok"]))
    task = asyncio.create_task(agent.reply("go"))
    await gate.begun.wait()
    for text in ("one", "two", "three"):
        assert agent.interrupt(text)
    assert (await task).text == "ok"
    assert contents(agent)[1:4] == ["user: one", "user: two", "user: three"]


async def test_interrupt_of_a_model_that_will_not_be_cancelled_hears_it_out() -> None:
    gate = Gate()

    async def stubborn(*_: Any) -> str:
        try:
            await gate.wait()
        except asyncio.CancelledError:
            return "I finish my sentence."
        return ""

    agent = ReActAgent("thinker", ScriptedModel([stubborn, "Now I listen."]))
    task = asyncio.create_task(agent.reply("go"))
    await gate.begun.wait()
    agent.interrupt("Listen!")
    reply = await task
    assert reply.text == "Now I listen."
    assert contents(agent) == [
        "user: go",
        "assistant: I finish my sentence.",
        "user: Listen!",
        "assistant: Now I listen.",
    ]
    assert not task.cancelling()


@pytest.mark.parametrize("first", ("interrupt", "cancel"))
async def test_cancelling_from_outside_wins(first: str) -> None:
    gate = Gate()
    agent = ReActAgent("thinker", ScriptedModel([lambda *_: gate.wait(), "never said", "ok"]))
    task = asyncio.create_task(agent.reply("go"))
    await gate.begun.wait()
    for what in (first, "cancel" if first == "interrupt" else "interrupt"):
        if what == "interrupt":
            agent.interrupt("Listen!")
        else:
            task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert contents(agent) == ["user: go", "user: Listen!"]
    assert not agent.interrupt("nobody")


async def test_interrupt_leaves_a_time_limit_around_the_reply_in_force() -> None:
    first, second = Gate(), Gate()
    model = ScriptedModel([lambda *_: first.wait(), lambda *_: second.wait(), "ok"])
    agent = ReActAgent("thinker", model)

    async def steer() -> None:
        await first.begun.wait()
        agent.interrupt("Listen!")
        await second.begun.wait()
        limit.reschedule(asyncio.get_running_loop().time())

    steering = asyncio.create_task(steer())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(WAIT) as limit:
            await agent.reply("go")
    await steering
    assert (first.cancelled, second.cancelled) == (1, 1)
    assert (await agent.reply("again")).text == "ok"


def test_interrupt_works_from_another_thread_in_a_space() -> None:
    begun = threading.Event()

    async def hang(*_: Any) -> str:
        begun.set()
        await asyncio.Event().wait()
        return ""

    with NativeSpace() as space:
        agent = space.add(ReActAgent("thinker", ScriptedModel([hang, "I heard you."])))
        asker = space.add(ReActAgent("asker", ScriptedModel([])))
        pending = asker.ask("thinker", "say", content="Hi")
        assert begun.wait(WAIT)
        assert agent.interrupt("Hello?")
        assert pending.result(WAIT) == "I heard you."
        assert contents(agent, "asker")[1] == "user: Hello?"


def test_interrupt_may_come_from_an_action_of_the_run() -> None:
    agent: ReActAgent

    async def ring() -> str:
        assert agent.interrupt("The bell rang.")
        return "rung"

    agent = ReActAgent("thinker", ScriptedModel([{"name": "ring"}, "ok"]), actions=[ring])
    reply = agent.reply_sync("go")
    assert reply.text == "ok"
    assert reply.steps[0].result["result"] == "rung"
    assert contents(agent)[-2:] == ["user: The bell rang.", "assistant: ok"]


def test_interrupt_between_replies_is_kept_up_to_a_hundred_times() -> None:
    model = ScriptedModel(["ok"])
    agent = ReActAgent("thinker", model, memory=TokenBoundedMemory(1_000_000))
    for number in range(100):
        agent.interrupt(f"text {number}")
    with pytest.raises(MailboxFull, match="has 100 interruptions that wait"):
        agent.interrupt("text 100")
    agent.reply_sync("go")
    heard = [each["content"] for each in model.received[0] if each["role"] == "user"]
    assert heard == [*(f"text {number}" for number in range(100)), "go"]
    agent.interrupt("and now")


async def test_interrupt_of_a_storm_loses_none() -> None:
    begun = asyncio.Event()
    answers = 0

    class Model:
        name = "model"
        context_tokens = None

        async def complete(self, messages: Any, actions: Any = None) -> ModelReply:
            nonlocal answers
            begun.set()
            if messages[-1]["content"] != "that is all":
                await asyncio.Event().wait()
            answers += 1
            return ModelReply("ok")

    agent = ReActAgent(
        "thinker", Model(), max_iterations=10_000, memory=TokenBoundedMemory(1_000_000)
    )
    task = asyncio.create_task(agent.reply("go"))
    await begun.wait()
    threads = [
        threading.Thread(target=lambda n=n: [agent.interrupt(f"{n}.{i}") for i in range(200)])
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert await agent.interrupt("that is all")
    async with asyncio.timeout(WAIT):
        assert (await task).text == "ok"
    heard = [m["content"] for m in agent.memory.get_memories() if m["role"] == "user"]
    for n in range(4):
        assert [t for t in heard if t.startswith(f"{n}.")] == [f"{n}.{i}" for i in range(200)]
    assert answers == 1


def test_interrupt_that_is_no_text_is_refused() -> None:
    with pytest.raises(TypeError, match="interrupt takes a text, got int"):
        ReActAgent("thinker", ScriptedModel([])).interrupt(7)  # type: ignore[arg-type]


async def test_cancellation_from_before_the_reply_began_is_one() -> None:
    async def never() -> None:
        await asyncio.Event().wait()

    agent = ReActAgent("thinker", ScriptedModel([{"name": "never"}, "ok"]), actions=[never])

    async def late() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await agent.reply("go")

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(late())


def test_interrupt_after_the_last_turn_is_kept_for_the_next_reply() -> None:
    model = ScriptedModel(["First.", "Second."])
    agent = ReActAgent("hears", model)
    told: list[bool] = []
    agent.register_hook("post_reply", "late", lambda *_: told.append(bool(agent.interrupt("And?"))))
    assert agent.reply_sync("Hello").text == "First."
    agent.clear_hooks()
    assert told == [False]
    assert agent.reply_sync("Go on").text == "Second."
    assert [each["content"] for each in model.received[-1]].count("And?") == 1
