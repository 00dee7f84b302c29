"""Groups of agents: what is sent to one is delivered to each of its agents."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.conftest import WAIT_S, Recorder, message, settle
from moothall import ACCESS_REQUESTED, Agent, CallbackApprover, ReActAgent, ScriptedModel, action
from moothall.foundation.errors import ConfigError, InvalidId, InvalidMessage


class Clerk(Recorder):
    @action
    async def take(self, order: int) -> str:
        self.keep()
        return f"{order} taken by {self.id}"

    @action(access_policy=ACCESS_REQUESTED)
    async def pay(self) -> str:
        return f"paid by {self.id}"


def test_group_message_is_delivered_to_its_agents_alone(space: Any) -> None:
    one = space.add(Clerk("one"), groups=("orders", "all of them"))
    two = space.add(Clerk("two"), groups=["orders"])
    other = space.add(Clerk("other"), groups=["bills"])
    me = space.add(Recorder("me"))
    me.send({"id": "7", **message("#orders", "take", order=7)})
    me.send(message("#all of them", "take", order=8))
    assert sorted(args["data"] for _, args in me.told(3)) == [
        "7 taken by one",
        "7 taken by two",
        "8 taken by one",
    ]
    settle(me, one, two, other)
    assert (len(one.messages), len(two.messages), len(other.messages)) == (2, 1, 0)
    assert one.messages[0]["to"] == "#orders"


def test_group_message_with_an_action_that_a_member_has_not_is_ignored_there(space: Any) -> None:
    space.add(Clerk("one"), groups=["orders"])
    plain = space.add(Recorder("plain"), groups=["orders"])
    me = space.add(Recorder("me"))
    me.send(message("#orders", "take", order=7))
    me.send(message("#nobody", "take", order=7))
    assert me.told() == [("response", {"data": "7 taken by one", "original_message_id": None})]
    settle(me, plain)
    assert len(me.messages) == 1


@pytest.mark.parametrize("own", (True, False))
def test_group_message_of_a_member_reaches_it_unless_it_takes_no_own_broadcasts(
    space: Any, own: bool
) -> None:
    one = space.add(Clerk("one", receive_own_broadcasts=own), groups=["orders"])
    two = space.add(Clerk("two"), groups=["orders"])
    one.send(message("#orders", "take", order=7))
    two.wait_for(1)
    settle(one, two)
    taken = [each for each in one.messages if each["action"]["name"] == "take"]
    assert len(taken) == own


def test_group_is_known_to_lists_and_discovery(space: Any) -> None:
    space.add(Clerk("one"), groups=("orders",))
    space.add(Clerk("two"))
    shown: list[list[str]] = []

    def answer(messages: Any, actions: Any) -> str:
        shown.append(sorted(each.name for each in actions))
        return "ok"

    bot = space.add(ReActAgent("bot", ScriptedModel(answer), discover="#orders"))
    assert space.ids(group="orders") == ["one"]
    assert space.ids() == ["one", "two", "bot"]
    me = space.add(Recorder("me"))
    me.ask("bot", "say", content="hi").result(WAIT_S)
    assert shown == [["one_pay", "one_say", "one_take"]]
    assert bot.discover == "#orders"
    me.send(message("#orders", "help"))
    ((_, args),) = me.told()
    assert "take" in args["data"]


def test_group_message_asks_the_approver_of_each_member(make_space: Any) -> None:
    asked: list[str] = []

    def approve(request: Any) -> bool:
        asked.append(request.agent)
        return bool(request.agent == "one")

    space = make_space(approver=CallbackApprover(approve))
    for id in ("one", "two"):
        space.add(Clerk(id), groups=["orders"])
    me = space.add(Recorder("me"))
    me.send(message("#orders", "pay"))
    told = sorted(me.told(2))
    assert [name for name, _ in told] == ["error", "response"]
    assert (told[1][1]["data"], sorted(asked)) == ("paid by one", ["one", "two"])


def test_group_takes_no_request_and_no_agents_id_looks_like_one(space: Any) -> None:
    me = space.add(Agent("me"))
    with pytest.raises(InvalidMessage, match="goes to one agent, not to #orders"):
        me.ask("#orders", "take", order=1)
    with pytest.raises(InvalidId, match='starts with "#"'):
        Agent("#orders")


@pytest.mark.parametrize("groups", ("orders", ("#orders",), ("",), (5,), 5, ("x" * 255,), (["x"],)))
def test_group_names_are_checked(space: Any, groups: Any) -> None:
    with pytest.raises(ConfigError, match="groups="):
        space.add(Agent("agent"), groups=groups)
    assert space.ids() == []
