"""Blocks of an agent with a loop: actions, guidance, and what they do around each step."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from moothall import (
    ACCESS_REQUESTED,
    Action,
    Block,
    Budget,
    CallbackApprover,
    ConfigError,
    Context,
    ContextOverflow,
    DefinitionError,
    HookError,
    Journal,
    Later,
    ReActAgent,
    ScriptedModel,
    Skills,
    action,
)

ADD = {"name": "add", "args": {"a": 1, "b": 2}}


def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


def agent(*answers: Any, **options: Any) -> ReActAgent:
    options.setdefault("actions", [add])
    return ReActAgent("thinker", ScriptedModel(answers), **options)


def system_of(one: ReActAgent, call: int = 0) -> str:
    model: Any = one.model
    first = model.received[call][0]
    return str(first["content"]) if first["role"] == "system" else ""


class Noting(Block):
    """Notes what goes through it."""

    def __init__(self, mark: str, seen: list[str]) -> None:
        super().__init__()
        self.mark, self.seen = mark, seen

    async def around_model(self, step: Any, call: Any) -> Any:
        self.seen.append(f"{self.mark} asks {step.iteration}")
        answer = await call()
        self.seen.append(f"{self.mark} has {answer.text or answer.calls[0].name}")
        return answer

    async def around_action(self, step: Any, call: Any) -> Any:
        self.seen.append(f"{self.mark} calls {step.name} {step.args}")
        result = await call()
        self.seen.append(f"{self.mark} gets {result['result']}")
        return result


def test_loop_blocks_stand_first_outermost_and_hooks_outside_of_all() -> None:
    seen: list[str] = []
    one = agent(ADD, "3", blocks=[Noting("A", seen), Noting("B", seen)])
    for type in ("pre_reasoning", "post_reasoning", "pre_acting", "post_acting"):
        one.register_hook(type, "watch", lambda _, __, type=type: seen.append(type))  # type: ignore[misc,arg-type]
    assert one.reply_sync("1 + 2?").text == "3"
    assert seen[:12] == [
        *("pre_reasoning", "A asks 1", "B asks 1", "B has add", "A has add", "post_reasoning"),
        *("pre_acting", "A calls add {'a': 1, 'b': 2}", "B calls add {'a': 1, 'b': 2}"),
        *("B gets 3", "A gets 3", "post_acting"),
    ]


class Wiki(Block):
    """Looks things up."""

    guidance = "Look things up before you answer."

    @action
    async def look_up(self, word: str) -> str:
        """Look a word up."""
        return f"{word} is a word"


def test_loop_block_brings_its_actions_and_its_guidance() -> None:
    call = {"name": "Wiki_look_up", "args": {"word": "Zorp"}}
    one = agent(call, "done", blocks=[Wiki()], system_prompt="You are brief.")
    reply = one.reply_sync("Zorp?")
    assert [(each.action, each.result["result"]) for each in reply.steps] == [
        ("Wiki.look_up", "Zorp is a word")
    ]
    assert system_of(one) == "You are brief.\n\nLook things up before you answer."


class Offering(Block):
    """Offers an action under a name of its own choice, and says who asks."""

    def __init__(self) -> None:
        super().__init__()
        self.offers = {"now": Action("now", lambda: "noon", description="Tell the time.")}
        self.calls = 0

    async def guidance(self, context: Context[Any]) -> str:  # type: ignore[override]
        self.calls += 1
        return f"You help {context.deps} ({self.calls})."


def test_loop_block_among_the_actions_brings_its_guidance_for_each_run() -> None:
    one = agent("noon", actions=[add, Offering()])
    assert one.reply_sync("?", deps="Ada").text == "noon"
    assert system_of(one) == "You help Ada (1)."


def test_guidance_is_asked_for_once_a_run_and_a_resumed_run_has_the_same(tmp_path: Path) -> None:
    block = Offering()
    path = str(tmp_path / "runs.db")
    one = agent({"name": "now", "args": {}}, KeyError("x"), blocks=[block], journal=path)
    assert one.reply_sync("?", run_id="r", deps="Ada").stop_reason == "error"
    assert block.calls == 1
    again = Offering()
    other = agent({"name": "now", "args": {}}, "?", "noon", blocks=[again], journal=path)
    reply = other.reply_sync("?", run_id="r", deps="Bob")
    assert (reply.text, again.calls) == ("noon", 0)
    assert system_of(other) == "You help Ada (1)."


class Changing(Block):
    """Changes what goes through it."""

    async def around_model(self, step: Any, call: Any) -> Any:
        step.messages = [*step.messages, {"role": "user", "content": "Be brief."}]
        step.actions = [each for each in step.actions if each.name != "hidden"]
        return await call()

    async def around_action(self, step: Any, call: Any) -> Any:
        step.args = {**step.args, "b": 40}
        result = await call()
        return {**result, "result": result["result"] * 10}


def test_loop_block_changes_what_the_model_is_shown_and_what_is_called() -> None:
    shown: list[list[str]] = []

    def answer(messages: Any, actions: Any) -> Any:
        shown.append([each.name for each in actions])
        return ADD if len(shown) == 1 else messages[-2]["content"]

    hidden = Action("hidden", lambda: "found", description="Not shown.")
    one = ReActAgent("a", ScriptedModel(answer), actions=[add, hidden], blocks=[Changing()])
    reply = one.reply_sync("?")
    assert reply.text == "410"
    assert reply.steps[0].args == {"a": 1, "b": 40}
    assert shown == [["add"], ["add"]]
    kept = [each["content"] for each in one.memory.get_memories()]
    assert "Be brief." not in kept


def test_loop_block_may_hide_an_action_that_is_still_called_by_its_name() -> None:
    hidden = Action("hidden", lambda: "found", description="Not shown.")
    one = agent({"name": "hidden", "args": {}}, "x", actions=[hidden], blocks=[Noting("A", [])])
    assert one.reply_sync("?").steps[0].result["result"] == "found"


def test_loop_block_changes_a_call_before_its_permission_is_asked() -> None:
    asked: list[Any] = []

    def approve(request: Any) -> bool:
        asked.append(request.args)
        return True

    pay = Action("add", add, access_policy=ACCESS_REQUESTED)
    approver = CallbackApprover(approve)
    one = agent(ADD, "paid", actions=[pay], blocks=[Changing()], approver=approver)
    one.reply_sync("?")
    assert asked == [{"a": 1, "b": 40}]


class Failing(Block):
    """Fails where it is told to."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.where = where

    async def around_model(self, step: Any, call: Any) -> Any:
        return await self._through("model", call)

    async def around_action(self, step: Any, call: Any) -> Any:
        return await self._through("action", call)

    async def _through(self, what: str, call: Any) -> Any:
        if self.where == f"before {what}":
            raise LookupError("no such shelf")
        if self.where == f"later than {what}":
            raise Later("shelf", text="no such shelf")  # which only an action may do
        result = await call()
        if self.where == f"after {what}":
            raise LookupError("no such shelf")
        return None if self.where == f"nothing of {what}" else result


