"""What comes back: values, errors and replies to `say`, and where it ends."""

import logging
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Any

import pytest

from conformance.conftest import Kept, Listener, Recorder, message, settle
from moothall import ACCESS_DENIED, Agent, action
from moothall.foundation.errors import (
    ActionError,
    ActionNotFound,
    InvalidArguments,
    NotPermitted,
)


class Color(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: list[int]


class Server(Agent):
    """Its actions end in each way in which an action can."""

    @action
    async def add(self, a: int, b: int) -> int:
        return a + b

    @action
    def add_plainly(self, a: int, b: int) -> int:
        return a + b

    @action
    def add_by_another(self, a: int, b: int) -> Any:
        return self.add(a, b)  # to be awaited

    @action
    async def echo(self, value: Any) -> Any:
        return value

    @action
    async def nothing(self) -> None:
        return None

    @action
    def nothing_plainly(self) -> None:
        return None

    @action
    async def fail(self) -> None:
        raise ZeroDivisionError("division by zero")

    @action
    def fail_plainly(self) -> None:
        raise ZeroDivisionError("division by zero")

    @action
    async def fail_without_text(self) -> None:
        raise KeyboardInterruptLike

    @action
    async def give(self, what: str) -> Any:
        return GIVEN[what][0]

    @action(access_policy=ACCESS_DENIED)
    async def forbidden(self) -> None:
        raise AssertionError("it ran")


class KeyboardInterruptLike(Exception):
    """An exception without text."""


GIVEN: dict[str, tuple[Any, Any]] = {
    "dataclass": (Point(1, [2]), {"x": 1, "y": [2]}),
    "enum": (Color.RED, "red"),
    "date": (date(2026, 1, 2), "2026-01-02"),
    "tuple": ((1, (2,)), [1, [2]]),
    "set": ({3, 1, 2}, [1, 2, 3]),
    "list of dataclasses": ([Point(1, [])], [{"x": 1, "y": []}]),
}


@pytest.fixture
def me(space):
    return space.add(Recorder("me"))


@pytest.fixture
def server(space):
    return space.add(Server("server"))


# -- values ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ("add", "add_plainly", "add_by_another"))
def test_answer_to_a_send_is_a_response_with_the_id(me, server, name):
    me.send({"id": "a custom message id", **message("server", name, a=1, b=2)})
    assert me.wait_for(1) == [
        {
            "from": "server",
            "to": "me",
            "action": {
                "name": "response",
                "args": {"data": 3, "original_message_id": "a custom message id"},
            },
        }
    ]


def test_answer_to_a_message_without_id_has_none(me, server):
    me.send(message("server", "add", a=1, b=2))
    assert me.told() == [("response", {"data": 3, "original_message_id": None})]


@pytest.mark.parametrize("id", ("", "0", "ü漢"))
def test_answer_has_the_original_id_whatever_it_is(me, server, id):
    me.send({"id": id, **message("server", "add", a=1, b=2)})
    assert me.told() == [("response", {"data": 3, "original_message_id": id})]


@pytest.mark.parametrize("name", ("nothing", "nothing_plainly"))
def test_answer_none_sends_no_response(me, server, name):
    me.send({"id": "one", **message("server", name)})
    settle(me, server)
    assert list(me.messages) == []
    assert me.ask("server", name).result(timeout=10) is None


@pytest.mark.parametrize("value", (0, 0.0, False, "", [], {}), ids=repr)
def test_answer_is_sent_for_every_value_but_none(me, server, value):
    me.send(message("server", "echo", value=value))
    [(name, args)] = me.told()
    assert name == "response"
    assert args["data"] == value
    assert type(args["data"]) is type(value)


@pytest.mark.parametrize("what", GIVEN)
def test_answer_value_travels_as_json(me, server, what):
    wanted = GIVEN[what][1]
    assert me.ask("server", "give", what=what).result(timeout=10) == wanted
    me.send(message("server", "give", what=what))
    assert me.told() == [("response", {"data": wanted, "original_message_id": None})]


def test_answer_to_a_request_is_its_value_without_a_message(me, server):
    assert me.request({"id": "one", **message("server", "add", a=1, b=2)}).result(timeout=10) == 3
    assert me.ask("server", "add", a=3, b=4).result(timeout=10) == 7
    settle(me, server)
    assert list(me.messages) == []


# -- errors ----------------------------------------------------------------------------------------

FAILURES = {
    "raises": (
        "fail",
        {},
        ActionError,
        "ZeroDivisionError: division by zero",
    ),
    "raises in a thread": (
        "fail_plainly",
        {},
        ActionError,
        "ZeroDivisionError: division by zero",
    ),
    "missing": ("add", {"a": 1}, InvalidArguments, '"server.add" missing argument "b"'),
    "unexpected": (
        "add",
        {"a": 1, "b": 2, "c": 3},
        InvalidArguments,
        '"server.add" unexpected argument "c"',
    ),
    "wrong type": (
        "add",
        {"a": 1, "b": "2"},
        InvalidArguments,
        '"server.add" argument "b" must be integer, not string',
    ),
    "no such action": ("divide", {}, ActionNotFound, '"divide" not found on "server"'),
    "denied": ("forbidden", {}, NotPermitted, '"server.forbidden" not permitted'),
}


@pytest.mark.parametrize(
    ("failure", "id"), (("denied", "a custom message id"), *((each, None) for each in FAILURES))
)
def test_answer_failed_send_comes_back_as_an_error_message(me, server, failure, id):
    name, args, _, text = FAILURES[failure]
    sent = message("server", name, **args)
    me.send(sent if id is None else {"id": id, **sent})
    assert me.wait_for(1) == [
        {
            "from": "server",
            "to": "me",
            "action": {"name": "error", "args": {"error": text, "original_message_id": id}},
        }
    ]
    assert me.ask("server", "add", a=1, b=2).result(timeout=10) == 3


def test_action_that_fails_on_a_sent_message_is_logged_with_whose_it_was(me, server, log):
    me.send(message("server", "fail"))
    failed = "action 'fail' of agent 'server' failed on a message of 'me'"
    log.wait_for(f"{failed}: ZeroDivisionError: division by zero")


@pytest.mark.parametrize("failure", FAILURES)
def test_answer_failed_request_raises_and_sends_no_message(me, server, failure):
    name, args, kind, text = FAILURES[failure]
    with pytest.raises(kind) as caught:
        me.ask("server", name, **args).result(timeout=10)
    assert type(caught.value) is kind
    assert str(caught.value) == text
    settle(me, server)
    assert list(me.messages) == []
    assert me.ask("server", "add", a=1, b=2).result(timeout=10) == 3


def test_action_error_tells_type_and_text_of_the_remote_one(me, server):
    with pytest.raises(ActionError) as caught:
        me.ask("server", "fail").result(timeout=10)
    assert (caught.value.type, caught.value.text) == ("ZeroDivisionError", "division by zero")
    with pytest.raises(ActionError) as caught:
        me.ask("server", "fail_without_text").result(timeout=10)
    assert (caught.value.type, caught.value.text) == ("KeyboardInterruptLike", "")
    me.send(message("server", "fail_without_text"))
    [(name, args)] = me.told()
    assert name == "error"
    assert args["error"] == "KeyboardInterruptLike"


def test_send_to_nobody_is_silent(me, server, log):
    me.send({"id": "one", **message("nobody", "add", a=1, b=2)})
    settle(me, server)
    assert list(me.messages) == []
    assert not [line for line in log.lines if line.startswith(("WARNING", "ERROR"))]


def test_answer_to_an_agent_that_has_left_is_silent(space, me, server, log):
    class Slow(Agent):
        @action
        async def late(self) -> int:
            space.remove("leaver")
            return 1

    seen = Kept()
    space.observe(seen.add)
    slow, leaver = space.add(Slow("slow")), space.add(Recorder("leaver"))
    leaver.send(message("slow", "late"))
    seen.wait_for(lambda seen: any(m["action"]["name"] == "response" for m in seen))
    settle(me, slow)
    assert list(leaver.messages) == []
    assert list(me.messages) == []
    assert not [line for line in log.lines if line.startswith(("WARNING", "ERROR"))]


# -- where it ends ---------------------------------------------------------------------------------


def test_error_action_that_fails_is_logged_and_ends_there(space, server, log):
    class Fragile(Listener):
        @action
        async def error(self, error: str, original_message_id: str | None = None) -> None:
            self.keep()
            raise ValueError("the error action fails")

    fragile = space.add(Fragile("fragile"))
    seen = Kept()
    space.observe(seen.add)
    fragile.send(message("server", "fail"))
    fragile.wait_for(1)
    log.wait_for("the error action fails")
    settle(fragile, server)
    names = [m["action"]["name"] for m in seen]
    assert names.count("fail") == names.count("error") == 1
    assert len(fragile.messages) == 1


def test_response_action_that_fails_is_logged_and_ends_there(space, server, log):
    class Fragile(Listener):
        @action
        async def response(self, data: Any, original_message_id: str | None = None) -> None:
            self.keep()
            raise ValueError("the response action fails")

    fragile = space.add(Fragile("fragile"))
    fragile.send(message("server", "add", a=1, b=2))
    fragile.wait_for(1)
    log.wait_for("the response action fails")
    settle(fragile, server)
    assert [m["action"]["name"] for m in fragile.messages] == ["response"]
    assert fragile.ask("server", "add", a=1, b=2).result(timeout=10) == 3


def test_answer_that_a_response_action_does_not_take_ends_there(space, server, log):
    class Strict(Listener):
        @action
        async def response(self, data: str, original_message_id: str | None = None) -> None:
            self.keep()

    strict = space.add(Strict("strict"))
    strict.send(message("server", "add", a=1, b=2))
    log.wait_for('"strict.response" argument "data" must be string, not integer')
    strict.send(message("server", "echo", value="text"))
    assert strict.told() == [("response", {"data": "text", "original_message_id": None})]


@pytest.mark.parametrize("name", ("response", "error"))
def test_answer_of_a_response_or_error_action_is_not_sent(space, server, name):
    class Chatty(Listener):
        @action
        async def response(self, data: Any, original_message_id: str | None = None) -> str:
            self.keep()
            return "thank you"

        @action
        async def error(self, error: str, original_message_id: str | None = None) -> str:
            self.keep()
            return "thank you"

    chatty, loud = space.add(Chatty("chatty")), space.add(Chatty("loud"))
    seen = Kept()
    space.observe(seen.add)
    chatty.send(message("server", "add" if name == "response" else "fail", **ARGS[name]))
    chatty.wait_for(1)
    settle(chatty, loud, server)
    assert [m["action"]["name"] for m in chatty.messages] == [name]
    assert "thank you" not in str(list(seen))


ARGS: dict[str, dict[str, Any]] = {"response": {"a": 1, "b": 2}, "error": {}}


@pytest.mark.parametrize("name", ("response", "error"))
def test_response_or_error_that_somebody_sends_is_answered_at_most_once(space, name):
    class Fragile(Listener):
        @action
        async def response(self, data: Any, original_message_id: str | None = None) -> None:
            self.keep()
            raise ValueError("fails")

        @action
        async def error(self, error: str, original_message_id: str | None = None) -> None:
            self.keep()
            raise ValueError("fails")

    one, two = space.add(Fragile("one")), space.add(Fragile("two"))
    args = {"data": 1} if name == "response" else {"error": "made up"}
    one.send(message("two", name, **args))
    one.wait_for(1)
    settle(one, two)
    assert [m["action"]["name"] for m in two.messages] == [name]
    assert [m["action"]["name"] for m in one.messages] == ["error"]


# -- own special actions ---------------------------------------------------------------------------


@pytest.mark.parametrize("marked", (True, False), ids=["marked", "unmarked"])
@pytest.mark.parametrize("form", ("async def", "def"))
def test_response_and_error_may_be_overridden(space, server, marked, form):
    mark = action if marked else lambda function: function
    kept = Kept()

    class Async(Agent):
        @mark
        async def response(self, data: Any, original_message_id: str | None = None) -> None:
            kept.add(("response", data, original_message_id))

        @mark
        async def error(self, error: str, original_message_id: str | None = None) -> None:
            kept.add(("error", error, original_message_id))

    class Plain(Agent):
        @mark
        def response(self, data: Any, original_message_id: str) -> None:
            kept.add(("response", data, original_message_id))

        @mark
        def error(self, error: str, original_message_id: str) -> None:
            kept.add(("error", error, original_message_id))

    own = space.add((Async if form == "async def" else Plain)("own"))
    own.send({"id": "1", **message("server", "add", a=1, b=2)})
    own.send(message("server", "fail"))  # None is given where there was no id, `str` or not
    assert kept.wait_for(2) == [
        ("response", 3, "1"),
        ("error", "ZeroDivisionError: division by zero", None),
    ]


def test_error_without_an_override_is_logged(space, server, log):
    plain = space.add(Agent("plain"))
    plain.send({"id": "the id", **message("server", "fail")})
    line = log.wait_for("got an error")
    assert line.startswith("WARNING")
    for part in ("plain", "server", "the id", "division by zero"):
        assert part in line


def test_answer_exception_of_a_sent_message_is_logged_with_its_traceback_at_debug(
    space, server, log, caplog
):
    caplog.set_level(logging.DEBUG, logger="moothall.spaces")
    plain = space.add(Agent("plain"))
    plain.send(message("server", "fail"))
    line = log.wait_for("ERROR")
    assert line.endswith("of 'plain': ZeroDivisionError: division by zero")
    log.wait_for("WARNING agent 'plain' got an error from 'server'")  # which comes after both
    for part in ("Traceback", "'server'", "'fail'", "'plain'", "test_answers.py"):
        assert part in caplog.text


def test_response_without_an_override_is_dropped_silently(space, server, log):
    plain = space.add(Agent("plain"))
    plain.send(message("server", "add", a=1, b=2))
    settle(plain, server)
    assert list(log.lines) == []


# -- say -------------------------------------------------------------------------------------------


class Chat(Listener):
    """Replies to what is said, and keeps it."""

    @action
    async def say(self, content: str) -> str | None:
        """Say something.

        Args:
            content: what
        """
        self.keep()
        return None if content == "be quiet" else f"{self.id} heard: {content}"


class PlainChat(Listener):
    @action
    def say(self, content: str) -> str:
        self.keep()
        return f"{self.id} heard: {content}"


@pytest.mark.parametrize("kind", (Chat, PlainChat))
def test_say_by_a_request_is_answered_by_the_value(space, me, kind):
    chat = space.add(kind("chat"))
    assert me.ask("chat", "say", content="hi").result(timeout=10) == "chat heard: hi"
    settle(me, chat)
    assert list(me.messages) == []


@pytest.mark.parametrize("kind", (Chat, PlainChat))
def test_say_by_a_send_is_answered_by_a_say(space, me, kind):
    space.add(kind("chat"))
    me.send({"id": "one", **message("chat", "say", content="hi")})
    [back] = me.wait_for(1)
    assert (back["from"], back["to"]) == ("chat", "me")
    assert back["action"] == {"name": "say", "args": {"content": "chat heard: hi"}}


def test_say_that_answers_none_sends_nothing(space, me):
    chat = space.add(Chat("chat"))
    me.send(message("chat", "say", content="be quiet"))
    settle(me, chat)
    assert list(me.messages) == []
    assert len(chat.messages) == 1


def test_chat_agents_stop_after_one_exchange(space):
    one, two = space.add(Chat("one")), space.add(Chat("two"))
    one.send(message("two", "say", content="hi"))
    one.wait_for(1)
    settle(one, two)
    settle(two, one)
    assert two.told() == [("say", {"content": "hi"})]
    assert one.told() == [("say", {"content": "two heard: hi"})]


def test_chat_agent_that_talks_to_itself_stops(space):
    one = space.add(Chat("one"))
    one.send(message("one", "say", content="hi"))
    one.wait_for(2)
    settle(one)
    assert [m["action"]["args"]["content"] for m in one.messages] == ["hi", "one heard: hi"]


def test_chat_agents_that_hear_a_broadcast_stop(space):
    chats = [space.add(Chat(name)) for name in ("one", "two", "three")]
    chats[0].send(message("*", "say", content="hi"))
    chats[0].wait_for(4)
    settle(*chats)
    settle(*chats)
    heard = sorted(m["action"]["args"]["content"] for m in chats[0].messages)
    assert heard == ["hi", "one heard: hi", "three heard: hi", "two heard: hi"]
    assert chats[1].told() == chats[2].told() == [("say", {"content": "hi"})]


def test_answer_to_an_agent_without_say_is_a_response(space):
    chat, listener = space.add(Chat("chat")), space.add(Listener("listener"))
    listener.send({"id": "one", **message("chat", "say", content="hi")})
    assert listener.told() == [
        ("response", {"data": "chat heard: hi", "original_message_id": "one"})
    ]
    listener.send(message("chat", "say", content="again"))
    assert listener.told(2)[1] == (
        "response",
        {"data": "chat heard: again", "original_message_id": None},
    )
    settle(listener, chat)
    assert len(listener.messages) == 2


def test_answer_to_an_agent_whose_say_takes_other_arguments_is_a_response(space):
    class Moody(Listener):
        @action
        async def say(self, content: str, mood: str) -> None:
            self.keep()

    space.add(Chat("chat"))
    moody = space.add(Moody("moody"))
    moody.send({"id": "one", **message("chat", "say", content="hi")})
    assert moody.told() == [("response", {"data": "chat heard: hi", "original_message_id": "one"})]


def test_agent_that_says_something_in_its_say_starts_a_new_exchange(space, me):
    class Initiative(Listener):
        @action
        async def say(self, content: str) -> None:
            self.keep()
            self.send(message(self.current_message["from"], "say", content="from my own"))

    space.add(Initiative("initiative"))
    me.send(message("initiative", "say", content="hi"))
    assert me.told() == [("say", {"content": "from my own"})]


def test_say_is_the_only_action_whose_value_is_said_back(space, me):
    class Other(Agent):
        @action(name="tell")
        async def say(self, content: str) -> str:
            return f"heard {content}"

    space.add(Other("other"))
    me.send(message("other", "tell", content="hi"))
    assert me.told() == [("response", {"data": "heard hi", "original_message_id": None})]


def test_say_that_fails_sends_an_error(space, me):
    class Broken(Agent):
        @action
        async def say(self, content: str) -> str:
            raise RuntimeError("no words")

    space.add(Broken("broken"))
    me.send(message("broken", "say", content="hi"))
    assert me.told() == [
        ("error", {"error": "RuntimeError: no words", "original_message_id": None})
    ]


def test_say_that_answers_has_the_id_of_the_message_that_it_answers(space, me):
    space.add(Chat("chat"))
    for id in ("one", "two"):
        me.send({"id": id, **message("chat", "say", content=id)})
    found = [(m["meta"]["original_message_id"], m["action"]["args"]) for m in me.wait_for(2)]
    assert found == [(id, {"content": f"chat heard: {id}"}) for id in ("one", "two")]
    me.send(message("chat", "say", content="without"))
    assert "meta" not in me.wait_for(3)[2]
