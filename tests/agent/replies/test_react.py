"""The loop: what it asks, what it does with each answer, how it ends."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent.replies.answers import Answers, both, say, use
from moothall.actions import ACCESS_DENIED, ACCESS_REQUESTED, Action, ActionRegistry, action
from moothall.actions.approval import ApprovalRequest, CallbackApprover
from moothall.actions.environment import Environment
from moothall.actions.goal import Goal
from moothall.agents.agent import Agent
from moothall.agents.context import Context
from moothall.agents.loop.react import ReActAgent
from moothall.agents.replies.reply import Reply
from moothall.foundation.errors import (
    AskAgain,
    BudgetExceeded,
    DeadlineExceeded,
    DefinitionError,
    InDoubt,
    ModelError,
)
from moothall.memory.bounded import TokenBoundedMemory
from moothall.memory.memory import Memory
from moothall.models.protocol import ModelReply, Usage
from moothall.models.wrappers.scripted import ScriptedModel

WAIT = 20


def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


async def add_later(a: int, b: int) -> int:
    """Add two integers."""
    await asyncio.sleep(0)
    return a + b


def agent(*answers: Any, **options: Any) -> tuple[ReActAgent, Answers]:
    model = Answers(*answers)
    options.setdefault("actions", [add])
    return ReActAgent("thinker", model, **options), model


def contents(reply: Reply, role: str) -> list[str]:
    return [message["content"] for message in reply.messages if message["role"] == role]


# -- the ordinary ----------------------------------------------------------------------------------


def test_reply_is_short_where_it_is_printed() -> None:
    asked, _ = agent(say("12 pears. " * 1000))

    printed = repr(asked.reply_sync("how many pears? " * 1000))

    assert printed.startswith("Reply(stop_reason='done', text='12 pears.")
    assert len(printed) < 200


def test_reply_is_an_answer_in_text() -> None:
    thinker, model = agent(say("Hello."))
    reply = thinker.reply_sync("Hi")
    assert (reply.text, reply.value, reply.stop_reason) == ("Hello.", "Hello.", "done")
    assert (reply.steps, reply.detail, reply.error) == ([], "", None)
    assert reply.usage == Usage(10, 2)
    assert model.prompts == [[{"role": "user", "content": "Hi"}]]
    assert reply.messages == thinker.memory.get_memories()
    assert reply.messages[1:] == [{"role": "assistant", "content": "Hello."}]


@pytest.mark.parametrize("function", (add, add_later))
@pytest.mark.parametrize("args", ({"a": 1, "b": 2}, '{"a": 1, "b": 2}'))
def test_call_is_executed_and_its_result_shown(function: Any, args: Any) -> None:
    name = function.__name__
    thinker, model = agent(use(name, args, id="c1"), say("3"), actions=[function])
    reply = thinker.reply_sync("Add 1 and 2")
    assert reply.text == "3"
    assert model.prompts[1] == [
        {"role": "user", "content": "Add 1 and 2"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "c1", "name": name, "args": {"a": 1, "b": 2}}],
        },
        {"role": "tool", "tool_call_id": "c1", "name": name, "content": "3"},
    ]
    (step,) = reply.steps
    assert (step.iteration, step.action, step.args) == (1, name, {"a": 1, "b": 2})
    assert step.error is None
    assert step.result["result"] == 3
    assert reply.usage == Usage(20, 7)


def test_actions_are_each_shown_to_the_model() -> None:
    thinker, model = agent(say("ok"), actions=[add])
    thinker.reply_sync("go")
    (seen,) = model.offered[0]
    assert (seen.name, seen.description) == ("add", "Add two integers.")
    assert seen.parameters["required"] == ["a", "b"]


def test_actions_that_are_none_are_not_shown() -> None:
    thinker, model = agent(say("ok"), actions=None)
    thinker.reply_sync("go")
    assert model.offered == [[]]


def test_actions_are_a_registry_or_made_one() -> None:
    class Clock(Agent):
        @action
        def now(self) -> str:
            """Say what time it is."""
            return "noon"

    clock = Clock("clock")
    thinker, _ = agent(say("ok"), actions=[add, Action("sub", lambda: 0, "", {}), clock])
    assert [a.name for a in thinker.actions.get_actions()] == ["add", "sub", "now"]
    thinker, _ = agent(say("ok"), actions=[clock.now])
    assert thinker.actions.get_action("now") is not None
    registry = ActionRegistry()
    thinker, _ = agent(say("ok"), actions=registry)
    assert thinker.actions is registry


def test_react_actions_it_calls_are_not_actions_it_offers() -> None:
    thinker, _ = agent(say("ok"))
    assert list(thinker.offers) == ["say"]
    assert [a.name for a in thinker.actions.get_actions()] == ["add"]


def test_say_replies() -> None:
    thinker, _ = agent(say("Hello."))
    assert asyncio.run(thinker.say("Hi")) == "Hello."


def test_system_prompt_leads_every_prompt() -> None:
    goals = [Goal(2, "brief", "Be brief."), Goal(1, "right", "Be right.")]
    thinker, model = agent(
        use("add", {"a": 1, "b": 1}), say("2"), goals=goals, system_prompt="You add."
    )
    reply = thinker.reply_sync("1 + 1")
    for prompt in model.prompts:
        assert [m["role"] for m in prompt].count("system") == 1
        system = prompt[0]["content"]
        assert system.index("You add.") < system.index("Be right.") < system.index("Be brief.")
    assert all(m["role"] != "system" for m in reply.messages)


def test_system_prompt_that_is_empty_is_left_out() -> None:
    cases: list[dict[str, Any]] = [{}, {"goals": []}, {"system_prompt": ""}]
    for options in cases:
        thinker, model = agent(say("ok"), **options)
        thinker.reply_sync("go")
        assert [m["role"] for m in model.prompts[0]] == ["user"]


@pytest.mark.parametrize("priority", ("high", None, True, float("nan"), [1]))
def test_goal_whose_priority_is_no_number_is_refused(priority: Any) -> None:
    goals = [Goal(1, "right", "Be right."), Goal(priority, "brief", "Be brief.")]
    with pytest.raises(
        DefinitionError, match="agent 'thinker': goals= has 'brief', whose priority"
    ):
        agent(say("2"), goals=goals)


def test_priorities_may_be_any_real_numbers() -> None:
    goals = [Goal(2.5, "brief", "Be brief."), Goal(-1, "right", "Be right.")]  # type: ignore[arg-type]
    thinker, model = agent(say("2"), goals=goals)
    thinker.reply_sync("1 + 1?")
    system = model.prompts[0][0]["content"]
    assert system.index("Be right.") < system.index("Be brief.")


@pytest.mark.parametrize(
    ("goals", "told"),
    (
        (
            Goal(1, "right", "Be right."),
            "goals= must be a list of goals, got one: put it in a list",
        ),
        ("Be right.", "goals= must be a list of goals, got 'Be right.'"),
        (5, "goals= must be a list of goals, got 5"),
    ),
)
def test_react_wrong_goals_are_refused(goals: Any, told: str) -> None:
    with pytest.raises(DefinitionError, match=f"agent 'thinker': {told}"):
        agent(say("2"), goals=goals)
    thinker, _ = agent(say("2"))
    with pytest.raises(DefinitionError, match=f"agent 'thinker': {told}"):
        thinker.goals = goals
    assert thinker.goals == []


def test_goals_may_change() -> None:
    thinker, model = agent(say("ok"))
    thinker.goals.append(Goal(1, "kind", "Be kind."))
    thinker.reply_sync("go")
    assert "Be kind." in model.prompts[0][0]["content"]
    thinker.goals = [Goal(1, "quick", "Be quick.")]
    thinker.reply_sync("go")
    assert "Be quick." in model.prompts[1][0]["content"]
    assert "Be kind." not in model.prompts[1][0]["content"]


def test_react_remembers_earlier_replies() -> None:
    thinker, model = agent(say("Hello, Ada."), say("Ada."))
    thinker.reply_sync("I am Ada.")
    thinker.reply_sync("Who am I?")
    assert [m["content"] for m in model.prompts[1]] == ["I am Ada.", "Hello, Ada.", "Who am I?"]


def test_observing_is_remembering_without_answering() -> None:
    thinker, model = agent(say("ok"))

    async def main() -> None:
        await thinker.observe("It rains\ud800.")
        await thinker.observe({"role": "assistant", "content": "I see."})
        message = {"from": "Bo", "to": "*", "action": {"name": "say", "args": {"content": "Hi!"}}}
        await thinker.observe(message)
        moved = {"from": "Bo", "to": "*", "action": {"name": "move", "args": {"x": 1}}}
        await thinker.observe(moved)

    asyncio.run(main())
    assert model.prompts == []
    assert thinker.memory.get_memories() == [
        {"role": "user", "content": "It rains?."},
        {"role": "assistant", "content": "I see."},
        {"role": "user", "content": "Bo: Hi!"},
        {"role": "user", "content": 'Bo: move {"x": 1}'},
    ]
    for nothing in ({"content": "no role"}, {"action": "say"}, {"action": {"args": {}}}):
        with pytest.raises(TypeError, match="observe takes a text, a chat message"):
            asyncio.run(thinker.observe(nothing))
    with pytest.raises(TypeError, match="reply takes a text or a list of blocks, got int"):
        asyncio.run(thinker.reply(7))  # type: ignore[arg-type]
    assert thinker.reply_sync("go").text == "ok"


def test_reply_sync_on_a_loop_is_an_error_that_says_what_to_do() -> None:
    thinker, _ = agent(say("ok"))

    async def main() -> None:
        with pytest.raises(RuntimeError, match=r"await reply\(text\) instead"):
            thinker.reply_sync("go")
        assert (await thinker.reply("go")).text == "ok"

    asyncio.run(main())
    assert thinker.reply_sync("go").text == "ok"


# -- results as the model sees them ----------------------------------------------------------------


@dataclass
class Point:
    x: int
    y: int


@pytest.mark.parametrize(
    ("value", "content"),
    (
        ("text as it is", "text as it is"),
        ("", ""),
        (None, "null"),
        (True, "true"),
        (1.5, "1.5"),
        ([(1, "a")], '[[1, "a"]]'),
        ({"k": "ü"}, '{"k": "ü"}'),
        (Point(1, 2), '{"x": 1, "y": 2}'),
        (date(2024, 2, 29), "2024-02-29"),
        ("\ud800", "?"),
        (10**5000, "(an integer that cannot be shown"),
        (object, "<class 'object'>"),
    ),
    ids=lambda value: type(value).__name__,
)
def test_result_is_shown_as_json_or_text(value: Any, content: str) -> None:
    def give() -> Any:
        return value

    thinker, model = agent(use("give"), say("ok"), actions=[give])
    reply = thinker.reply_sync("go")
    assert reply.stop_reason == "done"
    shown = model.last["content"]
    assert shown == content or shown.startswith(content)
    assert reply.steps[0].result["result"] is value


@pytest.mark.parametrize("levels", (0, 5000))
def test_result_list_that_contains_itself_or_is_nested_too_deep_is_shown_as_such(
    levels: int,
) -> None:
    value: list[Any] = []
    value.append(value)
    for _ in range(levels):
        value = [value]

    thinker, model = agent(use("give"), say("ok"), actions=[Action("give", lambda: value, "Give.")])
    assert thinker.reply_sync("go").text == "ok"
    assert "(a list that contains itself or is nested too deep)" in model.last["content"]


def test_result_that_cannot_be_shown_at_all_is_said() -> None:
    class Broken:
        def __str__(self) -> str:
            raise ValueError

    def give() -> Any:
        return Broken()

    thinker, model = agent(use("give"), say("ok"), actions=[give])
    assert thinker.reply_sync("go").text == "ok"
    assert model.last["content"] == "(a Broken that cannot be shown: ValueError)"


def test_failure_is_shown_without_its_traceback() -> None:
    def fail() -> None:
        raise FileNotFoundError("no file 'a.txt'")

    thinker, model = agent(use("fail"), say("There is none."), actions=[fail])
    reply = thinker.reply_sync("go")
    assert reply.text == "There is none."
    assert json.loads(model.last["content"]) == {"error": "no file 'a.txt'"}
    assert "Traceback" not in str(model.prompts)
    assert reply.steps[0].error == "no file 'a.txt'"
    assert "Traceback" in reply.steps[0].result["traceback"]


def test_ask_again_goes_back_to_the_model() -> None:
    def book(day: str) -> str:
        if day == "Sunday":
            raise AskAgain("closed on Sundays: choose another day")
        return f"booked for {day}"

    answers = (use("book", {"day": "Sunday"}), use("book", {"day": "Monday"}), say("Monday then."))
    thinker, model = agent(*answers, actions=[book])
    reply = thinker.reply_sync("Book Sunday")
    assert json.loads(model.prompts[1][-1]["content"])["error"].startswith("closed on Sundays")
    assert model.last["content"] == "booked for Monday"
    assert reply.stop_reason == "done"


@pytest.mark.parametrize("fails", (False, True))
def test_huge_result_is_cut_and_says_so(fails: bool) -> None:
    def flood() -> str:
        if fails:
            raise ValueError("x" * 10_000_000)
        return "x" * 10_000_000

    thinker, model = agent(use("flood"), say("ok"), actions=[flood], max_result_chars=1000)
    reply = thinker.reply_sync("go")
    shown = model.last["content"]
    assert len(shown) < 1150
    assert " of 10,000,0" in shown
    assert " characters are left out here: lines 2 to " in shown
    if not fails:
        assert len(reply.steps[0].result["result"]) == 10_000_000


def test_memory_that_cannot_be_read_is_named(caplog: pytest.LogCaptureFixture) -> None:
    class Unreadable(Memory):
        def get_memories(self, limit: int | None = None) -> list[dict[str, Any]]:
            raise OSError("no such disk")

    thinker, _ = agent(say("ok"), memory=Unreadable())
    reply = thinker.reply_sync("go")
    assert (reply.stop_reason, reply.detail) == ("error", "OSError: no such disk")
    assert "the memory of agent 'thinker' failed: OSError: no such disk" in caplog.text
    assert "the model" not in caplog.text


@pytest.mark.parametrize(
    ("given", "shown"),
    (
        (None, "get_memories must give a list of chat messages, got NoneType"),
        (["hi"], 'a memory is a chat message {"role": …, "content": …}, not str'),
        ([{"content": "hi"}], "a chat message of get_memories has no role: {'content': 'hi'}"),
    ),
)
def test_memory_that_gives_no_chat_messages_is_named(
    caplog: pytest.LogCaptureFixture, given: Any, shown: str
) -> None:
    class Wrong(Memory):
        def get_memories(self, limit: int | None = None) -> list[dict[str, Any]]:
            return given  # type: ignore[no-any-return]

    thinker, _ = agent(say("ok"), memory=Wrong())
    reply = thinker.reply_sync("go")
    assert reply.stop_reason == "error"
    assert shown in reply.detail
    assert "the memory of agent 'thinker' failed: ConfigError: " in caplog.text
    assert "the model" not in caplog.text


def test_memory_with_async_methods_is_refused_when_the_agent_is_made() -> None:
    class Remote:
        def add_memory(self, memory: dict[str, Any]) -> None: ...

        async def get_memories(self, limit: int | None = None) -> list[dict[str, Any]]:
            return []

    wrong: Any = Remote()
    shown = "memory= needs plain methods, and get_memories of a Remote is async"
    with pytest.raises(DefinitionError, match=f"agent 'thinker': {shown}"):
        agent(say("ok"), memory=wrong)
    thinker, _ = agent(say("ok"), memory=lambda thread: wrong)
    with pytest.raises(DefinitionError, match=shown):
        thinker.reply_sync("go")


@pytest.mark.parametrize("context", (None, 4096, 128_000))
def test_task_is_shown_beside_a_huge_result(context: int | None) -> None:
    def flood() -> str:
        return "x" * 100_000

    model = ScriptedModel([{"name": "flood"}, "ok"], context_tokens=context)
    ReActAgent("thinker", model, actions=[flood]).reply_sync("the task")
    assert model.received[-1][0]["content"] == "the task"


def test_results_leave_room_in_a_small_context() -> None:
    def flood() -> str:
        return "x" * 100_000

    answers = (both(*[("flood", None)] * count) for count in (4, 8))
    thinker, model = agent(use("flood"), *answers, say("ok"), actions=[flood])
    model.context_tokens = 2048
    reply = thinker.reply_sync("go")
    shown = contents(reply, "tool")
    assert [text.count("x") for text in shown] == [512] * 5 + [256] * 8
    assert all("99,488 of 100,000 characters are left out here" in text for text in shown[:5])
    assert reply.text == "ok"


# -- several calls ---------------------------------------------------------------------------------


def test_calls_of_one_answer_run_at_once_and_are_kept_in_order() -> None:
    met = asyncio.Event(), asyncio.Event()

    async def first() -> str:
        met[0].set()
        await asyncio.wait_for(met[1].wait(), WAIT)
        await asyncio.sleep(0)
        return "first"

    async def second() -> str:
        met[1].set()
        await asyncio.wait_for(met[0].wait(), WAIT)
        return "second"

    answer = both(("first", None), ("second", None), ids=["1", "2"])
    thinker, model = agent(answer, say("ok"), actions=[first, second])
    reply = thinker.reply_sync("go")
    assert [step.action for step in reply.steps] == ["first", "second"]
    assert [m.get("tool_call_id") for m in model.prompts[1][-2:]] == ["1", "2"]
    assert contents(reply, "tool") == ["first", "second"]


def test_plain_calls_of_one_answer_run_at_once() -> None:
    barrier = threading.Barrier(3)

    def meet() -> bool:
        barrier.wait(WAIT)
        return True

    answer = both(("meet", None), ("meet", None), ("meet", None))
    thinker, _ = agent(answer, say("ok"), actions=[meet])
    assert [step.result["result"] for step in thinker.reply_sync("go").steps] == [True] * 3


def test_calls_of_one_answer_are_as_many_as_are_allowed_in_one() -> None:
    thinker, _ = agent(both(*[("add", {"a": n, "b": 0}) for n in range(128)]), say("Ok."))
    steps = thinker.reply_sync("go").steps
    assert [each.result["result"] for each in steps] == [*range(128)]


def test_react_failed_call_leaves_the_other_calls_alone() -> None:
    def fail() -> None:
        raise ValueError("no")

    thinker, _ = agent(
        both(("fail", None), ("add", {"a": 1, "b": 1})), say("ok"), actions=[fail, add]
    )
    reply = thinker.reply_sync("go")
    assert [step.error for step in reply.steps] == ["no", None]


def test_ids_that_are_missing_or_alike_are_told_apart() -> None:
    calls = [("add", {"a": n, "b": 0}) for n in range(4)]
    thinker, model = agent(both(*calls, ids=["x", "x", "", "call_2"]), say("ok"))
    thinker.reply_sync("go")
    ids = [call["id"] for call in model.prompts[1][1]["tool_calls"]]
    assert ids[0] == "x"
    assert len(set(ids)) == 4
    assert [m["tool_call_id"] for m in model.prompts[1][2:]] == ids


def test_calls_that_a_server_numbers_anew_in_each_answer_are_told_apart(
    tmp_path: Path,
) -> None:
    def thinker() -> ReActAgent:
        calls = [{"name": "add", "args": {"a": n, "b": 2}, "id": "0"} for n in (1, 2)]
        model = ScriptedModel([calls[0], ConnectionError("down"), calls[1], "4"])
        return ReActAgent("thinker", model, actions=[add], journal=tmp_path / "j.db")

    assert thinker().reply_sync("go", run_id="R").stop_reason == "error"
    reply = thinker().reply_sync("go", run_id="R")
    made = [call["id"] for each in reply.messages for call in each.get("tool_calls", ())]
    ended = [each["tool_call_id"] for each in reply.messages if each["role"] == "tool"]
    assert made == ended == ["0", "call_2"]


# -- how it ends -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    (("Bye.", "Bye."), ({"n": 1}, '{"n": 1}'), (None, ""), (Point(1, 2), '{"x": 1, "y": 2}')),
)
def test_terminal_action_ends_the_reply_with_its_result(value: Any, text: str) -> None:
    @action(terminal=True)
    def finish() -> Any:
        return value

    thinker, model = agent(use("finish", text="I am done."), actions=[finish])
    reply = thinker.reply_sync("go")
    assert (reply.stop_reason, reply.text) == ("terminal", text)
    assert reply.value is value
    assert len(model.prompts) == 1
    assert reply.messages[-1]["role"] == "tool"


def test_terminal_action_that_fails_does_not_end_the_reply() -> None:
    tries = []

    @action(terminal=True)
    def finish() -> str:
        tries.append(1)
        if len(tries) < 2:
            raise ValueError("not yet")
        return "finished"

    thinker, _ = agent(use("finish"), use("finish"), actions=[finish])
    reply = thinker.reply_sync("go")
    assert (reply.stop_reason, reply.text, len(tries)) == ("terminal", "finished", 2)


def test_terminal_actions_at_once_give_the_first_as_the_reply_and_are_both_kept() -> None:
    quick_ended = asyncio.Event()

    @action(terminal=True)
    async def slow() -> str:
        await quick_ended.wait()
        return "slow"

    @action(terminal=True)
    async def quick() -> str:
        quick_ended.set()
        return "quick"

    thinker, _ = agent(both(("slow", None), ("quick", None)), actions=[slow, quick])
    reply = thinker.reply_sync("go")
    assert reply.text == "slow"
    assert contents(reply, "tool") == ["slow", "quick"]


def test_react_ends_after_max_iterations() -> None:
    answers = [use("add", {"a": n, "b": 0}, text=f"step {n}") for n in range(9)]
    thinker, model = agent(*answers, max_iterations=4)
    reply = thinker.reply_sync("go")
    assert (reply.stop_reason, reply.text) == ("max_iterations", "step 3")
    assert reply.detail == "no answer after 4 iterations"
    assert (len(model.prompts), len(reply.steps)) == (4, 4)


def test_progress_ends_with_the_same_call_and_the_same_result() -> None:
    thinker, model = agent(use("add", {"a": 1, "b": 1}, text="Again."))
    reply = thinker.reply_sync("go")
    assert (reply.stop_reason, reply.text) == ("no_progress", "Again.")
    assert reply.detail == (
        '"add" called 3 times in a row with the same arguments and the same result'
    )
    assert len(model.prompts) == 3


def test_progress_is_another_result_or_other_arguments() -> None:
    count = iter(range(100))

    def poll() -> int:
        return next(count)

    thinker, _ = agent(use("poll"), actions=[poll], max_iterations=6)
    assert thinker.reply_sync("go").stop_reason == "max_iterations"
    answers = [use("add", {"a": n % 3, "b": 0}) for n in range(6)]
    thinker, _ = agent(*answers, max_iterations=6)
    assert thinker.reply_sync("go").stop_reason == "max_iterations"


def test_progress_is_a_result_that_its_action_has_changed_since() -> None:
    seen: list[int] = []

    def look() -> list[int]:
        seen.append(1)
        return seen

    thinker, _ = agent(use("look"), actions=[look], max_iterations=6)
    assert thinker.reply_sync("go").stop_reason == "max_iterations"


@pytest.mark.parametrize("make", (lambda: np.arange(3), lambda: float("nan")))
def test_progress_ends_with_results_that_read_the_same(make: Callable[[], Any]) -> None:
    def look() -> Any:
        return make()

    thinker, model = agent(use("look"), actions=[look])
    assert (thinker.reply_sync("go").stop_reason, len(model.prompts)) == ("no_progress", 3)


def test_progress_ends_with_two_calls_that_alternate() -> None:
    counts = iter(range(100))

    def look() -> int:
        return 0

    def poll() -> int:
        return next(counts)

    answers = [use("look") if n % 2 else use("add", {"a": 1, "b": 1}) for n in range(20)]
    thinker, model = agent(*answers, actions=[add, look], max_iterations=20)
    reply = thinker.reply_sync("go")
    assert (reply.stop_reason, len(model.prompts)) == ("no_progress", 6)
    assert reply.detail == (
        '"add" and "look" called 3 times in turn with the same arguments and the same result'
    )
    answers = [use("poll") if n % 2 else use("look") for n in range(12)]
    thinker, _ = agent(*answers, actions=[look, poll], max_iterations=12)
    assert thinker.reply_sync("go").stop_reason == "max_iterations"


def test_standstill_is_not_the_same_call_twice_in_one_answer() -> None:
    def roll() -> int:
        return 4

    thinker, _ = agent(both(*[("roll", None)] * 5), say("4s"), actions=[roll])
    assert thinker.reply_sync("go").stop_reason == "done"


def test_model_that_fails_ends_the_reply_and_is_told(caplog: pytest.LogCaptureFixture) -> None:
    error = ModelError("the server is down")
    thinker, model = agent(use("add", {"a": 1, "b": 1}, text="First."), error)
    with caplog.at_level(logging.ERROR, "moothall.agents"):
        reply = thinker.reply_sync("go")
    assert (reply.stop_reason, reply.text) == ("error", "First.")
    assert reply.error is error
    assert reply.detail == "ModelError: the server is down"
    assert "the model of agent 'thinker' failed" in caplog.text
    assert len(reply.steps) == 1
    model.answers = [say("Back again.")]
    assert thinker.reply_sync("and now?").text == "Back again."


def test_say_tells_of_a_failure_instead_of_saying_nothing() -> None:
    thinker, model = agent(ValueError("broken"))
    with pytest.raises(ValueError, match="broken"):
        asyncio.run(thinker.say("Hi"))
    model.answers = [use("add", {"a": 1, "b": 1})]
    with pytest.raises(ModelError, match=r"'thinker' has no reply \(no_progress\): \"add\" called"):
        asyncio.run(thinker.say("Hi"))
    model.answers = [say("Hello.")]
    assert asyncio.run(thinker.say("Hi")) == "Hello."


@pytest.mark.parametrize(
    ("reason", "detail"),
    (
        ("length", "cut at the model's length limit"),
        ("content_filter", "cut by the provider's content filter"),
    ),
)
def test_answer_that_was_cut_says_so(reason: str, detail: str) -> None:
    thinker, _ = agent(ModelReply(text="Once upon a", finish_reason=reason))
    reply = thinker.reply_sync("go")
    assert (reply.stop_reason, reply.text, reply.detail) == ("done", "Once upon a", detail)


# -- answers that cannot be used: one more try -----------------------------------------------------


def test_bad_answer_is_asked_for_once_more_with_its_fault() -> None:
    thinker, model = agent(use("add", {"a": 1}), use("add", {"a": 1, "b": 1}), say("2"))
    reply = thinker.reply_sync("go")
    assert reply.text == "2"
    assert json.loads(model.prompts[1][-1]["content"]) == {"error": '"add" missing argument "b"'}
    assert len(reply.steps) == 1


def test_bad_answer_a_second_time_in_a_row_is_the_end() -> None:
    thinker, model = agent(use("nothing"), use("add", {"a": "x", "b": 1}))
    reply = thinker.reply_sync("go")
    assert reply.stop_reason == "unreadable"
    assert '"add" argument "a"' in reply.detail
    assert len(model.prompts) == 2
    assert reply.usage == Usage(20, 10)


def test_bad_answers_are_counted_anew_after_a_good_one() -> None:
    bad = use("nothing")
    good = [use("add", {"a": n, "b": 1}) for n in range(3)]
    thinker, _ = agent(bad, good[0], bad, good[1], bad, good[2], bad, say("ok"))
    assert thinker.reply_sync("go").stop_reason == "done"


def test_calls_of_an_answer_with_a_bad_one_are_not_executed() -> None:
    done = []

    def act(n: int) -> None:
        done.append(n)

    answer = both(("act", {"n": 1}), ("act", {"m": 2}), ("fly", None))
    thinker, model = agent(answer, say("ok"), actions=[act])
    thinker.reply_sync("go")
    assert done == []
    told = [json.loads(m["content"])["error"] for m in model.prompts[1][-3:]]
    assert told == [
        "not executed, because another call of the same answer was wrong",
        '"act" missing argument "n", unexpected argument "m"',
        '"fly" is not an action; the actions are act',
    ]


def test_bad_answer_as_the_last_one_is_told() -> None:
    thinker, _ = agent(use("fly"), max_iterations=1)
    reply = thinker.reply_sync("go")
    assert reply.stop_reason == "max_iterations"
    assert reply.detail.endswith(
        'the last could not be used: "fly" is not an action; the actions are add'
    )


# -- cancelling ------------------------------------------------------------------------------------


def tool_pairs_are_whole(items: list[dict[str, Any]]) -> bool:
    wanted = [call["id"] for item in items for call in item.get("tool_calls", ())]
    return wanted == [item["tool_call_id"] for item in items if item["role"] == "tool"]


async def test_cancelling_reaches_the_model() -> None:
    asked, cleaned = asyncio.Event(), []

    async def hang(_: Any) -> Any:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(True)

    thinker, model = agent(lambda prompt: hang(prompt))
    task = asyncio.create_task(thinker.reply("go"))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleaned == [True]
    model.answers = [say("ok")]
    assert (await thinker.reply("again")).text == "ok"


@pytest.mark.parametrize("others", (0, 2))
async def test_cancelling_reaches_every_action_and_leaves_no_call_without_result(
    others: int,
) -> None:
    started, cleaned = asyncio.Event(), []

    async def hang(n: int) -> None:
        if n == others:
            started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append(n)

    async def quick() -> str:
        return "done before"

    calls: list[tuple[str, Any]] = [("hang", {"n": n}) for n in range(others + 1)]
    if others:
        calls.insert(0, ("quick", None))
    thinker, model = agent(both(*calls), actions=[hang, quick])
    task = asyncio.create_task(thinker.reply("go"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(cleaned) == list(range(others + 1))
    kept = thinker.memory.get_memories()
    assert tool_pairs_are_whole(kept)
    results = [item["content"] for item in kept if item["role"] == "tool"]
    assert "cancelled before it ended" in results[-1]
    if others:
        assert results[0] == "done before"
    model.answers = [say("ok")]
    assert (await thinker.reply("again")).text == "ok"


def test_model_that_is_cancelled_by_others_ends_in_a_reply() -> None:
    thinker, _ = agent(asyncio.CancelledError(), say("ok"))
    reply = thinker.reply_sync("go")
    assert (reply.stop_reason, reply.detail) == ("cancelled", "the model's answer was cancelled")
    assert thinker.reply_sync("go").text == "ok"


# -- one reply at a time ---------------------------------------------------------------------------


async def test_replies_of_one_agent_wait_for_each_other() -> None:
    asked, gate = asyncio.Event(), asyncio.Event()

    async def first(_: Any) -> Any:
        asked.set()
        await gate.wait()
        return say("one")

    thinker, model = agent(lambda prompt: first(prompt), say("two"), say("three"))
    tasks = [asyncio.create_task(thinker.reply(text)) for text in ("1", "2", "3")]
    await asked.wait()
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(model.prompts) == 1
    tasks[1].cancel()
    gate.set()
    assert [(await task).text for task in (tasks[0], tasks[2])] == ["one", "two"]
    assert tasks[1].cancelled()
    assert [m["content"] for m in model.prompts[1]] == ["1", "one", "3"]


async def test_turn_of_a_reply_that_leaves_goes_to_the_next() -> None:
    asked, gate = asyncio.Event(), asyncio.Event()
    leaving: list[asyncio.Task[Reply]] = []

    async def first(_: Any) -> Any:
        asked.set()
        await gate.wait()
        # The turn is given to the second, which is cancelled before it goes on.
        loop = asyncio.get_running_loop()
        loop.call_soon(lambda: loop.call_soon(leaving[0].cancel))
        return say("one")

    thinker, _ = agent(lambda prompt: first(prompt), say("next"))
    tasks = [asyncio.create_task(thinker.reply(text)) for text in ("1", "2", "3")]
    leaving.append(tasks[1])
    await asked.wait()
    gate.set()
    done, _ = await asyncio.wait(tasks, timeout=WAIT)
    assert len(done) == 3
    assert tasks[0].result().text == "one"
    assert tasks[2].result().text == "next"


def test_threads_with_loops_of_their_own_wait_for_each_other() -> None:
    inside = []
    most = []
    all_started = threading.Event()

    async def answer(_: Any) -> Any:
        inside.append(1)
        most.append(len(inside))
        await asyncio.to_thread(all_started.wait, WAIT)
        inside.pop()
        return say("ok")

    thinker, _ = agent(lambda prompt: answer(prompt))
    replies: list[str] = []
    threads = [
        threading.Thread(target=lambda: replies.append(thinker.reply_sync("go").text))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    all_started.set()
    for thread in threads:
        thread.join(WAIT)
    assert replies == ["ok"] * 8
    assert max(most) == 1


def test_react_replies_on_one_loop_after_another() -> None:
    thinker, _ = agent(say("ok"))

    async def two() -> list[str]:
        return [r.text for r in await asyncio.gather(thinker.reply("a"), thinker.reply("b"))]

    for _ in range(3):
        assert asyncio.run(two()) == ["ok", "ok"]


async def test_action_may_ask_its_own_agent() -> None:
    async def think(about: str) -> str:
        return (await thinker.reply(about)).text

    thinker, _ = agent(use("think", {"about": "it"}), say("thought"), say("so be it"))
    thinker.actions.register(think)
    reply = await asyncio.wait_for(thinker.reply("go"), WAIT)
    assert reply.text == "so be it"
    assert contents(reply, "tool") == ["thought"]
    assert tool_pairs_are_whole(thinker.memory.get_memories())


def test_plain_action_may_ask_its_own_agent() -> None:
    def think() -> str:
        return thinker.reply_sync("about it").text

    thinker, _ = agent(use("think"), say("thought"), say("so be it"), actions=[think])
    assert thinker.reply_sync("go").text == "so be it"


def test_agents_that_ask_each_other_for_ever_are_stopped() -> None:
    async def think() -> str:
        return (await thinker.reply("deeper")).text

    depth = []

    def deeper(prompt: Any) -> Any:
        if prompt[-1]["role"] == "user":
            depth.append(1)
            return use("think")
        return say(prompt[-1]["content"])

    thinker, _ = agent(deeper, actions=[think])
    reply = thinker.reply_sync("go")
    assert len(depth) == 8
    assert "9 agents deep" in reply.text
    thinker.model.answers = [say("ok")]  # type: ignore[attr-defined]
    assert thinker.reply_sync("go").text == "ok"


# -- access ----------------------------------------------------------------------------------------


def test_denied_action_is_neither_shown_nor_run() -> None:
    done = []

    @action(access_policy=ACCESS_DENIED)
    def launch() -> None:
        done.append(1)

    thinker, model = agent(use("launch"), say("ok"), actions=[launch, add])
    thinker.reply_sync("go")
    assert model.names == ["add"]
    assert json.loads(model.last["content"]) == {"error": '"launch" not permitted'}
    assert done == []


@pytest.mark.parametrize("answer", (True, False))
def test_requested_action_asks_the_approver(answer: bool) -> None:
    done: list[str] = []
    asked: list[ApprovalRequest] = []

    @action(access_policy=ACCESS_REQUESTED)
    def delete(path: str) -> str:
        done.append(path)
        return "deleted"

    def approve(request: ApprovalRequest) -> bool:
        asked.append(request)
        request.args["path"] = request.message["action"]["args"]["path"] = "/"
        return answer

    thinker, model = agent(
        use("delete", {"path": "a.txt"}),
        say("ok"),
        actions=[delete],
        approver=CallbackApprover(approve),
    )
    thinker.reply_sync("go")
    (request,) = asked
    assert (request.agent, request.action, request.sender) == ("thinker", "delete", "thinker")
    assert done == (["a.txt"] if answer else [])
    expected = "deleted" if answer else '{"error": "\\"delete\\" not permitted"}'
    assert model.last["content"] == expected


def test_requested_action_without_an_approver_is_refused() -> None:
    @action(access_policy=ACCESS_REQUESTED)
    def delete() -> str:
        return "deleted"

    thinker, model = agent(use("delete"), say("ok"), actions=[delete])
    thinker.reply_sync("go")
    assert json.loads(model.last["content"]) == {"error": '"delete" not permitted'}


def test_request_permission_may_be_overridden() -> None:
    @action(access_policy=ACCESS_REQUESTED)
    def delete() -> str:
        return "deleted"

    class Careful(ReActAgent):
        def request_permission(self, proposed_message: dict[str, Any]) -> Any:
            assert threading.current_thread() is not threading.main_thread()
            if proposed_message["to"] == "broken":
                raise RuntimeError
            return True if proposed_message["action"]["name"] == "delete" else None

    for id, content in (("careful", "deleted"), ("broken", '{"error": "\\"delete\\" not p')):
        model = Answers(use("delete"), say("ok"))
        Careful(id, model, actions=[delete]).reply_sync("go")
        assert model.last["content"].startswith(content)


# -- what actions are given ------------------------------------------------------------------------


def test_context_is_filled_in_and_not_shown() -> None:
    seen: list[Context[Any]] = []

    def look(where: str, context: Context[str]) -> str:
        """Look."""
        seen.append(context)
        return str(context.deps)

    thinker, model = agent(
        use("look", {"where": "here"}), say("ok"), actions=[look], deps="a telescope"
    )
    thinker.reply_sync("go", run_id="run-7")
    assert model.last["content"] == "a telescope"
    assert list(model.offered[0][0].parameters["properties"]) == ["where"]
    assert seen[0].agent is thinker
    assert (seen[0].run_id, seen[0].message, seen[0].budget) == ("run-7", None, None)


def test_context_cannot_be_given_by_a_model() -> None:
    def look(context: Context[Any]) -> str:
        return "seen"

    thinker, model = agent(use("look", {"context": {}}), use("look"), say("ok"), actions=[look])
    thinker.reply_sync("go")
    told = json.loads(model.prompts[1][-1]["content"])
    assert told == {"error": '"look" unexpected argument "context"'}
    assert model.last["content"] == "seen"


def test_react_remembers_arguments_before_an_action_changes_them() -> None:
    def sort(numbers: list) -> list:  # type: ignore[type-arg]
        numbers.sort()
        numbers.append("sorted")
        return numbers

    args = {"numbers": [3, 1, 2]}
    thinker, _ = agent(use("sort", args), say("ok"), actions=[sort])
    reply = thinker.reply_sync("go")
    assert reply.steps[0].args == args == {"numbers": [3, 1, 2]}
    assert reply.messages[1]["tool_calls"][0]["args"] == {"numbers": [3, 1, 2]}
    assert contents(reply, "tool") == ['[1, 2, 3, "sorted"]']


# -- asked anew before every model call ------------------------------------------------------------


def test_actions_may_come_and_go_during_a_reply() -> None:
    def learn() -> str:
        thinker.actions.register(add)
        return "learned"

    thinker, model = agent(use("learn"), use("add", {"a": 1, "b": 1}), say("2"), actions=[learn])
    thinker.reply_sync("go")
    assert [[a.name for a in offered] for offered in model.offered] == [
        ["learn"],
        ["learn", "add"],
        ["learn", "add"],
    ]


class Graph(Memory):
    """Keeps memories as nodes with an edge to the one before."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes: dict[int, tuple[dict[str, Any], int | None]] = {}

    def add_memory(self, memory: dict[str, Any]) -> None:
        number = len(self.nodes)
        self.nodes[number] = (memory, number - 1 if number else None)

    def get_memories(self, limit: int | None = None) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        at: int | None = len(self.nodes) - 1 if self.nodes else None
        while at is not None and (limit is None or len(found) < limit):
            memory, at = self.nodes[at]
            found.append(memory)
        return found[::-1]


