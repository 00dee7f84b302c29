"""Observers see what is sent and received."""

import asyncio

import pytest

from conformance.conftest import Kept, Listener, Recorder, message, settle
from moothall import Agent, action
from moothall.foundation.errors import ActionError, AgentNotFound


class Server(Agent):
    @action
    async def add(self, a: int, b: int) -> int:
        return a + b

    @action
    async def fail(self) -> None:
        raise ValueError("no")

    @action
    async def nothing(self) -> None:
        pass

    @action
    async def spoil(self, value: list) -> list:
        value.append("changed")
        return value


def kinds(seen):
    return [(m["from"], m["to"], m["action"]["name"]) for m in seen]


def test_observer_sees_messages_as_they_are_and_their_answers(space):
    seen = Kept()
    space.observe(seen.add)
    me, server = space.add(Listener("me")), space.add(Server("server"))
    me.send({"id": "1", "meta": {"k": [1]}, **message("server", "add", a=1, b=2)})
    me.send({"id": "2", **message("server", "fail")})
    me.wait_for(2)
    seen.wait_for(4)
    # The second may be sent before or after the first is answered.
    assert sorted(seen, key=lambda each: str(each["from"])) == [
        {
            "id": "1",
            "meta": {"k": [1]},
            "from": "me",
            "to": "server",
            "action": {"name": "add", "args": {"a": 1, "b": 2}},
        },
        {
            "id": "2",
            "from": "me",
            "to": "server",
            "action": {"name": "fail", "args": {}},
        },
        {
            "from": "server",
            "to": "me",
            "action": {"name": "response", "args": {"data": 3, "original_message_id": "1"}},
        },
        {
            "from": "server",
            "to": "me",
            "action": {
                "name": "error",
                "args": {"error": "ValueError: no", "original_message_id": "2"},
            },
        },
    ]
    assert server.space is space


def test_observer_sees_answers_to_requests_too(space):
    seen = Kept()
    space.observe(seen.add)
    me = space.add(Listener("me"))
    space.add(Server("server"))
    assert me.request({"id": "1", **message("server", "add", a=1, b=2)}).result(timeout=10) == 3
    with pytest.raises(ActionError):
        me.request({"id": "2", **message("server", "fail")}).result(timeout=10)
    first, answer, second, error = seen.wait_for(4)
    assert (first["id"], second["id"]) == ("1", "2")
    assert (answer["from"], answer["to"]) == ("server", "me")
    assert answer["action"] == {
        "name": "response",
        "args": {"data": 3, "original_message_id": "1"},
    }
    assert (error["from"], error["to"]) == ("server", "me")
    assert error["action"]["name"] == "error"
    assert "ValueError: no" in error["action"]["args"]["error"]
    assert error["action"]["args"]["original_message_id"] == "2"
    settle(me)
    assert list(me.messages) == []


def test_observer_sees_a_broadcast_once(space):
    seen = Kept()
    space.observe(seen.add)
    members = [space.add(Recorder(f"member {n}")) for n in range(5)]
    members[0].send(message("*", "say", content="hi"))
    for member in members:
        member.wait_for(1)
    settle(members[0])
    assert kinds(seen)[0] == ("member 0", "*", "say")
    assert [kind for kind in kinds(seen) if kind[2] == "say"] == [("member 0", "*", "say")]


def test_observer_sees_what_goes_to_nobody(space):
    seen = Kept()
    space.observe(seen.add)
    me = space.add(Listener("me"))
    me.send(message("nobody", "add", a=1, b=2))
    seen.wait_for(1)
    with pytest.raises(AgentNotFound):
        me.ask("nobody", "add").result(timeout=10)
    seen.wait_for(2)
    assert kinds(seen)[:2] == [("me", "nobody", "add")] * 2


def test_observer_sees_what_is_said_back(space):
    class Chat(Agent):
        @action
        async def say(self, content: str) -> str:
            return f"heard {content}"

    seen = Kept()
    space.observe(seen.add)
    me = space.add(Recorder("me"))
    space.add(Chat("chat"))
    me.send(message("chat", "say", content="hi"))
    me.wait_for(1)
    assert kinds(seen.wait_for(2)) == [("me", "chat", "say"), ("chat", "me", "say")]


