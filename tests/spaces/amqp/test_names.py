"""An id may be any text: each agent gets its own messages and nobody else's."""

from __future__ import annotations

from typing import Any

import pytest

from moothall import Agent, AgentNotFound, DuplicateAgent, action
from spaces.amqp.conftest import WAIT_S, MakeSpace

IDS = (
    "plain",
    "with.dots.in.it",
    ".",
    "..",
    "a.*",
    "a.#",
    "**",
    "%",
    "%2E",
    "%252E",
    "%~",
    "with space",
    " ",
    "\t",
    "\n",
    "\r",
    "a\nb",
    "ab",
    "ünïcödé",
    "日本",
    "🙂",
    "e\u0301",
    "\u00e9",
    "all",
    "reply.x",
    "agent.plain",
    "PLAIN",
    "'quote\"",
    "a/b\\c",
    "\x00",
    "x" * 255,
    "x" * 254 + "y",
    "." * 255,
    "." * 254 + "*",
    "ü" * 255,
    "🙂" * 63,
    "5",
    "-5",
)
PAIRS = (("a.b", "a%2Eb"), ("%", "%25"), ("*", "%2A"), ("a#", "a%23"))


class Named(Agent):
    @action
    async def who(self) -> str:
        return str(self.id)


def test_amqp_id_of_any_text_is_reached_by_itself_alone(make_space: MakeSpace) -> None:
    """From the same space and from another one."""
    here, there = make_space(), make_space()
    me = here.add(Agent("me"))
    for number, id in enumerate(IDS):
        (here if number % 2 else there).add(Named(id))
    other = there.add(Agent("other"))
    for asks in (me, other):
        asked = [(id, asks.ask(id, "who")) for id in IDS]
        assert [(id, request.result(timeout=WAIT_S)) for id, request in asked] == [
            (id, id) for id in IDS
        ]


@pytest.mark.parametrize(("one", "other"), [pair for pair in PAIRS if "*" not in pair])
def test_amqp_queue_names_of_similar_ids_differ(
    make_space: MakeSpace, one: str, other: str
) -> None:
    space = make_space()
    me = space.add(Agent("me"))
    for there, away in ((one, other), (other, one)):
        space.add(Named(there))
        assert me.ask(there, "who").result(timeout=WAIT_S) == there
        with pytest.raises(AgentNotFound):
            me.ask(away, "who").result(timeout=WAIT_S)
        space.remove(there)


def test_amqp_queue_name_of_a_long_id_cannot_be_claimed_by_its_hash(
    make_space: MakeSpace, channel: Any
) -> None:
    """An id made to look like the hash of a long id gets a queue of its own."""
    import hashlib

    long = "." * 200
    space = make_space()
    space.add(Named(long))
    short = "%~" + hashlib.sha256(long.encode()).hexdigest()
    space.add(Named(short))
    me = space.add(Agent("me"))
    assert me.ask(long, "who").result(timeout=WAIT_S) == long
    assert me.ask(short, "who").result(timeout=WAIT_S) == short


def test_amqp_number_id_is_addressed_by_its_decimals(make_space: MakeSpace) -> None:
    here, there = make_space(), make_space()
    there.add(Named(7))  # type: ignore[arg-type]
    me = here.add(Agent("me"))
    assert me.ask(7, "who").result(timeout=WAIT_S) == "7"
    with pytest.raises(DuplicateAgent):
        here.add(Named("7"))