class DryRun(Environment):
    """Says what it would do."""

    def execute_action(self, action: Action, args: dict[str, Any]) -> dict[str, Any]:
        return {"tool_executed": True, "result": f"would {action.name} {args}"}


class Weekdays(ActionRegistry):
    """Shows its actions from the second time on."""

    asked = 0

    def get_actions(self) -> list[Action]:
        self.asked += 1
        return super().get_actions() if self.asked > 1 else []


@dataclass
class Tool:
    """An action of a class of its own, which cannot be hashed."""

    name: str
    function: Callable[..., Any]
    description: str
    parameters: dict[str, Any]


class Toolbox(ActionRegistry):
    def get_actions(self) -> list[Any]:
        return [
            Tool(**{name: getattr(each, name) for name in Tool.__annotations__})
            for each in super().get_actions()
        ]


def test_actions_of_a_class_that_cannot_be_hashed_are_called() -> None:
    registry = Toolbox()
    registry.register(add)
    thinker, model = agent(use("add", {"a": 1, "b": 2}), say("3"), actions=registry)
    assert thinker.reply_sync("1 + 2?").text == "3"
    assert model.last["content"] == "3"


@pytest.mark.parametrize("function", (add, add_later))
def test_subclasses_that_override_a_method_each_are_obeyed(function: Callable[..., Any]) -> None:
    registry = Weekdays()
    registry.register(function)
    name = function.__name__
    memory = Graph()
    model = Answers(say("Nothing to do."), use(name, {"a": 1, "b": 2}), say("ok"))
    thinker = ReActAgent("t", model, actions=registry, memory=memory, environment=DryRun())
    thinker.reply_sync("one")
    thinker.reply_sync("two")
    assert [len(offered) for offered in model.offered] == [0, 1, 1]
    assert model.last["content"] == f"would {name} {{'a': 1, 'b': 2}}"
    assert [m["content"] for m in model.prompts[1]] == ["one", "Nothing to do.", "two"]
    assert len(memory.nodes) == 6
    assert memory.items == []


