"""Ids that are none, where an agent is made, added, removed and addressed."""

from typing import Any

import pytest

from conformance.conftest import Recorder, message
from moothall import Agent
from moothall.foundation.errors import (
    AgentNotFound,
    DefinitionError,
    InvalidId,
    MoothallError,
)


class Evil:
    def __repr__(self):
        raise RuntimeError("looked at")

    __str__ = __eq__ = __hash__ = __repr__


class EvilText(str):
    __slots__ = ()

    def __len__(self):
        return 3

    def __eq__(self, other):
        return True

    def startswith(self, *args):
        return False

    __hash__ = str.__hash__


BAD: dict[str, tuple[Any, str]] = {
    "empty": ("", "1 to 255 characters"),
    "256 characters": ("x" * 256, "1 to 255 characters"),
    "huge": ("x" * 10_000_000, "1 to 255 characters"),
    "star": ("*", "every agent"),
    "amq.": ("amq.direct", "amq."),
    "amq. alone": ("amq.", "amq."),
    "surrogate": ("\ud800", "no text can carry"),
    "None": (None, "string or an int, got NoneType"),
    "bool": (True, "string or an int, got bool"),
    "float": (1.0, "string or an int, got float"),
    "bytes": (b"id", "string or an int, got bytes"),
    "list": (["id"], "string or an int, got list"),
    "dict": ({}, "string or an int, got dict"),
    "tuple": (("id",), "string or an int, got tuple"),
    "class": (str, "string or an int, got type"),
    "evil": (Evil(), "string or an int, got Evil"),
    "int of 300 digits": (10**300, "1 to 255 characters"),
    "int of 5,000 digits": (10**5000, "1 to 255 characters"),
}

HARMLESS = (
    "../../etc/passwd",
    "'; DROP TABLE agents; --",
    "a\nb",
    "\x00",
    "\x1b[31m",
    "{id}",
    "%s",
    "__class__",
    "ü" * 127,
    "AMQ.x",
    "amq",
    " *",
    "None",
)


def works(space):
    me, other = space.add(Agent("me")), space.add(Recorder("other"))
    me.send(message("other", "say", content="good"))
    assert other.told() == [("say", {"content": "good"})]


@pytest.mark.parametrize("case", BAD)
def test_agent_with_a_malformed_id_is_not_made(space, case):
    id, text = BAD[case]
    with pytest.raises(InvalidId, match=text) as caught:
        Agent(id)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, MoothallError)
    assert len(str(caught.value)) < 500
    works(space)


@pytest.mark.parametrize("case", BAD)
def test_agent_whose_id_became_malformed_is_not_added(space, case):
    id, text = BAD[case]
    agent = Agent("agent")
    agent.id = id
    with pytest.raises(InvalidId, match=text):
        space.add(agent)
    assert space.ids() == []
    assert agent.space is None
    agent.id = "agent"
    space.add(agent)
    assert space.ids() == ["agent"]
    works(space)


@pytest.mark.parametrize("case", BAD)
def test_space_remove_of_a_wrong_id_is_refused(space, case):
    id, _ = BAD[case]
    space.add(Agent("stays"))
    with pytest.raises((InvalidId, AgentNotFound)):
        space.remove(id)
    assert space.ids() == ["stays"]
    works(space)


@pytest.mark.parametrize("id", HARMLESS, ids=ascii)
def test_agent_id_may_be_any_other_text(space, id):
    odd = space.add(Recorder(id))
    me = space.add(Recorder("writer"))
    me.send(message(id, "say", content="hi"))
    assert odd.told() == [("say", {"content": "hi"})]
    odd.send(message("writer", "say", content="hi back"))
    assert me.wait_for(1)[0]["from"] == id
    assert me.ask(id, "help").result(timeout=10) == {"say": odd.offers["say"].help}
    space.remove(id)
    assert space.ids() == ["writer"]
    works(space)


@pytest.mark.parametrize("text", ("*", "amq.x", "", "x" * 256))
def test_text_of_a_class_that_misbehaves_is_judged_by_what_it_is(space, text):
    with pytest.raises(InvalidId):
        Agent(EvilText(text))
    works(space)


def test_agent_id_of_a_subclass_of_text_is_that_text(space):
    class Text(str):
        __slots__ = ()

    agent = space.add(Recorder(Text("agent")))
    assert space.ids() == ["agent"]
    assert {type(id) for id in space.ids()} == {str}
    agent.send(message("agent", "say", content="to myself"))
    assert agent.wait_for(1)[0]["from"] == "agent"


def test_changing_the_id_of_an_agent_in_a_space_changes_no_address(space):
    me, agent = space.add(Recorder("writer")), space.add(Recorder("agent"))
    agent.id = "renamed"
    me.send(message("agent", "say", content="hi"))
    assert agent.told() == [("say", {"content": "hi"})]
    agent.send(message("writer", "say", content="hi back"))
    assert me.wait_for(1)[0]["from"] == "agent"
    assert space.ids() == ["writer", "agent"]
    space.remove("agent")
    assert agent.space is None


def test_ids_that_look_alike_are_different(space):
    ids = ["a", "A", "a ", " a", "а", "á", "a\u0301", "a\u200b"]  # noqa: RUF001 - the point of it
    agents = [space.add(Recorder(id)) for id in ids]
    me = space.add(Agent("writer"))
    for id in ids:
        me.send(message(id, "say", content=id))
    for agent in agents:
        assert agent.told() == [("say", {"content": agent.id})]
    assert space.ids() == [*ids, "writer"]


@pytest.mark.parametrize("thing", (None, "agent", 1, Agent, object(), {}, Recorder))
def test_space_add_of_what_is_no_agent_is_refused(space, thing):
    with pytest.raises(DefinitionError, match="agent"):
        space.add(thing)
    assert space.ids() == []
    works(space)


def test_agent_that_skipped_its_init_is_refused_with_the_reason(space):
    class Forgetful(Agent):
        def __init__(self):
            self.memory = []

    with pytest.raises(MoothallError, match=r"super\(\)\.__init__|id"):
        space.add(Forgetful())
    assert space.ids() == []
    works(space)


@pytest.mark.parametrize("concurrency", (0, -1, 1.5, "2", True))
def test_concurrency_that_is_no_positive_integer_is_refused(space, concurrency):
    with pytest.raises(DefinitionError, match="concurrency"):
        Agent("agent", concurrency=concurrency)
    works(space)


def test_concurrency_of_an_agent_goes_before_that_of_its_class():
    class Four(Agent):
        concurrency = 4

    assert [Four("a", concurrency=n).concurrency for n in (None, 1, 4, 5)] == [4, 1, 4, 5]
