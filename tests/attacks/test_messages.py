"""Messages that break the schema, and values that are no JSON, by every way into a space.

Each is refused with the field in the error, nothing arrives, and a good message still works.
"""

import json
import threading
from collections import UserDict, UserList
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.conftest import Kept, Listener, Recorder, settle
from moothall import ACCESS_REQUESTED, Agent, action
from moothall.foundation.errors import ActionError, InvalidMessage, MoothallError


class Receiver(Recorder):
    """Takes anything, and gives back what a test put into `given`."""

    given: Any = None

    @action
    async def take(self, value: Any = None) -> None:
        self.keep()

    @action
    async def give(self) -> Any:
        return self.given

    @action
    def give_plainly(self) -> Any:
        return self.given

    @action
    async def say(self, content: str) -> Any:
        if content == "give":
            return self.given
        self.keep()
        return None


@pytest.fixture
def me(space):
    return space.add(Listener("me"))


@pytest.fixture
def receiver(space):
    return space.add(Receiver("receiver"))


def works(me, receiver):
    """A good message arrives as ever, and nothing came before it."""
    settle(me, receiver)
    assert list(receiver.messages) == []
    assert list(me.messages) == []
    me.send({"to": "receiver", "action": {"name": "take", "args": {"value": "good"}}})
    assert receiver.told() == [("take", {"value": "good"})]
    receiver.given = "fine"
    assert me.ask("receiver", "give").result(timeout=10) == "fine"


def refused(caught, field):
    error = caught.value
    assert type(error) is InvalidMessage
    assert isinstance(error, ValueError)
    assert isinstance(error, MoothallError)
    assert error.field == field
    assert str(error).startswith(f"invalid message: {field}: ")
    assert len(str(error)) < 1000


# -- the envelope ----------------------------------------------------------------------------------


class Text(str):
    __slots__ = ()


class Evil:
    """Raises whenever it is looked at."""

    def __repr__(self):
        raise RuntimeError("looked at")

    __str__ = __bool__ = __len__ = __iter__ = __repr__

    def __eq__(self, other):
        raise RuntimeError("compared")

    __hash__ = object.__hash__


class EvilText(str):
    __slots__ = ()

    def encode(self, *args):
        raise RuntimeError("encoded")

    def __len__(self):
        raise RuntimeError("measured")

    def __eq__(self, other):
        raise RuntimeError("compared")

    __hash__ = str.__hash__


GOOD = {"to": "receiver", "action": {"name": "take", "args": {"value": 1}}}


def with_action(**changes):
    return {"to": "receiver", "action": {"name": "take", "args": {}} | changes}