def test_memory_may_show_something_else_each_time() -> None:
    class Forgetful(Memory):
        def get_memories(self, limit: int | None = None) -> list[dict[str, Any]]:
            return super().get_memories(1)

    thinker, model = agent(use("add", {"a": 1, "b": 1}), say("2"), memory=Forgetful())
    thinker.reply_sync("go")
    assert [len(prompt) for prompt in model.prompts] == [1, 1]
    assert model.last["content"] == "2"


def test_environment_may_have_the_sync_form_only() -> None:
    class Own:
        def execute_action(self, action: Action, args: dict[str, Any]) -> dict[str, Any]:
            return {"tool_executed": True, "result": "mine"}

    thinker, model = agent(
        use("add_later", {"a": 1, "b": 1}), say("ok"), actions=[add_later], environment=Own()
    )
    thinker.reply_sync("go")
    assert model.last["content"] == "mine"


@pytest.mark.parametrize(
    ("given", "content"),
    (
        (None, '{"error": "an environment must give a dict, got NoneType"}'),
        ({"tool_executed": False, "result": "nothing was done"}, "nothing was done"),
        ({"status": 7, "traceback": "secret"}, '{"status": 7}'),
        ({"error": 404}, '{"error": "404"}'),
    ),
)
def test_environment_may_give_results_of_its_own_shape(given: Any, content: str) -> None:
    class Odd(Environment):
        def execute_action(self, action: Action, args: dict[str, Any]) -> dict[str, Any]:
            return given  # type: ignore[no-any-return]

    thinker, model = agent(use("add", {"a": 1, "b": 1}), say("ok"), environment=Odd())
    assert thinker.reply_sync("go").text == "ok"
    assert model.last["content"] == content


