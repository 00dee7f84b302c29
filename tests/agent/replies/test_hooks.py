"""Hooks: what they see, what they may change, what happens when they fail."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from typing import Any

import pytest

from agent.replies.answers import Answers
from moothall import (
    ACCESS_REQUESTED,
    Action,
    ApprovalRequest,
    Budget,
    CallbackApprover,
    Conversation,
    DefinitionError,
    DualActAgent,
    DualActConfig,
    HookError,
    Later,
    ModelReply,
    NativeSpace,
    NotPermitted,
    ReActAgent,
    Reply,
    ScriptedModel,
)
from standing_clock import StandingClock

TYPES = [
    "pre_reply",
    "post_reply",
    "pre_observe",
    "post_observe",
    "pre_reasoning",
    "post_reasoning",
    "pre_acting",
    "post_acting",
]


def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


def agent(*answers: Any, **options: Any) -> ReActAgent:
    options.setdefault("actions", [add])
    return ReActAgent("thinker", ScriptedModel(answers), **options)


@pytest.mark.parametrize("form", ("sync", "async"))
def test_hooks_are_called_in_order_with_what_the_step_is_about(form: str) -> None:
    seen: list[tuple[str, dict[str, Any]]] = []

    def watcher(type: str) -> Any:
        def plain(who: ReActAgent, kwargs: dict[str, Any]) -> None:
            assert who is thinker
            seen.append((type, kwargs))

        async def later(who: ReActAgent, kwargs: dict[str, Any]) -> None:
            await asyncio.sleep(0)
            plain(who, kwargs)

        return plain if form == "sync" else later

    thinker = agent({"name": "add", "args": {"a": 1, "b": 2}}, "3", deps="all")
    for type in TYPES:
        thinker.register_hook(type, "watch", watcher(type))
    asyncio.run(thinker.observe("It rains."))
    deps = {"user": "ada"}
    reply = thinker.reply_sync("1 + 2?", thread="t", run_id="r", deps=deps)
    assert reply.text == "3"
    reasoning = ["pre_reasoning", "post_reasoning"]
    assert [type for type, _ in seen] == [
        *["pre_observe", "post_observe", "pre_reply"],
        *[*reasoning, "pre_acting", "post_acting", *reasoning],
        "post_reply",
    ]
    about = dict(seen)
    told = {"role": "user", "content": "It rains."}
    assert about["pre_observe"] == {
        "message": told,
        "thread": None,
        "run_id": None,
        "deps": "all",
    }
    of_reply = {"thread": "t", "run_id": "r", "deps": deps}
    asked = {"text": "1 + 2?", "schema": None, **of_reply}
    assert about["pre_reply"] == asked
    assert about["post_reply"] == {**asked, "reply": reply}
    call = {"action": "add", "args": {"a": 1, "b": 2}, "iteration": 1, "call_id": "call_1_1"}
    assert about["pre_acting"] == {**call, **of_reply}
    for _, kwargs in seen[2:]:
        assert {name: kwargs[name] for name in of_reply} == of_reply
        assert kwargs["deps"] is deps
    assert about["post_acting"]["result"]["result"] == 3
    assert about["pre_reasoning"]["iteration"] == 2
    assert [m["role"] for m in about["pre_reasoning"]["messages"]] == ["user", "assistant", "tool"]
    assert about["post_reasoning"]["answer"] == ModelReply("3")


def test_hooks_result_replaces_the_value_for_the_next_hook() -> None:
    thinker = agent({"name": "add", "args": {"a": 1, "b": 2}}, "it is {n}")

    def double(_: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
        return {"args": {name: value * 2 for name, value in kwargs["args"].items()}}

    thinker.register_hook("pre_reply", "polite", lambda _, k: {"text": k["text"] + ", please"})
    thinker.register_hook("pre_acting", "double", double)
    thinker.register_hook("pre_acting", "again", double)
    thinker.register_hook(
        "post_acting", "round", lambda _, k: {"result": {**k["result"], "result": 10}}
    )
    thinker.register_hook(
        "post_reasoning",
        "fill",
        lambda _, k: {"answer": replace(k["answer"], text=k["answer"].text.format(n=10))},
    )
    thinker.register_hook(
        "post_reply", "loud", lambda _, k: {"reply": replace(k["reply"], text="IT IS 10")}
    )
    reply = thinker.reply_sync("add")
    assert reply.text == "IT IS 10"
    assert reply.steps[0].args == {"a": 4, "b": 8}
    kept = [item["content"] for item in thinker.memory.get_memories()]
    assert kept == ["add, please", "", "10", "it is 10"]


def test_hook_changes_arguments_only_by_what_it_returns() -> None:
    def total(numbers: list[int]) -> int:
        """Add integers."""
        return sum(numbers)

    def meddle(_: Any, kwargs: dict[str, Any]) -> None:
        kwargs["args"]["numbers"].append(100)
        kwargs["args"]["more"] = 1

    def blur(_: Any, kwargs: dict[str, Any]) -> None:
        kwargs["messages"].clear()

    def hide(_: Any, kwargs: dict[str, Any]) -> None:
        kwargs["result"].clear()

    def add_one(_: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
        kwargs["args"]["numbers"] = [*kwargs["args"]["numbers"], 1]
        return kwargs

    thinker = agent(*[{"name": "total", "args": {"numbers": [1, 2]}}, "3"] * 2, actions=[total])
    for type, hook in (("acting", meddle), ("reasoning", blur)):
        thinker.register_hook(f"pre_{type}", "meddle", hook)
    thinker.register_hook("post_acting", "hide", hide)
    (step,) = thinker.reply_sync("go").steps
    assert (step.args, step.result["result"]) == ({"numbers": [1, 2]}, 3)
    thinker.remove_hook("pre_acting", "meddle")
    thinker.register_hook("pre_acting", "add", add_one)
    (step,) = thinker.reply_sync("go").steps
    assert (step.args, step.result["result"]) == ({"numbers": [1, 2, 1]}, 4)


def test_hook_may_want_an_answer_of_a_schema() -> None:
    thinker = agent('{"sum": 3}')
    schema = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
    thinker.register_hook("pre_reply", "object", lambda _, kwargs: {**kwargs, "schema": schema})
    assert thinker.reply_sync("1 + 2?").value == {"sum": 3}
    thinker = agent("three")
    thinker.register_hook("pre_reply", "object", lambda *_: {"schema": None})
    assert thinker.reply_sync("1 + 2?", schema=int).value == "three"


def test_messages_for_the_model_are_changed_for_that_answer_only() -> None:
    thinker = agent("ok", "ok")
    said = {"role": "system", "content": "Answer in French."}
    thinker.register_hook("pre_reasoning", "say", lambda _, k: {"messages": [said, *k["messages"]]})
    thinker.reply_sync("Hi")
    model: Any = thinker.model
    assert model.received[0] == [said, {"role": "user", "content": "Hi"}]
    assert said not in thinker.memory.get_memories()


def test_hooks_pre_observe_may_change_the_message() -> None:
    thinker = agent()
    thinker.register_hook(
        "pre_observe", "mark", lambda _, k: {"message": {"role": "user", "content": "(heard)"}}
    )
    asyncio.run(thinker.observe("It rains."))
    assert thinker.memory.get_memories() == [{"role": "user", "content": "(heard)"}]


def test_setting_what_it_was_given_changes_nothing() -> None:
    thinker = agent({"name": "add", "args": {"a": 1, "b": 2}}, "ok")

    def scribble(_: Any, kwargs: dict[str, Any]) -> None:
        kwargs["args"] = {"a": 100, "b": 100}
        kwargs["call_id"] = "another"

    thinker.register_hook("pre_acting", "scribble", scribble)
    assert thinker.reply_sync("go").steps[0].result["result"] == 3


def test_hook_name_is_replaced_removed_and_cleared() -> None:
    called: list[str] = []
    thinker = agent("1", "2", "3", "4")
    for name in ("one", "two"):
        thinker.register_hook("pre_reply", name, lambda _, k, name=name: called.append(name))
    thinker.register_hook("pre_reply", "one", lambda _, k: called.append("new one"))
    thinker.reply_sync("go")
    assert called == ["new one", "two"]
    thinker.remove_hook("pre_reply", "one")
    with pytest.raises(KeyError, match="no pre_reply hook 'one'"):
        thinker.remove_hook("pre_reply", "one")
    thinker.reply_sync("go")
    assert called == ["new one", "two", "two"]
    thinker.register_hook("post_reply", "last", lambda _, k: called.append("last"))
    thinker.clear_hooks("pre_reply")
    thinker.reply_sync("go")
    thinker.clear_hooks()
    thinker.reply_sync("go")
    assert called == ["new one", "two", "two", "last"]


def test_hook_arguments_are_checked_and_approved_like_the_models() -> None:
    asked: list[ApprovalRequest] = []

    def permit(request: ApprovalRequest) -> bool:
        asked.append(request)
        return True

    thinker = agent(
        {"name": "add", "args": {"a": 1, "b": 2}},
        {"name": "add", "args": {"a": 5, "b": 5}},
        "ok",
        actions=[Action("add", add, access_policy=ACCESS_REQUESTED)],
        approver=CallbackApprover(permit),
    )

    def change(_: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
        return {"args": {"a": "one"} if kwargs["args"]["a"] == 5 else {"a": 10, "b": 20}}

    thinker.register_hook("pre_acting", "change", change)
    first, second = thinker.reply_sync("go").steps
    assert first.result["result"] == 30
    assert [request.args for request in asked] == [{"a": 10, "b": 20}]
    assert second.error is not None
    assert 'missing argument "b"' in second.error


def test_hooks_pre_acting_exception_is_the_calls_result() -> None:
    executed: list[int] = []
    after: list[str] = []

    def count(n: int) -> int:
        executed.append(n)
        return n

    thinker = agent(
        [{"name": "count", "args": {"n": 1}}, {"name": "count", "args": {"n": 2}}],
        "ok",
        actions=[count],
    )

    def guard(_: Any, kwargs: dict[str, Any]) -> None:
        if kwargs["args"]["n"] == 1:
            raise NotPermitted("1 is not counted")

    calls: list[tuple[str, str]] = []

    def trace(event: Any) -> None:
        if event.kind in ("call_started", "call_ended"):
            calls.append((event.kind, event.call_id))

    thinker.register_hook("pre_acting", "guard", guard)
    thinker.register_hook("post_acting", "after", lambda _, k: after.append(k["action"]))
    thinker.watch(trace)
    reply = thinker.reply_sync("go")
    for place in range(2):  # one that is refused starts and ends too
        started, ended = (each for each in calls if each[1] == f"call_1_{place + 1}")
        assert (started[0], ended[0]) == ("call_started", "call_ended")
    assert (reply.text, executed, after) == ("ok", [2], ["count"])
    assert [step.error for step in reply.steps] == ["1 is not counted", None]


@pytest.mark.parametrize("type", sorted({*TYPES} - {"pre_acting", "pre_observe", "post_observe"}))
@pytest.mark.parametrize("fault", ("raises", "cancelled", "later", "text"))
def test_hook_that_fails_ends_the_reply_and_says_which(type: str, fault: str) -> None:
    def broken(_: Any, kwargs: dict[str, Any]) -> Any:
        if fault == "later":
            raise Later("k")  # which only an action may do
        if fault == "raises":
            raise ZeroDivisionError("oh")
        if fault == "cancelled":
            raise asyncio.CancelledError  # of what the hook awaits
        return "a text"

    thinker = agent({"name": "add", "args": {"a": 1, "b": 2}}, "3", "fine")
    thinker.register_hook(type, "broken", broken)
    reply = thinker.reply_sync("go")
    assert reply.stop_reason == "error"
    assert f"the {type} hook 'broken' failed" in reply.detail
    assert ("ZeroDivisionError: oh" in reply.detail) == (fault == "raises")
    assert isinstance(reply.error, HookError)
    assert (reply.error.type, reply.error.hook) == (type, "broken")
    if type == "post_acting":
        assert reply.steps[0].result["result"] == 3
        assert [item["role"] for item in reply.messages] == ["user", "assistant", "tool"]
    if type == "post_reply":
        assert reply.text == "3"
    thinker.clear_hooks()
    assert thinker.reply_sync("again").stop_reason == "done"


@pytest.mark.parametrize("type", sorted({*TYPES} - {"pre_observe", "post_observe"}))
def test_hook_that_takes_longer_than_there_is_time_ends_the_reply(type: str) -> None:
    cancelled = []

    async def slow(_: Any, kwargs: dict[str, Any]) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(kwargs)
            raise

    budget = Budget(seconds=0.2, clock=StandingClock())
    thinker = agent({"name": "add", "args": {"a": 1, "b": 2}}, "3", "fine", budget=budget)
    thinker.register_hook(type, "slow", slow)
    reply = thinker.reply_sync("go")
    assert (reply.stop_reason, reply.error, len(cancelled)) == ("deadline", None, 1)
    if "acting" not in type:
        assert reply.detail == (
            f"agent 'thinker': the time limit was reached before the {type} hook 'slow' had ended"
        )
    if type == "post_reply":
        assert reply.text == "3"
    thinker.clear_hooks()
    assert thinker.reply_sync("again").stop_reason == "done"


def test_hook_of_a_dual_act_or_conversation_has_its_seconds_too() -> None:
    async def slow(*_: Any) -> None:
        await asyncio.Event().wait()

    def budget() -> Budget:
        return Budget(seconds=0.2, clock=StandingClock())

    def pair() -> DualActAgent:
        decision = {"action": "TERMINATE", "new_instruction": "", "reasoning": "Done."}
        human = ReActAgent("H", ScriptedModel([json.dumps(decision)]))
        return DualActAgent(DualActConfig(human, agent("3")), id="pair", budget=budget())

    for type in ("pre_reply", "pre_reasoning", "post_reasoning", "post_reply"):
        both = pair()
        both.register_hook(type, "slow", slow)
        reply = both.reply_sync("go")
        assert (reply.stop_reason, reply.error) == ("deadline", None)
        assert (
            f"agent 'pair': the time limit was reached before the {type} hook 'slow'"
            in reply.detail
        )
    talk = Conversation([agent("3")], max_turns=1, budget=budget())
    talk.register_hook("post_reply", "slow", slow)
    reply = talk.reply_sync("go")
    assert (reply.stop_reason, reply.text) == ("deadline", "3")


def test_hook_after_a_deadline_can_note_it() -> None:
    """Whoever records how replies end, or saves a state, must not be cut off by what they note."""
    clock = StandingClock()
    noted: list[Any] = []

    async def late(over: bool) -> None:
        """Be late."""
        if over:
            clock.over()
        await asyncio.Event().wait()

    async def note(agent: Any, kwargs: dict[str, Any]) -> None:
        await asyncio.sleep(0)
        await asyncio.to_thread(noted.append, (agent.id, kwargs))

    def worker(over: bool) -> ReActAgent:
        return agent({"name": "late", "args": {"over": over}}, actions=[late])

    alone = worker(over=False)
    alone.budget = Budget(seconds=0.2)
    alone.register_hook("post_reply", "note", note)
    assert alone.reply_sync("go").stop_reason == "deadline"
    ((id, kwargs),) = noted
    assert (id, kwargs["reply"].stop_reason) == ("thinker", "deadline")

    noted.clear()
    both = DualActAgent(
        DualActConfig(ReActAgent("H", ScriptedModel([])), worker(over=True), first="reactive"),
        id="pair",
        budget=Budget(seconds=0.2, clock=clock),
    )
    both.register_hook("post_acting", "note", note)
    both.register_hook("post_reply", "note", note)
    reply = both.reply_sync("go")
    assert reply.stop_reason == "deadline"
    assert "hook" not in reply.detail
    assert [sorted(kwargs) for _, kwargs in noted] == [
        ["conclusion", "deps", "instruction", "loop", "run_id", "thread"],
        ["deps", "reply", "run_id", "schema", "text", "thread"],
    ]


@pytest.mark.parametrize("type", ("pre_observe", "post_observe"))
def test_observe_hook_that_fails_is_an_error_of_observe(type: str) -> None:
    thinker = agent()
    thinker.register_hook(type, "broken", lambda *_: 1 / 0)
    with pytest.raises(HookError, match=f"{type} hook 'broken' failed: ZeroDivisionError"):
        asyncio.run(thinker.observe("It rains."))
    assert len(thinker.memory.get_memories()) == (type == "post_observe")


@pytest.mark.parametrize(
    ("type", "changed"),
    (
        ("pre_reply", {"text": 5}),
        ("pre_reply", {"schema": {"type": "no such type"}}),
        ("pre_reply", {"schema": 5}),
        ("pre_reasoning", {"messages": "text"}),
        ("pre_reasoning", {"messages": []}),
        ("pre_reasoning", {"messages": ["text"]}),
        ("post_reasoning", {"answer": "text"}),
        ("post_reasoning", {"answer": None}),
        ("pre_acting", {"args": "text"}),
        ("pre_acting", {"args": {"a": {1, 2}}}),
        ("pre_acting", "text"),
        ("post_reply", {"reply": "text"}),
        ("post_reply", {"reply": 5}),
        ("post_acting", {"result": "text"}),
        ("post_acting", {"result": 5}),
    ),
)
def test_hook_that_puts_something_else_in_place_is_named(type: str, changed: Any) -> None:
    thinker = agent({"name": "add", "args": {"a": 1, "b": 2}}, "3")
    model: Any = thinker.model
    thinker.register_hook(type, "fine", lambda *_: None)
    thinker.register_hook(type, "wrong", lambda *_: changed)
    thinker.register_hook(type, "after", lambda *_: pytest.fail("it goes on"))
    reply = thinker.reply_sync("go")
    assert isinstance(reply, Reply)
    assert reply.stop_reason == "error"
    assert f"the {type} hook 'wrong' failed: " in reply.detail
    # Nobody asks the model to mend what a hook did.
    answers = {"pre_reply": 0, "pre_reasoning": 0, "post_reply": 2}
    assert len(model.received) == answers.get(type, 1)


def test_hooks_wrong_result_is_refused_with_what_is_expected() -> None:
    thinker = agent("3")
    thinker.register_hook("post_reasoning", "mine", lambda *_: {"answer": "text"})
    reply = thinker.reply_sync("go")
    assert reply.detail == (
        "agent 'thinker': the post_reasoning hook 'mine' failed: it gave no ModelReply but 'text'"
    )


def test_hook_may_change_an_answer_of_a_class_of_ones_own() -> None:
    @dataclass
    class Own:
        text: str
        calls: tuple[Any, ...] = ()

    thinker = ReActAgent("thinker", Answers(Own("two")))
    thinker.register_hook("pre_reasoning", "log", lambda _, k: k)
    thinker.register_hook("post_reasoning", "loud", lambda _, k: {"answer": Own("TWO")})
    assert thinker.reply_sync("go").text == "TWO"


@pytest.mark.parametrize("message", (5, {"content": "no role"}, None))
def test_observe_hook_that_puts_something_else_in_place_is_named(message: Any) -> None:
    thinker = agent()
    thinker.register_hook("pre_observe", "wrong", lambda *_: {"message": message})
    talk = Conversation([agent("3")])
    talk.register_hook("pre_observe", "wrong", lambda *_: {"message": message})
    for asked in (thinker, talk):
        with pytest.raises(HookError, match="the pre_observe hook 'wrong' failed: observe takes"):
            asyncio.run(asked.observe("It rains."))
    assert thinker.memory.get_memories() == []


@pytest.mark.parametrize(
    ("type", "changed"),
    (
        ("pre_reply", {"text": 5}),
        ("pre_reply", {"schema": {"$ref": "#/gone"}}),
        ("post_reply", {"reply": "text"}),
    ),
)
def test_hook_of_a_conversation_is_named_too(type: str, changed: dict[str, Any]) -> None:
    talk = Conversation([agent("3")], max_turns=1)
    talk.register_hook(type, "wrong", lambda *_: changed)
    reply = talk.reply_sync("go")
    assert reply.stop_reason == "error"
    assert f"the {type} hook 'wrong' failed: " in reply.detail
    talk.clear_hooks()
    talk.register_hook("pre_observe", "wrong", lambda *_: {"message": {"role": "user"}})
    with pytest.raises(HookError, match="the pre_observe hook 'wrong' failed: observe takes"):
        asyncio.run(talk.observe("It rains."))


@pytest.mark.parametrize(
    ("arguments", "told"),
    (
        (("pre_thinking", "x", print), "there are no 'pre_thinking' hooks; there are pre_reply"),
        (("pre_reply", "", print), "the name of a hook must be a text"),
        (("pre_reply", "x", "print"), "the pre_reply hook 'x' must be a function"),
    ),
)
def test_hook_registration_that_is_wrong_is_an_error(arguments: tuple[Any, ...], told: str) -> None:
    with pytest.raises(DefinitionError, match=told):
        agent().register_hook(*arguments)


def test_hook_may_register_and_remove_hooks() -> None:
    called: list[str] = []
    thinker = agent("1", "2")

    def once(who: ReActAgent, _: dict[str, Any]) -> None:
        called.append("once")
        who.remove_hook("pre_reply", "once")
        who.register_hook("pre_reply", "later", lambda *_: called.append("later"))

    thinker.register_hook("pre_reply", "once", once)
    thinker.reply_sync("go")
    thinker.reply_sync("go")
    assert called == ["once", "later"]


def test_hook_that_is_registered_within_another_is_called_from_the_next_step_on() -> None:
    called: list[str] = []
    thinker = agent("1", "2")

    def first(who: ReActAgent, _: dict[str, Any]) -> None:
        called.append("first")
        who.register_hook("pre_reply", "later", lambda *_: called.append("later"))

    thinker.register_hook("pre_reply", "first", first)
    thinker.reply_sync("go")
    assert called == ["first"]
    thinker.reply_sync("go")
    assert called == ["first", "first", "later"]


def test_hooks_run_on_the_loop_of_the_space() -> None:
    with NativeSpace() as space:
        thinker = space.add(agent("ok"))
        loops: list[Any] = []
        thinker.register_hook(
            "pre_reply", "where", lambda *_: loops.append(asyncio.get_running_loop())
        )
        assert thinker.reply_sync("go").text == "ok"
        asker = space.add(ReActAgent("asker", ScriptedModel([])))

        async def here() -> Any:
            return asyncio.get_running_loop()

        assert asyncio.run(asker.space_mailbox.carry(here)) is loops[0]  # type: ignore[union-attr]