ENVELOPES: dict[str, tuple[Any, str]] = {
    "None": (None, "message"),
    "text": ('{"to": "receiver"}', "message"),
    "bytes": (b"{}", "message"),
    "list": ([], "message"),
    "pairs": ([("to", "receiver"), ("action", {"name": "take"})], "message"),
    "UserDict": (UserDict(GOOD), "message"),
    "evil": (Evil(), "message"),
    "empty": ({}, "action"),
    "to missing": ({"action": GOOD["action"]}, "to"),
    "to None": (GOOD | {"to": None}, "to"),
    "to empty": (GOOD | {"to": ""}, "to"),
    "to too long": (GOOD | {"to": "x" * 256}, "to"),
    "to list": (GOOD | {"to": ["receiver"]}, "to"),
    "to bytes": (GOOD | {"to": b"receiver"}, "to"),
    "to bool": (GOOD | {"to": True}, "to"),
    "to float": (GOOD | {"to": 1.0}, "to"),
    "to agent": (GOOD | {"to": Agent("receiver")}, "to"),
    "to surrogate": (GOOD | {"to": "\ud800"}, "to"),
    "to huge int": (GOOD | {"to": 10**5000}, "to"),
    "to evil": (GOOD | {"to": Evil()}, "to"),
    "action missing": ({"to": "receiver"}, "action"),
    "action None": ({"to": "receiver", "action": None}, "action"),
    "action text": ({"to": "receiver", "action": "take"}, "action"),
    "action list": ({"to": "receiver", "action": ["take"]}, "action"),
    "action empty": ({"to": "receiver", "action": {}}, "action.name"),
    "action evil": ({"to": "receiver", "action": Evil()}, "action"),
    "name None": (with_action(name=None), "action.name"),
    "name empty": (with_action(name=""), "action.name"),
    "name too long": (with_action(name="x" * 256), "action.name"),
    "name huge": (with_action(name="x" * 10_000_000), "action.name"),
    "name int": (with_action(name=1), "action.name"),
    "name bytes": (with_action(name=b"take"), "action.name"),
    "name function": (with_action(name=print), "action.name"),
    "name surrogate": (with_action(name="\udfff"), "action.name"),
    "name evil": (with_action(name=Evil()), "action.name"),
    "args None": (with_action(args=None), "action.args"),
    "args list": (with_action(args=[1]), "action.args"),
    "args text": (with_action(args="value=1"), "action.args"),
    "args evil": (with_action(args=Evil()), "action.args"),
    "id int": (GOOD | {"id": 1}, "id"),
    "id bytes": (GOOD | {"id": b"1"}, "id"),
    "id dict": (GOOD | {"id": {}}, "id"),
    "id surrogate": (GOOD | {"id": "a\ud800"}, "id"),
    "id evil": (GOOD | {"id": Evil()}, "id"),
    "meta list": (GOOD | {"meta": []}, "meta"),
    "meta text": (GOOD | {"meta": "thoughts"}, "meta"),
    "meta evil": (GOOD | {"meta": Evil()}, "meta"),
    "from another": (GOOD | {"from": "receiver"}, "from"),
    "from None": (GOOD | {"from": None}, "from"),
    "from *": (GOOD | {"from": "*"}, "from"),
    "from list": (GOOD | {"from": ["me"]}, "from"),
    "from evil": (GOOD | {"from": Evil()}, "from"),
    "extra": (GOOD | {"extra": 1}, "extra"),
    "extra None": (GOOD | {"reply_to": None}, "reply_to"),
    "extra To": (GOOD | {"To": "receiver"}, "To"),
    "extra in action": (with_action(arguments={}), "action.arguments"),
    "extra in action long": (with_action(**{"x" * 5000: 1}), None),
    "extra key int": (GOOD | {1: 1}, "a key (int)"),
    "extra key None": (GOOD | {None: 1}, "a key (NoneType)"),
}


@pytest.mark.parametrize("way", ("send", "request"))
@pytest.mark.parametrize("case", ENVELOPES)
def test_message_that_breaks_the_schema_is_refused(me, receiver, way, case):
    bad, field = ENVELOPES[case]
    with pytest.raises(InvalidMessage) as caught:
        getattr(me, way)(bad)
    if field is None:
        assert len(str(caught.value)) < 1000
    else:
        refused(caught, field)
    works(me, receiver)


PLAIN = {type(None), bool, int, float, str, list, dict}


def classes_in(value: Any) -> set[type]:
    """The classes of a value and of everything in it."""
    inside = [*value, *value.values()] if isinstance(value, dict) else value
    found = {type(value)}
    if isinstance(value, list | tuple | dict):
        found.update(*(classes_in(item) for item in inside))
    return found


EVIL_TEXTS = {
    "to": lambda text: GOOD | {"to": text},
    "name": lambda text: with_action(name=text),
    "id": lambda text: GOOD | {"id": text},
    "from": lambda text: GOOD | {"from": text},
    "key": lambda text: GOOD | {text: 1},
    "key in action": lambda text: with_action(**{text: 1}),
    "key in args": lambda text: with_action(args={text: 1}),
    "value": lambda text: with_action(args={"value": text}),
    "meta": lambda text: GOOD | {"meta": {"k": text}},
}


@pytest.mark.parametrize("way", ("send", "request"))
@pytest.mark.parametrize("where", EVIL_TEXTS)
def test_text_of_a_class_that_misbehaves_is_refused_or_reduced(me, receiver, way, where):
    bad = EVIL_TEXTS[where](EvilText("receiver"))
    try:
        kept = getattr(me, way)(bad)
    except InvalidMessage:
        settle(me, receiver)
        assert list(receiver.messages) == []
    else:
        # Taken as the text that it is: whatever arrived is plain.
        settle(me, receiver)
        for arrived in [*receiver.messages, *me.messages]:
            assert classes_in(arrived) <= PLAIN
        del kept
    receiver.given = "fine"
    assert me.ask("receiver", "give").result(timeout=10) == "fine"