def test_environment_that_breaks_is_a_failure_that_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(Environment):
        async def aexecute_action(self, action: Action, args: dict[str, Any]) -> dict[str, Any]:
            raise OSError("unplugged")

    thinker, model = agent(use("add", {"a": 1, "b": 1}), say("ok"), environment=Broken())
    with caplog.at_level(logging.ERROR, "moothall.agents"):
        assert thinker.reply_sync("go").text == "ok"
    assert json.loads(model.last["content"]) == {"error": "unplugged"}
    assert "unplugged" in caplog.text


class Asynchronous(Environment):
    """Overrides the sync method alone, by an async one."""

    async def execute_action(self, action: Action, args: dict[str, Any]) -> Any:  # type: ignore[override]
        return self.format_result(await action.execute(**args))


@pytest.mark.parametrize("environment", (Environment(), Asynchronous()))
def test_time_limit_of_an_action_is_a_result(environment: Environment) -> None:
    @action(timeout=0.01)
    async def hang() -> None:
        await asyncio.Event().wait()

    thinker, model = agent(use("hang"), say("ok"), actions=[hang], environment=environment)
    assert thinker.reply_sync("go").text == "ok"
    told = '"hang" took longer than 0.01 s; whether it had an effect is not known'
    assert json.loads(model.last["content"]) == {"error": told}


