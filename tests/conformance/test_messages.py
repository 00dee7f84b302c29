"""The envelope: what may be sent, what arrives, and that nothing is shared on the way."""

from typing import Any

import pytest

from conformance.conftest import Listener, Recorder, message, settle
from moothall import Agent, action
from moothall.foundation.errors import InvalidMessage, NotInSpace


class Keeper(Listener):
    """Keeps whatever comes, and the value that its action was given."""

    def __init__(self, id: str | int, **kwargs: Any) -> None:
        super().__init__(id, **kwargs)
        self.values: list[Any] = []

    @action
    async def ping(self) -> None:
        self.keep()

    @action
    async def take(self, value: Any) -> None:
        self.values.append(value)
        self.keep()


# -- the schema ------------------------------------------------------------------------------------


def test_message_of_the_least_fields_arrives_with_its_sender_filled_in(space):
    me, other = space.add(Recorder("me")), space.add(Recorder("other"))
    me.send({"to": "other", "action": {"name": "say", "args": {"content": "Hello, world!"}}})
    assert other.wait_for(1) == [
        {
            "from": "me",
            "to": "other",
            "action": {"name": "say", "args": {"content": "Hello, world!"}},
        }
    ]


def test_args_may_be_left_out(space):
    me, other = space.add(Agent("me")), space.add(Keeper("other"))
    me.send({"to": "other", "action": {"name": "ping"}})
    [arrived] = other.wait_for(1)
    assert arrived["action"]["name"] == "ping"
    assert arrived["action"].get("args", {}) == {}


def test_args_may_be_left_out_of_a_request(space):
    me, other = space.add(Agent("me")), space.add(Keeper("other"))
    assert me.request({"to": "other", "action": {"name": "ping"}}).result(timeout=10) is None
    assert len(other.messages) == 1


@pytest.mark.parametrize("id", ("a custom message id", "", "*", "ü–漢🙂", "x" * 5000))
def test_message_id_of_any_string_arrives_as_it_was(space, id):
    me, other = space.add(Agent("me")), space.add(Keeper("other"))
    me.send({"id": id, **message("other", "ping")})
    assert other.wait_for(1)[0]["id"] == id


@pytest.mark.parametrize(
    "meta",
    (
        {},
        {"thoughts": "I should say hello to everyone"},
        {"timestamp": 12345, "nested": {"list": [1, None, {"deep": True}], "float": 0.5}},
        {"from": "x", "to": "y", "id": "z", "action": {}},
    ),
)
def test_meta_arrives_as_it_was(space, meta):
    me, other = space.add(Agent("me")), space.add(Keeper("other"))
    me.send({"meta": meta, **message("other", "ping")})
    assert other.wait_for(1)[0]["meta"] == meta


def test_message_without_id_or_meta_gets_none(space):
    me, other = space.add(Agent("me")), space.add(Keeper("other"))
    me.send(message("other", "ping"))
    me.ask("other", "ping").result(timeout=10)
    for arrived in other.wait_for(2):
        assert "id" not in arrived
        assert "meta" not in arrived


def test_message_chain_leaves_id_and_meta_alone(space):
    class Middle(Agent):
        @action
        async def pass_on(self) -> None:
            await self.request({"id": "mine", "meta": {"k": 1}, **message("other", "ping")})
            await self.ask("other", "ping")

    me, other = space.add(Agent("me")), space.add(Keeper("other"))
    space.add(Middle("middle"))
    me.ask("middle", "pass_on").result(timeout=10)
    first, second = other.wait_for(2)
    assert (first["id"], first["meta"]) == ("mine", {"k": 1})
    assert set(second) == {"from", "to", "action"}


@pytest.mark.parametrize(
    "value",
    (
        None,
        True,
        0,
        -(2**70),
        1.5,
        "text ü 漢 🙂 \x00\n",
        [],
        {},
        [1, "a", [None, [False]]],
        {"a": {"b": [{"c": 1}]}, "": 0, "ü": "ü"},
        list(range(1000)),
        "x" * 200_000,
    ),
    ids=lambda value: repr(value)[:20],
)
def test_message_of_every_json_value_arrives_as_it_was(space, value):
    me, other = space.add(Agent("me")), space.add(Keeper("other"))
    me.send(message("other", "take", value=value))
    assert other.wait_for(1)[0]["action"]["args"] == {"value": value}
    assert other.values == [value]
    assert type(other.values[0]) is type(value)