@pytest.mark.parametrize("way", ("send", "request"))
def test_text_of_a_subclass_arrives_as_plain_text(me, receiver, way):
    sent = {
        "id": Text("one"),
        "meta": {Text("k"): Text("v")},
        "to": Text("receiver"),
        "action": {"name": "take", "args": {Text("value"): [Text("x")]}},
    }
    kept = getattr(me, way)(sent)
    [arrived] = receiver.wait_for(1)
    assert arrived["meta"] == {"k": "v"}
    assert arrived["action"]["args"] == {"value": ["x"]}
    assert arrived["id"] == "one"
    assert classes_in(arrived) <= PLAIN
    del kept


# -- values ----------------------------------------------------------------------------------------


@dataclass
class Point:
    x: int


class Color(Enum):
    RED = "red"


def deep(levels: int, kind: str) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value] if kind == "list" else {"k": value}
    return value


def circular_list() -> list:
    value: list = [1]
    value.append(value)
    return value


def circular_dict() -> dict:
    value: dict = {"a": {}}
    value["a"]["b"] = [value]
    return value


VALUES: dict[str, Any] = {
    "NaN": lambda: float("nan"),
    "infinity": lambda: float("inf"),
    "minus infinity": lambda: float("-inf"),
    "complex": lambda: 1j,
    "object": object,
    "function": lambda: print,
    "class": lambda: Point,
    "agent": lambda: Agent("agent"),
    "generator": lambda: (n for n in range(3)),
    "range": lambda: range(3),
    "UserList": lambda: UserList([1]),
    "surrogate": lambda: "\ud800",
    "surrogate pair apart": lambda: "\udc00\ud800",
    "surrogate deep inside": lambda: {"a": [{"b": "ok \udfff"}]},
    "surrogate key": lambda: {"\ud800": 1},
    "int key": lambda: {1: "one"},
    "None key": lambda: {None: 1},
    "tuple key": lambda: {(1, 2): 1},
    "bool key": lambda: {"a": {True: 1}},
    "100,000 lists deep": lambda: deep(100_000, "list"),
    "100,000 dicts deep": lambda: deep(100_000, "dict"),
    "a list in itself": circular_list,
    "a dict in itself": circular_dict,
    "an int of 5,000 digits": lambda: 10**5000,
    "evil": Evil,
}
"""What is JSON in no way into a space."""

LARGE: dict[str, Any] = {
    "32 MB of text": lambda: "x" * 32_000_000,
    "ten million items": lambda: [0] * 10_000_000,
    "one text a million times": lambda: ["x" * 100] * 1_000_000,
    "lists that double": lambda: doubling(40),
}
"""What is too large. It takes a moment, so it goes fewer ways."""

ONLY_RETURNED: dict[str, Any] = {
    "set": lambda: {1, 2},
    "frozenset": lambda: frozenset((1, 2)),
    "date": lambda: date(2026, 1, 2),
    "Decimal": lambda: Decimal("1.5"),
    "dataclass": lambda: Point(1),
    "Enum": lambda: Color.RED,
}
"""What may be returned, since it has an obvious form, but not be sent."""


def doubling(levels: int) -> list:
    """A list that is small in memory and has 2**levels items when written out."""
    value: list = []
    for _ in range(levels):
        value = [value, value]
    return value


def nested(value: Any) -> Any:
    return [{"k": [value]}]


WAYS: dict[str, Any] = {
    "send args": lambda me, v: me.send(with_action(args={"value": v})),
    "send meta": lambda me, v: me.send(GOOD | {"meta": {"k": v}}),
    "request args": lambda me, v: me.request(with_action(args={"value": v})),
    "request meta": lambda me, v: me.request(GOOD | {"meta": {"k": v}}),
    "ask": lambda me, v: me.ask("receiver", "take", value=v),
    "broadcast": lambda me, v: me.send(with_action(args={"value": v}) | {"to": "*"}),
    "to nobody": lambda me, v: me.send(with_action(args={"value": v}) | {"to": "nobody"}),
}