def test_environment_that_was_cancelled_by_itself_has_failed() -> None:
    class Nervous(Environment):
        async def aexecute_action(self, action: Action, args: dict[str, Any]) -> dict[str, Any]:
            raise asyncio.CancelledError

    thinker, model = agent(use("add", {"a": 1, "b": 1}), say("ok"), environment=Nervous())
    assert thinker.reply_sync("go").text == "ok"
    assert json.loads(model.last["content"]) == {"error": "CancelledError"}


def test_call_without_arguments_may_have_an_empty_text() -> None:
    def look() -> str:
        return "seen"

    thinker, model = agent(use("look", ""), use("look", " "), say("ok"), actions=[look])
    thinker.reply_sync("go")
    assert model.last["content"] == "seen"


# -- names -----------------------------------------------------------------------------------------


def test_names_that_models_cannot_say_are_mapped_and_back() -> None:
    registry = ActionRegistry()
    names = ["plan.make", "plan make", "läuft!", "ok_name", "x" * 255, "\x1b[31m", '"quoted"']
    for name in names:
        registry.register(Action(name, lambda name=name: f"did {name}", "", {"type": "object"}))
    thinker, model = agent(say("ok"), actions=registry)
    thinker.reply_sync("go")
    shown = model.names
    assert len(set(shown)) == len(names)
    assert all(
        set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
        and 0 < len(name) <= 64
        for name in shown
    )
    assert "ok_name" in shown
    for public, safe in zip(names, shown, strict=True):
        for called in (safe, public):
            model.answers = [use(called), say("ok")]
            reply = thinker.reply_sync("go")
            assert (reply.stop_reason, reply.steps[0].action) == ("done", public)
            assert reply.steps[0].result["result"] == f"did {public}"


