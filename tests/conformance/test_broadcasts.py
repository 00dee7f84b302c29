"""Messages to `*`."""

import asyncio
from typing import Any

import pytest

from conformance.conftest import Kept, Listener, Recorder, message, settle
from moothall import ACCESS_DENIED, Agent, action


class Member(Recorder):
    @action
    async def name(self) -> str:
        return str(self.id)

    @action
    async def double(self, n: int) -> int:
        return 2 * n

    @action
    async def fail(self) -> None:
        raise ValueError(f"no, says {self.id}")

    @action
    async def nothing_json(self) -> Any:
        return object()

    @action(timeout=0.01)
    async def late(self) -> None:
        await asyncio.Event().wait()

    @action(access_policy=ACCESS_DENIED)
    async def forbidden(self) -> None:
        raise AssertionError("it ran")


def test_broadcast_reaches_every_agent_by_default_the_sender_too(space):
    members = [space.add(Member(id)) for id in ("one", "two", 3)]
    members[0].send({"id": "b", "meta": {"k": 1}, **message("*", "say", content="hi")})
    for member in members:
        assert member.wait_for(1) == [
            {
                "id": "b",
                "meta": {"k": 1},
                "from": "one",
                "to": "*",
                "action": {"name": "say", "args": {"content": "hi"}},
            }
        ]
    settle(*members)
    assert [len(member.messages) for member in members] == [1, 1, 1]


def test_message_to_oneself_is_no_broadcast(space):
    quiet = space.add(Member("quiet", receive_own_broadcasts=False))
    quiet.send(message("quiet", "say", content="to myself"))
    assert quiet.told() == [("say", {"content": "to myself"})]


def test_broadcast_is_answered_by_each_receiver(space):
    me = space.add(Listener("me", receive_own_broadcasts=False))
    for id in ("one", "two", "three"):
        space.add(Member(id))
    me.send({"id": "b", **message("*", "name")})
    answers = me.wait_for(3)
    assert {m["from"]: m["action"]["args"]["data"] for m in answers} == {
        "one": "one",
        "two": "two",
        "three": "three",
    }
    assert {m["action"]["args"]["original_message_id"] for m in answers} == {"b"}
    assert {m["to"] for m in answers} == {"me"}


@pytest.mark.parametrize(
    ("name", "args", "text"),
    (
        ("fail", {}, "ValueError: no, says {}"),
        (
            *("nothing_json", {}),
            'TypeError: "{}.nothing_json" returned what is not a JSON value: object is not JSON',
        ),
        ("late", {}, 'TimeoutError: "{}.late" took longer than 0.01 s'),
        ("forbidden", {}, '"{}.forbidden" not permitted'),
        ("double", {}, '"{}.double" missing argument "n"'),
        ("double", {"n": 1, "m": 2}, '"{}.double" unexpected argument "m"'),
    ),
)
def test_broadcast_failure_comes_back_from_each_receiver(space, name, args, text):
    me = space.add(Listener("me", receive_own_broadcasts=False))
    members = [space.add(Member(id)) for id in ("one", "two")]
    me.send({"id": "b", **message("*", name, **args)})
    errors = {m["from"]: m["action"]["args"] for m in me.wait_for(2)}
    assert errors == {
        id: {"error": text.format(id), "original_message_id": "b"} for id in ("one", "two")
    }
    settle(me, *members)
    assert len(me.messages) == 2


def test_broadcast_of_an_unknown_action_is_ignored(space, log):
    me = space.add(Listener("me"))
    members = [space.add(Member(id)) for id in ("one", "two")]
    seen = Kept()
    space.observe(seen.add)
    me.send({"id": "b", **message("*", "no_such_action", whatever=1)})
    settle(me, *members)
    assert list(me.messages) == []
    assert [m["action"]["name"] for m in seen if m["action"]["name"] != "help"][:1] == [
        "no_such_action"
    ]
    assert "error" not in {m["action"]["name"] for m in seen}
    assert list(log.lines) == []


def test_broadcast_in_a_space_without_others_is_silent(space):
    alone = space.add(Member("alone", receive_own_broadcasts=False))
    alone.send(message("*", "say", content="anybody?"))
    settle(alone)
    assert list(alone.messages) == []


def test_broadcast_reaches_neither_later_nor_removed_agents(space):
    me = space.add(Member("me"))
    left = space.add(Member("left"))
    space.remove(left)
    me.send(message("*", "say", content="hi"))
    me.wait_for(1)
    late = space.add(Member("late"))
    settle(me, late)
    assert list(left.messages) == []
    assert list(late.messages) == []


def test_broadcast_does_not_reach_an_agent_added_just_after_it(space):
    me = space.add(Member("me", receive_own_broadcasts=False))
    late = []
    for number in range(30):
        me.send(message("*", "say", content=str(number)))
        late.append(space.add(Member(f"late {number}")))
    me.send(message("*", "say", content="the end"))
    for number, member in enumerate(late):
        heard = [m["action"]["args"]["content"] for m in member.wait_for(30 - number)]
        assert heard == [*map(str, range(number + 1, 30)), "the end"]


def test_broadcasts_stay_in_their_space(make_space):
    here, there = make_space(), make_space()
    one, other = here.add(Member("one")), there.add(Member("one"))
    one.send(message("*", "say", content="hi"))
    one.wait_for(1)
    other.send(message("*", "say", content="hello"))
    other.wait_for(1)
    settle(one)
    settle(other)
    assert one.told() == [("say", {"content": "hi"})]
    assert other.told() == [("say", {"content": "hello"})]


def test_broadcast_may_be_sent_by_an_action(space):
    class Caller(Listener):
        @action
        def call(self) -> None:
            self.send(message("*", "say", content="from an action"))

    me = space.add(Member("me"))
    space.add(Caller("caller"))
    me.send(message("caller", "call"))
    assert me.told() == [("say", {"content": "from an action"})]


def test_broadcast_of_an_action_reaches_an_agent_that_it_has_added(space):
    class Host(Agent):
        @action
        async def bring(self, new: str) -> None:
            self.space.add(guests[new])
            self.send(message("*", "say", content=f"welcome {new}"))

    guests = {name: Recorder(name) for name in ("ann", "bo")}
    host = space.add(Host("host"))
    for name, guest in guests.items():
        host.ask("host", "bring", new=name).result(timeout=10)
        assert guest.told()[0] == ("say", {"content": f"welcome {name}"})