@pytest.mark.parametrize(
    ("way", "case"),
    (
        *product(("send args", "request meta"), (*VALUES, *ONLY_RETURNED)),
        *product(
            [way for way in WAYS if way not in ("send args", "request meta")],
            ("NaN", "surrogate deep inside", "100,000 dicts deep", "set"),
        ),
    ),
)
def test_message_value_that_is_no_json_cannot_be_sent(me, receiver, way, case):
    value = (VALUES | ONLY_RETURNED)[case]()
    with pytest.raises(InvalidMessage) as caught:
        WAYS[way](me, value)
    field = caught.value.field
    assert field.startswith("meta.k" if "meta" in way else "action.args.value") or (
        # Too deep as a whole.
        field in ("meta", "action.args")
    )
    assert len(str(caught.value)) < 1000
    works(me, receiver)


@pytest.mark.parametrize(
    ("way", "case"),
    (
        *(("send args", case) for case in LARGE),
        pytest.param("request meta", "lists that double", marks=pytest.mark.long),
    ),
)
def test_message_value_that_is_too_large_cannot_be_sent(me, receiver, way, case):
    with pytest.raises(InvalidMessage, match="larger than 16 MiB") as caught:
        WAYS[way](me, LARGE[case]())
    assert caught.value.field.startswith("meta" if "meta" in way else "action.args")
    assert len(str(caught.value)) < 1000
    works(me, receiver)


@pytest.mark.parametrize("way", ("send args", "request meta", "ask"))
@pytest.mark.parametrize("case", ("NaN", "complex", "object", "set", "int key", "surrogate"))
def test_message_error_tells_the_way_to_a_value_that_is_no_json(me, receiver, way, case):
    value = (VALUES | ONLY_RETURNED)[case]()
    with pytest.raises(InvalidMessage) as caught:
        WAYS[way](me, nested(value))
    start = "meta.k" if "meta" in way else "action.args.value"
    refused(caught, f"{start}[0].k[0]")
    works(me, receiver)


@pytest.mark.parametrize("key", (1, None, b"value", ("value",), "\ud800"))
def test_message_key_of_args_that_is_no_text_is_refused(me, receiver, key):
    with pytest.raises(InvalidMessage) as caught:
        me.send(with_action(args={"value": 1, key: 1}))
    assert caught.value.field.startswith("action.args")
    with pytest.raises(InvalidMessage) as caught:
        me.request(GOOD | {"meta": {key: 1}})
    assert caught.value.field.startswith("meta")
    works(me, receiver)


@pytest.mark.parametrize(
    ("name", "case"),
    (
        *(("give", each) for each in (*VALUES, *LARGE)),
        *(("give_plainly", each) for each in ("NaN", "surrogate", "100,000 lists deep", "evil")),
    ),
)
def test_returned_value_that_is_no_json_is_an_error(me, receiver, name, case):
    receiver.given = (VALUES | LARGE)[case]()
    with pytest.raises(ActionError) as caught:
        me.ask("receiver", name).result(timeout=10)
    assert caught.value.type == "TypeError"
    assert caught.value.text.startswith(f'"receiver.{name}" returned')
    assert "not a JSON value" in caught.value.text
    assert len(str(caught.value)) < 1000
    receiver.given = None
    works(me, receiver)


@pytest.mark.parametrize("name", ("give", "say"))
@pytest.mark.parametrize(
    "case", ("NaN", "complex", "100,000 lists deep", "a dict in itself", "evil")
)
def test_returned_value_that_is_no_json_is_an_error_to_a_send(me, receiver, name, case):
    receiver.given = VALUES[case]()
    args = {"content": "give"} if name == "say" else {}
    me.send({"id": "one", "to": "receiver", "action": {"name": name, "args": args}})
    [(told, args)] = me.told()
    assert told == "error"
    assert args["original_message_id"] == "one"
    assert args["error"].startswith(f'TypeError: "receiver.{name}" returned')
    assert "not a JSON value" in args["error"]
    receiver.given = "fine"
    assert me.ask("receiver", "give").result(timeout=10) == "fine"