# -- how it is made --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    (
        ({"actions": 7}, "actions= must be a registry, or a list"),
        ({"actions": "add"}, "actions= must be a registry, or a list"),
        ({"actions": add}, "actions= must be a registry, or a list"),
        ({"actions": [7]}, "an action must be a function"),
        ({"actions": [add, add]}, "actions= has two of one name, the second being <function add"),
        ({"max_iterations": 0}, "max_iterations= must be a whole number from 1 up, got 0"),
        ({"max_iterations": 2.5}, "max_iterations= must be a whole number from 1 up, got 2.5"),
        ({"max_result_chars": 0}, "max_result_chars= must be a whole number from 1"),
        ({"discover": "Bob"}, 'discover= must be "\\*", a group'),
        ({"discover": ["*"]}, 'discover= has an invalid id: "\\*" is not an id'),
        ({"discover": ["Bob", ""]}, "discover= has an invalid id: an id has 1 to 255"),
        ({"discover": 7}, 'discover= must be "\\*", a group'),
        (
            {"system_prompt": 5},
            "agent 't': system_prompt= must be a text or a function of the Context, got 5",
        ),
    ),
)
def test_react_wrong_argument_is_refused_at_once(options: Any, text: str) -> None:
    with pytest.raises(DefinitionError, match=text):
        ReActAgent("t", Answers(say("ok")), **options)
    assert ReActAgent("t", Answers(say("ok"))).reply_sync("go").text == "ok"