@pytest.mark.parametrize(
    ("to", "name", "field"),
    (
        ("", "ping", "to"),
        ("x" * 256, "ping", "to"),
        ("other", "", "action.name"),
        ("other", "x" * 256, "action.name"),
        ("other", "\ud800", "action.name"),
    ),
)
def test_message_that_does_not_conform_is_refused_by_ask(space, to, name, field):
    me = space.add(Agent("me"))
    with pytest.raises(InvalidMessage) as caught:
        me.ask(to, name)
    assert caught.value.field == field


def test_names_of_the_greatest_length_are_sent(space):
    class Long(Agent):
        @action(name="n" * 255)
        async def long(self) -> str:
            return "done"

    space.add(Long("i" * 255))
    assert space.add(Agent("me")).ask("i" * 255, "n" * 255).result(timeout=10) == "done"


def test_request_to_everyone_is_invalid(space):
    me = space.add(Agent("me"))
    with pytest.raises(InvalidMessage) as caught:
        me.request(message("*", "help"))
    assert caught.value.field == "to"
    with pytest.raises(InvalidMessage) as caught:
        me.ask("*", "help")
    assert caught.value.field == "to"


def test_message_from_may_be_its_sender_but_no_other(space):
    me, other = space.add(Agent("me")), space.add(Keeper("other"))
    me.send({"from": "me", **message("other", "ping")})
    assert other.wait_for(1)[0]["from"] == "me"
    with pytest.raises(InvalidMessage) as caught:
        me.send({"from": "other", **message("other", "ping")})
    assert caught.value.field == "from"
    settle(me, other)
    assert len(other.messages) == 1


# -- in no space -----------------------------------------------------------------------------------


WAYS = {
    "send": lambda agent: agent.send(message("other", "ping")),
    "request": lambda agent: agent.request(message("other", "ping")),
    "ask": lambda agent: agent.ask("other", "ping"),
}


@pytest.mark.parametrize("way", WAYS)
def test_agent_in_no_space_cannot_send_or_ask(space, way):
    other = space.add(Keeper("other"))
    stranger = Agent("stranger")
    with pytest.raises(NotInSpace, match="stranger"):
        WAYS[way](stranger)
    assert stranger.space is None
    space.add(stranger)
    assert stranger.space is space
    kept = WAYS[way](stranger)
    other.wait_for(1)
    del kept  # a request that nobody holds is cancelled


@pytest.mark.parametrize("way", WAYS)
def test_agent_that_was_removed_cannot_send_or_ask(space, way):
    leaver, other = space.add(Agent("leaver")), space.add(Keeper("other"))
    space.remove(leaver)
    with pytest.raises(NotInSpace, match="leaver"):
        WAYS[way](leaver)
    assert leaver.space is None
    assert list(other.messages) == []


# -- ids and addresses -----------------------------------------------------------------------------


def test_int_id_is_kept_but_addressed_as_its_decimal_string(space):
    me, seven = space.add(Recorder("me")), space.add(Recorder(7))
    assert seven.id == 7
    assert type(seven.id) is int
    assert space.ids() == ["me", "7"]
    me.send(message("7", "say", content="by text"))
    me.send(message(7, "say", content="by number"))
    by_text, by_number = seven.wait_for(2)
    assert by_text["to"] == "7"
    assert by_number["to"] == "7"
    seven.send(message("me", "say", content="back"))
    assert me.wait_for(1)[0]["from"] == "7"
    assert me.ask(7, "help").result(timeout=10) == me.ask("7", "help").result(timeout=10)


def test_int_id_may_be_stated_as_from(space):
    seven, other = space.add(Agent(7)), space.add(Keeper("other"))
    seven.send({"from": seven.id, **message("other", "ping")})
    assert other.wait_for(1)[0]["from"] == "7"


def test_int_id_below_zero_is_addressed_as_its_decimal_string(space):
    me, cold = space.add(Agent("me")), space.add(Recorder(-3))
    me.send(message("-3", "say", content="brr"))
    cold.wait_for(1)


def test_int_id_equals_its_decimal_string(space):
    seven = space.add(Recorder(7))
    with pytest.raises(ValueError, match="7"):
        space.add(Agent("7"))
    space.remove(7)
    assert seven.space is None
    space.add(Agent("7"))
    assert space.ids() == ["7"]


@pytest.mark.parametrize("second", ("twin", "same object"))
def test_duplicate_agent_leaves_the_first_untouched(space, second):
    me, first = space.add(Agent("me")), space.add(Recorder("first"))
    twin = first if second == "same object" else Recorder("first")
    with pytest.raises(ValueError, match="first"):
        space.add(twin)
    assert space.ids() == ["me", "first"]
    assert first.space is space
    me.send(message("first", "say", content="still there"))
    assert len(first.wait_for(1)) == 1
    if twin is not first:
        assert twin.space is None
        assert list(twin.messages) == []