@pytest.mark.parametrize("case", ONLY_RETURNED)
def test_returned_value_with_an_obvious_json_form_is_taken(me, receiver, case):
    receiver.given = ONLY_RETURNED[case]()
    wanted = {
        "set": [1, 2],
        "frozenset": [1, 2],
        "date": "2026-01-02",
        "Decimal": "1.5",
        "dataclass": {"x": 1},
        "Enum": "red",
    }[case]
    assert me.ask("receiver", "give").result(timeout=10) == wanted


@pytest.mark.parametrize(
    "text", ("\ud800", "a\x00b", "x" * 40_000_000, ""), ids=lambda t: ascii(t[:3])
)
@pytest.mark.parametrize("form", ("async def", "def"))
def test_action_error_of_any_text_comes_back(space, me, receiver, text, form):
    class Broken(Agent):
        @action
        async def fail_async(self) -> None:
            raise ValueError(text)

        @action
        def fail_plainly(self) -> None:
            raise ValueError(text)

    broken = space.add(Broken("broken"))
    name = "fail_async" if form == "async def" else "fail_plainly"
    with pytest.raises(ActionError) as caught:
        me.ask("broken", name).result(timeout=10)
    assert caught.value.type == "ValueError"
    me.send({"to": "broken", "action": {"name": name}})
    settle(me, broken)
    assert len(me.messages) == 1, "the error did not come"
    [(told, args)] = me.told()
    assert told == "error"
    assert args["error"].startswith("ValueError")
    args["error"].encode()
    me.messages.clear()
    works(me, receiver)


@pytest.mark.parametrize("text", ("\ud800", "x" * 40_000_000), ids=lambda t: ascii(t[:3]))
def test_action_error_of_any_text_does_not_cost_an_observer_its_place(space, me, receiver, text):
    class Broken(Agent):
        @action
        async def fail(self) -> None:
            raise ValueError(text)

    seen = Kept()
    space.observe(lambda message: seen.add(message["action"]["name"]))
    broken = space.add(Broken("broken"))
    me.send({"to": "broken", "action": {"name": "fail"}})
    settle(me, broken)
    with pytest.raises(ActionError):
        me.ask("broken", "fail").result(timeout=10)
    settle(me, broken)
    assert seen.count("fail") == seen.count("error") == 2
    me.messages.clear()
    works(me, receiver)


def test_action_error_whose_text_raises_comes_back(space, me, receiver):
    class Broken(Agent):
        @action
        async def fail(self) -> None:
            class Mean(Exception):
                def __str__(self):
                    raise RuntimeError("no text for you")

            raise Mean

    space.add(Broken("broken"))
    with pytest.raises(ActionError) as caught:
        me.ask("broken", "fail").result(timeout=10)
    assert caught.value.type == "Mean"
    me.send({"to": "broken", "action": {"name": "fail"}})
    assert "Mean" in me.told()[0][1]["error"]
    me.messages.clear()
    works(me, receiver)


@pytest.mark.parametrize("count", (1, 99))
@pytest.mark.parametrize("kind", ("list", "dict"))
def test_nesting_that_is_legal_goes_there_and_back(space, me, count, kind):
    class Echo(Agent):
        @action
        async def echo(self, value: Any) -> Any:
            return value

    space.add(Echo("echo"))
    value = deep(count, kind)
    assert me.ask("echo", "echo", value=value).result(timeout=10) == value
    me.send({"to": "echo", "action": {"name": "echo", "args": {"value": value}}})
    assert me.told() == [("response", {"data": value, "original_message_id": None})]


def test_message_changed_while_sent_is_refused_or_arrives_whole(me, receiver):
    """A dict that another thread grows must not break the one who sends it."""
    shared = {f"key {n}": n for n in range(200)}
    stop = threading.Event()

    def grow():
        n = 0
        while not stop.is_set():
            shared[f"new {n % 50}"] = n
            shared.pop(f"new {(n + 25) % 50}", None)
            n += 1

    thread = threading.Thread(target=grow)
    thread.start()
    try:
        for _ in range(200):
            me.send(with_action(args={"value": shared}))
    finally:
        stop.set()
        thread.join(10)
    for arrived in receiver.wait_for(200):
        assert len(arrived["action"]["args"]["value"]) >= 200