@pytest.mark.parametrize(("context", "bound"), ((None, 16384), (2048, 1024), (1, 1)))
def test_react_without_a_memory_has_one_of_half_its_models_context(
    context: int | None, bound: int
) -> None:
    model = Answers(say("ok"))
    model.context_tokens = context
    memory = ReActAgent("t", model).memory
    assert isinstance(memory, TokenBoundedMemory)
    assert memory.max_tokens == bound


def test_react_model_by_name_is_looked_at_when_it_is_given() -> None:
    with pytest.raises(ModelError, match="agent 't': there is no model 'no such model'"):
        ReActAgent("t", "no such model")
    thinker, _ = agent(say("ok"))
    with pytest.raises(ModelError, match="there is no model 'no such model'"):
        thinker.model = "no such model"  # type: ignore[assignment]
    assert thinker.reply_sync("go").text == "ok"


def test_react_agent_that_lives_long_does_not_grow() -> None:
    def answer(prompt: list[dict[str, Any]]) -> Any:
        if prompt[-1]["role"] == "tool":
            return say("2")
        return use("add_later", {"a": 1, "b": 1})

    thinker, _ = agent(answer, actions=[add_later])
    thinker.memory = TokenBoundedMemory(500)

    async def main() -> None:
        for _ in range(500):
            assert (await thinker.reply("How much is 1 + 1?")).text == "2"

    asyncio.run(main())
    assert len(thinker.memory.items) < 60
    assert tool_pairs_are_whole(thinker.memory.get_memories())