def test_add_returns_the_agent(space):
    agent = Agent("me")
    assert space.add(agent) is agent


# -- order -----------------------------------------------------------------------------------------


# -- nothing is shared -----------------------------------------------------------------------------


@pytest.mark.parametrize("way", ("send", "request", "ask"))
def test_message_dict_changed_by_its_sender_afterwards_arrives_unchanged(space, way):
    me, other = space.add(Agent("me")), space.add(Keeper("other"))
    inner = [1, {"deep": [2]}]
    sent = {"id": "one", "meta": {"list": [1]}, **message("other", "take", value=inner)}
    if way == "ask":
        pending = me.ask("other", "take", value=inner)
    else:
        pending = getattr(me, way)(sent)
    inner[1]["deep"].append("changed")
    inner.append("changed")
    sent["meta"]["list"].append("changed")
    sent["action"]["args"]["value"] = "changed"
    sent["action"]["name"] = "changed"
    sent["to"] = sent["id"] = "changed"
    [arrived] = other.wait_for(1)
    assert arrived["action"] == {"name": "take", "args": {"value": [1, {"deep": [2]}]}}
    assert other.values == [[1, {"deep": [2]}]]
    if way != "ask":
        assert arrived["id"] == "one"
        assert arrived["meta"] == {"list": [1]}
    del pending


def test_sending_does_not_change_the_senders_dict(space):
    me, other = space.add(Agent("me")), space.add(Keeper("other"))
    sent = message("other", "take", value=[1])
    me.send(sent)
    me.request(sent).result(timeout=10)
    assert sent == {"to": "other", "action": {"name": "take", "args": {"value": [1]}}}
    assert len(other.wait_for(2)) == 2


def test_message_argument_changed_by_the_receiver_stays_the_senders(space):
    class Spoiler(Agent):
        @action
        async def spoil(self, value: list) -> None:
            value.append("changed")
            value[0].clear()

    me = space.add(Agent("me"))
    space.add(Spoiler("spoiler"))
    mine = [[1]]
    me.ask("spoiler", "spoil", value=mine).result(timeout=10)
    me.request(message("spoiler", "spoil", value=mine)).result(timeout=10)
    assert mine == [[1]]


def test_message_keeps_arguments_that_an_action_changes(space):
    class Spoiler(Keeper):
        @action
        async def take(self, value: list) -> None:
            value.append("changed")
            value[0]["k"] = "changed"
            self.keep()

    me, spoiler = space.add(Agent("me")), space.add(Spoiler("spoiler"))
    me.send(message("spoiler", "take", value=[{"k": 1}]))
    assert spoiler.wait_for(1)[0]["action"]["args"] == {"value": [{"k": 1}]}


def test_receivers_of_a_broadcast_share_nothing(space):
    class Spoiler(Keeper):
        @action
        async def take(self, value: list) -> None:
            self.values.append([dict(item) for item in value])
            value[0]["k"] = "changed"
            value.append({"k": "changed"})
            self.keep()

    me = space.add(Agent("me", receive_own_broadcasts=False))
    spoilers = [space.add(Spoiler(f"spoiler {n}")) for n in range(4)]
    me.send(message("*", "take", value=[{"k": 1}]))
    for spoiler in spoilers:
        spoiler.wait_for(1)
        assert spoiler.values == [[{"k": 1}]]


def test_receivers_of_a_broadcast_share_no_meta(space):
    class Spoiler(Keeper):
        @action
        async def ping(self) -> None:
            current = self.current_message
            self.values.append(list(current["meta"]["list"]))
            current["meta"]["list"].append("changed")
            self.keep()

    me = space.add(Agent("me", receive_own_broadcasts=False))
    spoilers = [space.add(Spoiler(f"spoiler {n}")) for n in range(3)]
    me.send({"meta": {"list": [1]}, **message("*", "ping")})
    for spoiler in spoilers:
        spoiler.wait_for(1)
        assert spoiler.values == [[1]]


def test_returned_value_is_shared_with_nobody(space):
    class Owner(Agent):
        def __init__(self, id):
            super().__init__(id)
            self.rows = [[1], {"k": [2]}]

        @action
        async def get(self) -> list:
            return self.rows

    me = space.add(Agent("me"))
    owner = space.add(Owner("owner"))
    first = me.ask("owner", "get").result(timeout=10)
    first[0].append("changed")
    first[1]["k"].clear()
    assert owner.rows == [[1], {"k": [2]}]
    second = me.ask("owner", "get").result(timeout=10)
    assert second == [[1], {"k": [2]}]
    owner.rows.clear()
    assert second == [[1], {"k": [2]}]