def test_observer_sees_no_answer_where_none_is_sent(space):
    seen = Kept()
    space.observe(seen.add)
    me, server = space.add(Listener("me")), space.add(Server("server"))
    me.send(message("server", "nothing"))
    me.ask("server", "nothing").result(timeout=10)
    settle(me, server)
    assert [k for k in kinds(seen) if k[2] not in ("help", "response")] == [
        ("me", "server", "nothing")
    ] * 2
    assert [m for m in seen if m["action"]["name"] == "error"] == []
    answered = [m for m in seen if m["action"]["name"] == "response"]
    assert all(m["action"]["args"]["data"] is not None for m in answered)


def test_observer_does_not_see_a_message_that_is_refused_where_it_is_sent(space):
    seen = Kept()
    space.observe(seen.add)
    me, server = space.add(Listener("me")), space.add(Server("server"))
    with pytest.raises(ValueError, match=r"action\.args"):
        me.send({"to": "server", "action": {"name": "add", "args": [1, 2]}})
    settle(me, server)
    assert {k[2] for k in kinds(seen)} == {"help", "response"}


def test_observer_changing_a_message_changes_nothing(space):
    def spoil(seen):
        seen["to"] = "nobody"
        seen["action"]["name"] = "fail"
        seen["action"]["args"]["value"] = "changed"
        seen.setdefault("meta", {})["k"] = "changed"

    def spoil_deeply(seen):
        value = seen["action"]["args"].get("value")
        if isinstance(value, list):
            value[0].append("changed")

    seen = Kept()
    for observer in (spoil_deeply, spoil, seen.add):
        space.observe(observer)
    me = space.add(Listener("me"))
    space.add(Server("server"))
    assert me.ask("server", "spoil", value=[[1]]).result(timeout=10) == [[1], "changed"]
    question, answer = seen.wait_for(2)
    assert question["action"] == {"name": "spoil", "args": {"value": [[1]]}}
    assert "meta" not in question
    assert answer["action"]["args"]["data"] == [[1], "changed"]


def test_observer_sees_arguments_before_an_action_changes_them(space):
    seen = Kept()
    space.observe(seen.add)
    me = space.add(Listener("me"))
    space.add(Server("server"))
    me.ask("server", "spoil", value=[1]).result(timeout=10)
    assert seen.wait_for(1)[0]["action"]["args"] == {"value": [1]}


def test_observer_that_raises_is_logged_and_called_no_more(space, log):
    calls = []

    def broken(seen):
        calls.append(seen)
        raise RuntimeError("the observer is broken")

    before, after = Kept(), Kept()
    for observer in (before.add, broken, after.add):
        space.observe(observer)
    me = space.add(Listener("me"))
    space.add(Server("server"))
    assert me.ask("server", "add", a=1, b=2).result(timeout=10) == 3
    assert me.ask("server", "add", a=3, b=4).result(timeout=10) == 7
    line = log.wait_for("the observer is broken")
    assert " | " not in line, "the traceback is for DEBUG"
    before.wait_for(4)
    after.wait_for(4)
    assert len(calls) == 1
    assert kinds(before) == kinds(after)
    assert len([line for line in log.lines if "the observer is broken" in line]) == 1


def test_observers_may_come_at_any_time(space):
    first, second = Kept(), Kept()
    space.observe(first.add)
    me = space.add(Listener("me"))
    space.add(Server("server"))
    me.ask("server", "add", a=1, b=2).result(timeout=10)
    first.wait_for(2)
    space.observe(second.add)
    me.ask("server", "add", a=3, b=4).result(timeout=10)
    first.wait_for(4)
    assert second.wait_for(2)[0]["action"]["args"] == {"a": 3, "b": 4}
    assert len(second) == 2


def test_observer_may_send(space):
    me, other = space.add(Recorder("me")), space.add(Recorder("other"))

    def warn(seen):
        if seen["action"]["args"].get("content") == "secret":
            me.send(message("other", "say", content="somebody told a secret"))

    space.observe(warn)
    me.send(message("other", "say", content="secret"))
    said = [m["action"]["args"]["content"] for m in other.wait_for(2)]
    assert sorted(said) == ["secret", "somebody told a secret"]


def test_observer_may_start_a_task_that_asks(space):
    answers, tasks = Kept(), set()
    me, server = space.add(Agent("me")), space.add(Server("server"))

    async def ask():
        answers.add(await me.ask("server", "add", a=1, b=2))

    def start(message):
        if message["action"]["name"] == "nothing":
            tasks.add(asyncio.get_running_loop().create_task(ask()))

    space.observe(start)
    server.send(message("server", "nothing"))
    assert answers.wait_for(1) == [3]