@pytest.mark.parametrize("when", ("before", "later than", "after", "nothing of"))
@pytest.mark.parametrize("what", ("model", "action"))
def test_loop_block_that_fails_ends_the_reply_with_its_name(what: str, when: str) -> None:
    one = agent(ADD, "3", blocks=[Failing(f"{when} {what}")])
    reply = one.reply_sync("?")
    assert reply.stop_reason == "error"
    assert isinstance(reply.error, HookError)
    assert (reply.error.hook, reply.error.type) == ("Failing", f"around_{what}")
    assert f"around_{what} of the block 'Failing' failed" in reply.detail
    assert ("no such shelf" in reply.detail) is (when != "nothing of")


def test_loop_block_that_fails_lets_an_action_happen_once(tmp_path: Path) -> None:
    done: list[int] = []

    def pay(euros: int) -> str:
        done.append(euros)
        return "paid"

    path = str(tmp_path / "runs.db")
    call = {"name": "pay", "args": {"euros": 5}}
    one = agent(call, actions=[pay], blocks=[Failing("after action")], journal=path)
    assert one.reply_sync("?", run_id="r").stop_reason == "error"
    other = agent(call, "paid it", actions=[pay], blocks=[Failing("")], journal=path)
    reply = other.reply_sync("?", run_id="r")
    assert (reply.text, done) == ("paid it", [5])
    assert reply.steps[0].result["result"] == "paid"


def test_loop_block_is_not_blamed_for_what_the_model_raises() -> None:
    one = agent(KeyError("no model"), blocks=[Noting("A", [])])
    reply = one.reply_sync("?")
    assert isinstance(reply.error, KeyError)