@pytest.mark.parametrize(
    ("part", "wrong"),
    (
        ("model", 5),
        ("model", ScriptedModel),
        ("goals", ["win"]),
        ("memory", []),
        ("memory", Memory),
        ("environment", Environment),
        ("actions", [lambda x: 1]),
    ),
)
def test_react_part_of_a_wrong_kind_is_refused_when_the_agent_is_made(
    part: str, wrong: Any
) -> None:
    parts = {"model": ScriptedModel(["ok"]), part: wrong}
    with pytest.raises(DefinitionError, match=part):
        ReActAgent("a", parts.pop("model"), **parts)


# -- parts of one's own ----------------------------------------------------------------------------


class PaperAction:
    """An action as the paper has it that moothall follows."""

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        description: str,
        parameters: dict[str, Any],
        terminal: bool = False,
    ) -> None:
        self.name = name
        self.function = function
        self.description = description
        self.terminal = terminal
        self.parameters = parameters

    def execute(self, **args: Any) -> Any:
        return self.function(**args)


class PaperRegistry:
    """Its registry."""

    def __init__(self) -> None:
        self.actions: dict[str, PaperAction] = {}

    def register(self, action: PaperAction) -> None:
        self.actions[action.name] = action

    def get_action(self, name: str) -> PaperAction | None:
        return self.actions.get(name)

    def get_actions(self) -> list[PaperAction]:
        return list(self.actions.values())


def test_actions_and_a_registry_of_ones_own_classes_serve() -> None:
    registry = PaperRegistry()
    parameters = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    registry.register(PaperAction("double", lambda n: 2 * n, "Double a number.", parameters))
    registry.register(PaperAction("stop", lambda: "stopped", "Stop.", {}, terminal=True))
    thinker, model = agent(
        use("double", {"n": "two"}), use("double", {"n": 2}), use("stop"), actions=registry
    )
    reply = thinker.reply_sync("go")
    assert (reply.text, reply.stop_reason) == ("stopped", "terminal")
    assert [step.result["result"] for step in reply.steps] == [4, "stopped"]
    assert model.names == ["double", "stop"]
    # As ever, what is registered meanwhile is seen.
    registry.register(PaperAction("more", lambda: 1, "More.", {}))
    thinker.reply_sync("go")
    assert "more" in model.names


def test_actions_of_ones_own_class_serve_without_a_registry_of_their_own() -> None:
    parameters = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    double = PaperAction("double", lambda n: 2 * n, "Double a number.", parameters)
    registry = ActionRegistry()
    registry.register(PaperAction("stop", lambda: "stopped", "Stop.", {}, terminal=True))
    for given in ([double, *registry.get_actions()], registry):
        thinker, model = agent(use("double", {"n": 2}), use("stop"), actions=given)
        assert thinker.reply_sync("go").stop_reason == "terminal"
        assert model.names == ["double", "stop"]
        registry.register(double)
        registry.actions["stop"] = registry.actions.pop("stop")


def test_terminal_action_does_not_end_a_run_in_which_the_user_has_spoken() -> None:
    @action(terminal=True)
    async def finish() -> str:
        thinker.interrupt("Wait, one thing more.")
        return "finished"

    thinker, model = agent(use("finish"), say("Then this."), actions=[finish])
    reply = thinker.reply_sync("go")
    assert (reply.text, reply.stop_reason) == ("Then this.", "done")
    assert model.last["content"] == "Wait, one thing more."


def test_usage_of_a_run_with_hooks_is_counted() -> None:
    thinker, _ = agent(use("add", {"a": 1, "b": 2}), say("3"))
    thinker.register_hook("post_reasoning", "look", lambda *_: None)
    assert thinker.reply_sync("go").usage == Usage(20, 7)


@pytest.mark.parametrize(
    ("reason", "error"),
    (
        ("done", None),
        ("terminal", None),
        ("terminated", None),
        ("budget", BudgetExceeded),
        ("deadline", DeadlineExceeded),
        ("in_doubt", InDoubt),
        ("max_iterations", ModelError),
        ("cancelled", ModelError),
    ),
)
def test_reply_raises_what_ended_it(reason: Any, error: type[Exception] | None) -> None:
    reply = Reply("so far", None, [], [], Usage(), reason, "why it is")
    if error is None:
        reply.raise_for_error()
        return
    with pytest.raises(error, match="why it is; it had said: so far"):
        reply.raise_for_error()
    broken = Reply("", None, [], [], Usage(), "error", "x", KeyError("what it was"))
    with pytest.raises(KeyError, match="what it was"):
        broken.raise_for_error()


def test_reply_is_json_data_whatever_is_in_it() -> None:
    thinker, _ = agent(use("hand"), ModelError("no power"), actions=[hand])
    reply = thinker.reply_sync("go")
    told = json.loads(json.dumps(reply.to_json()))
    assert told["error"] == "ModelError: no power"
    assert told["steps"][0]["result"]["result"] == "a hand"
    assert (told["stop_reason"], told["run_id"]) == ("error", reply.run_id)
    assert told["usage"] == dataclasses.asdict(Usage(10, 5))
    assert reply.usage.total == 15


class Hand:
    def __str__(self) -> str:
        return "a hand"


def hand() -> Hand:
    """Give a hand."""
    return Hand()


def test_approver_changes_no_arguments() -> None:
    def pay(to: list[str]) -> str:
        """Pay."""
        return " ".join(to)

    def spoil(request: ApprovalRequest) -> bool:
        request.args["to"].append("me")
        request.message["action"]["args"]["to"].append("me")
        return True

    paying = Action("pay", pay, "Pay.", access_policy=ACCESS_REQUESTED)
    script = ScriptedModel([{"name": "pay", "args": {"to": ["Bo"]}}, "Paid."])
    payer = ReActAgent("a", script, actions=[paying], approver=CallbackApprover(spoil))
    (step,) = payer.reply_sync("go").steps
    assert (step.args, step.result["result"]) == ({"to": ["Bo"]}, "Bo")
