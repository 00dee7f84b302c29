"""Who is asked for a member of a dual act or of a conversation that has no approver of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from moothall import (
    ACCESS_REQUESTED,
    Agent,
    ApprovalRequest,
    Approver,
    Context,
    Conversation,
    ConversationalAgent,
    DualActAgent,
    DualActConfig,
    NativeSpace,
    ReActAgent,
    ScriptedModel,
    action,
)

WAIT = 20
GO = json.dumps({"action": "CONTINUE", "new_instruction": "Delete it.", "reasoning": ""})
DONE = json.dumps({"action": "TERMINATE", "new_instruction": "", "reasoning": ""})


class Person:
    """Permits everything, and keeps who was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def approve(self, request: ApprovalRequest) -> bool:
        self.asked.append(request.agent)
        return True

    def answer(self, question: Any) -> str:
        self.asked.append(f"{question.agent}: {question.text}")
        return "blue"


@action(access_policy=ACCESS_REQUESTED)
def delete() -> str:
    """Delete it."""
    return "deleted"


def worker(id: str = "R", *, then: str = "ok", approver: Approver | None = None) -> ReActAgent:
    """Deletes, and says what came of it."""
    model = ScriptedModel([{"name": "delete"}, then])
    return ReActAgent(id, model, actions=[delete], approver=approver)


def dual(reactive: Any, id: str = "dual", **options: Any) -> DualActAgent:
    human = ReActAgent(f"H of {id}", ScriptedModel([GO, DONE]))
    return DualActAgent(DualActConfig(human, reactive), id=id, **options)


def talk(member: Any, **options: Any) -> Conversation:
    return Conversation([member], next=lambda state: None if state.turns else member.id, **options)


def refused(agent: Any) -> bool:
    """Whether what the worker in it wanted was not permitted."""
    (step,) = agent.reply_sync("Delete it.").steps
    return step.error == '"delete" not permitted'


@pytest.mark.parametrize("make", (dual, talk))
def test_members_calls_ask_the_groups_approver(make: Callable[..., ConversationalAgent]) -> None:
    person = Person()
    assert not refused(make(worker(), approver=person))
    assert person.asked == ["R"]
    assert refused(make(worker()))


@pytest.mark.parametrize("make", (dual, talk))
async def test_members_calls_ask_the_groups_approver_when_streaming(
    make: Callable[..., ConversationalAgent],
) -> None:
    person = Person()
    whole = make(worker(), approver=person)
    async for _ in whole.stream("Delete it."):
        pass
    assert person.asked == ["R"]


def test_h_may_ask_too() -> None:
    person = Person()
    human = worker("H", then=DONE)
    reactive = ReActAgent("R", ScriptedModel([]))
    DualActAgent(DualActConfig(human, reactive), approver=person).reply_sync("Do it.")
    assert person.asked == ["H"]


@pytest.mark.parametrize("make", (dual, talk))
def test_members_calls_ask_the_approver_of_the_groups_space(make: Callable[..., Any]) -> None:
    person = Person()
    with NativeSpace(approver=person) as space:
        whole = space.add(make(worker()))
        me = space.add(Agent("me"))
        assert me.ask(str(whole.id), "say", content="Delete it.").result(WAIT) == "ok"
    assert person.asked == ["R"]


@pytest.mark.parametrize("inner", (dual, talk))
@pytest.mark.parametrize("outer", (dual, talk))
def test_nested_members_calls_ask_the_outer_groups_approver(
    inner: Callable[..., Any], outer: Callable[..., Any]
) -> None:
    person = Person()
    assert not refused(outer(inner(worker(), id="inner"), id="outer", approver=person))
    assert person.asked == ["R"]
    near, far = Person(), Person()
    whole = outer(inner(worker(), id="inner", approver=near), id="outer", approver=far)
    assert not refused(whole)
    assert (near.asked, far.asked) == (["R"], [])


def test_member_keeps_its_own_approver() -> None:
    own, around = Person(), Person()
    assert not refused(dual(worker(approver=own), approver=around))
    assert (own.asked, around.asked) == (["R"], [])


def test_member_keeps_the_approver_of_its_space() -> None:
    of_space, around = Person(), Person()
    member = worker()
    with NativeSpace(approver=of_space) as space:
        space.add(member)
        assert not refused(dual(member, approver=around))
    assert (of_space.asked, around.asked) == (["R"], [])


def test_member_in_a_space_without_an_approver_asks_that_of_the_group() -> None:
    person = Person()
    member = worker()
    with NativeSpace() as space:
        space.add(member)
        assert not refused(dual(member, approver=person))
        assert refused(worker("alone"))
    assert person.asked == ["R"]


def test_agent_called_by_a_tool_does_not_inherit_the_approver() -> None:
    person = Person()
    other = worker("other")
    steps: list[Any] = []

    async def hand_on() -> str:
        """Have another agent delete it."""
        reply = await other.reply("Delete it.")
        steps.extend(reply.steps)
        return reply.text

    member = ReActAgent("R", ScriptedModel([{"name": "hand_on"}, "ok"]), actions=[hand_on])
    assert dual(member, approver=person).reply_sync("Delete it.").stop_reason == "terminated"
    assert [step.error for step in steps] == ['"delete" not permitted']
    assert person.asked == []


def test_member_asked_by_itself_does_not_use_the_groups_approver() -> None:
    member = worker()
    dual(member, approver=Person())
    assert refused(member)


@pytest.mark.parametrize("form", ("sync", "async"))
def test_questions_go_the_same_way(form: str) -> None:
    def choose_plainly(context: Context[Any]) -> str:
        """Choose."""
        return context.ask_person("Which colour?").result()

    async def choose_later(context: Context[Any]) -> str:
        """Choose."""
        return await context.ask_person("Which colour?")

    choose = choose_plainly if form == "sync" else choose_later
    person = Person()
    model = ScriptedModel([{"name": choose.__name__}, "ok"])
    whole = dual(ReActAgent("R", model, actions=[choose]), approver=person)
    (step,) = whole.reply_sync("Paint it.").steps
    assert (step.error, person.asked) == (None, ["R: Which colour?"])