def test_loop_block_is_cancelled_with_its_step() -> None:
    async def run() -> list[str]:
        ends: list[str] = []
        began = asyncio.Event()

        class Waiting(Block):
            async def around_action(self, step: Any, call: Any) -> Any:
                try:
                    return await call()
                except asyncio.CancelledError:
                    ends.append(step.name)
                    raise

        async def wait() -> None:
            began.set()
            await asyncio.Event().wait()

        one = agent({"name": "wait", "args": {}}, actions=[wait], blocks=[Waiting()])
        task = asyncio.create_task(one.reply("?"))
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return ends

    assert asyncio.run(run()) == ["wait"]


class Shorter(Block):
    """Tries once more with the last message alone, if the prompt is too long."""

    async def around_model(self, step: Any, call: Any) -> Any:
        try:
            return await call()
        except ContextOverflow:
            step.messages = step.messages[-1:]
            return await call()


def test_loop_block_that_tries_a_step_twice_is_recorded_once_and_charged_twice(
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "runs.db")

    def answer(messages: Any, actions: Any) -> Any:
        if len(messages) > 1:
            raise ContextOverflow("too long")
        return "short"

    budget = Budget(model_calls=10)
    one = ReActAgent(
        "a", ScriptedModel(answer), system_prompt="Hi.", blocks=[Shorter()], journal=path
    )
    assert one.reply_sync("?", run_id="r", budget=budget).text == "short"
    assert budget.spent.model_calls == 2
    with Journal(path) as journal:
        started = [e for e in journal.entries("r") if e.kind == "started"]
        ended = [e for e in journal.entries("r") if e.kind == "ended"]
        assert len(started) == 1
        assert ended[0].data["charged"]["model_calls"] == 2


async def test_second_try_of_a_call_is_one_call_in_the_stream() -> None:
    class Again(Block):
        async def around_action(self, step: Any, call: Any) -> Any:
            return await call() if "error" in await call() else {"result": "the first try"}

    tried: list[int] = []

    def fetch() -> str:
        tried.append(1)
        if len(tried) == 1:
            raise ConnectionError("try again")
        return "it is here"

    one = agent({"name": "fetch"}, "Done.", actions=[fetch], blocks=[Again()])
    assert ([each.kind async for each in one.stream("Fetch.") if "call" in each.kind]) == [
        "call_started",
        "call_ended",
    ]
    assert len(tried) == 2


def test_loop_block_cannot_show_an_action_that_its_agent_does_not_have() -> None:
    class Inventing(Block):
        async def around_model(self, step: Any, call: Any) -> Any:
            step.actions = [*step.actions, Action("fly", lambda: None, description="Fly.")]
            return await call()

    reply = agent("x", blocks=[Inventing()]).reply_sync("?")
    assert isinstance(reply.error, HookError)
    assert isinstance(reply.error.__cause__, ConfigError)
    assert "has no action 'fly'" in reply.detail


class _OneParameter(Block):
    async def around_model(self, step: Any) -> Any:
        return step


class _NoContext(Block):
    def guidance(self) -> str:
        return "Say so."


class _Number(Block):
    guidance = 42  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("block", "said"),
    (
        (_OneParameter(), r"_OneParameter\.around_model must be a function of \(step, call\)"),
        (_NoContext(), r"_NoContext\.guidance must be a function of \(context\)"),
        (_Number(), r"_Number\.guidance must be a text or a function of \(context\), got 42"),
        (_Number, r"got the class _Number: _Number\(\)"),
    ),
)
def test_block_that_cannot_be_called_is_refused_when_the_agent_is_made(
    block: Any, said: str
) -> None:
    with pytest.raises(DefinitionError, match=said):
        agent("x", blocks=[block])


def test_skills_are_a_block(tmp_path: Path) -> None:
    folder = tmp_path / "pdf"
    folder.mkdir()
    (folder / "SKILL.md").write_text("---\nname: pdf\ndescription: Reads PDFs.\n---\nOpen them.")
    call = {"name": "load_skill", "args": {"name": "pdf"}}
    one = agent(call, "x", actions=[], blocks=[Skills(tmp_path)])
    assert one.reply_sync("?").steps[0].result["result"] == "Open them."
    assert "- pdf: Reads PDFs." in system_of(one)