TEXTS = st.text(st.characters(), max_size=4) | st.sampled_from(("receiver", "me", "*", "take"))
ODD = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | TEXTS
    | st.binary(max_size=3)
    | st.sets(st.integers(), max_size=2)
    | st.complex_numbers()
)
ANYTHING = st.recursive(
    ODD,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(TEXTS | st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)


def mostly(good: Any) -> Any:
    return st.just(good) | st.just(good) | ANYTHING


ACTIONS = st.fixed_dictionaries(
    {"name": mostly("take")},
    optional={"args": mostly({}) | st.dictionaries(st.just("value"), ANYTHING), "extra": ANYTHING},
)
MESSAGES = ANYTHING | st.fixed_dictionaries(
    {"to": mostly("receiver"), "action": ACTIONS | ACTIONS | ANYTHING},
    optional={"id": mostly("id"), "meta": mostly({"k": 1}), "from": mostly("me")},
)


def test_message_of_any_form_is_refused_as_invalid_or_travels_as_json(me, receiver):
    seen = Kept()
    me.space.observe(seen.add)

    @settings(max_examples=2 * settings().max_examples)
    @given(MESSAGES)
    def send(anything):
        try:
            me.send(anything)
        except InvalidMessage:
            return
        assert isinstance(anything, dict)
        json.dumps(anything, allow_nan=False).encode()

    send()
    settle(me, receiver)
    assert any(arrived["action"]["name"] == "take" for arrived in seen)
    for arrived in seen:
        assert json.loads(json.dumps(arrived, allow_nan=False)) == arrived
        assert classes_in(arrived) <= PLAIN
    me.messages.clear()
    receiver.messages.clear()
    works(me, receiver)


# -- what a sender can make a receiver do ----------------------------------------------------------

HOSTILE_ARGS = {
    "self": {"self": 1},
    "dunder": {"__class__": "x", "__dict__": {}},
    "not an identifier": {"a b": 1, "": 2, "1": 3, "value ": 4},
    "keyword": {"class": 1, "lambda": 2},
    "a thousand": {f"a{n}": n for n in range(1000)},
    "long name": {"x" * 100_000: 1},
    "control characters": {"\x1b[31m\n": 1},
}


@pytest.mark.parametrize("case", HOSTILE_ARGS)
def test_unexpected_arguments_are_named_in_short_and_on_one_line(me, receiver, case):
    me.send(with_action(args=HOSTILE_ARGS[case]))
    [(told, args)] = me.told()
    assert told == "error"
    assert args["error"].startswith('"receiver.take" unexpected argument')
    assert len(args["error"]) < 2000
    assert args["error"].isprintable()
    me.messages.clear()
    works(me, receiver)


@pytest.mark.parametrize("name", ("x\n\x1b[31m", "\x00", " ", "*", "a.b", "é" * 255, "__init__"))
def test_action_name_of_any_text_is_just_not_found(me, receiver, name):
    me.send({"to": "receiver", "action": {"name": name}})
    [(told, args)] = me.told()
    assert told == "error"
    assert args["error"] == f'"{name}" not found on "receiver"'
    me.messages.clear()
    works(me, receiver)


def test_approval_shows_the_person_a_hostile_argument_as_it_is(space, me, receiver):
    shown = []

    class Host(Agent):
        @action(access_policy=ACCESS_REQUESTED)
        async def run(self, command: str) -> None:
            raise AssertionError("it ran")

        def request_permission(self, proposed_message):
            shown.append(proposed_message["action"]["args"]["command"])
            return False

    space.add(Host("host"))
    command = "ls\x1b[2K\rrm -rf /"
    me.send({"to": "host", "action": {"name": "run", "args": {"command": command}}})
    assert me.told()[0][0] == "error"
    assert shown == [command]
    me.messages.clear()
    works(me, receiver)
