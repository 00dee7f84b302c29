"""An exchange that an operator deletes under several processes."""

from __future__ import annotations

from typing import Any

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from conformance.conftest import Kept, Recorder, message
from conformance.gate import Holder
from moothall import Agent, action
from spaces.amqp.conftest import WAIT_S, MakeSpace, until

AGAIN_S = 60


class Echo(Agent):
    """Says what it hears."""

    @action
    def echo(self, text: str) -> str:
        return text


@pytest.mark.parametrize(
    "observes", (False, pytest.param(True, marks=pytest.mark.long)), ids=("alone", "observed")
)
def test_amqp_exchange_deleted_is_declared_again_by_all_with_their_bindings(
    make_space: MakeSpace, channel: BlockingChannel, exchange: str, observes: bool, log: Any
) -> None:
    spaces = [make_space() for _ in range(3)]
    if observes:
        seen: Kept[Any] = Kept()
        spaces[0].observe(seen.add, everywhere=True)
    agents = [space.add(Echo(f"echo{n}")) for n, space in enumerate(spaces)]
    heard = [space.add(Recorder(f"heard{n}"), groups=["ears"]) for n, space in enumerate(spaces)]
    for asker in agents:
        for to in agents:
            assert asker.ask(to.id, "echo", text="a").result(WAIT_S) == "a"
    channel.exchange_delete(exchange)
    # Each at once: some processes know nothing of it yet.
    under_way = [each.ask(to.id, "echo", text="b") for each in agents for to in agents]
    assert [each.result(AGAIN_S) for each in under_way] == ["b"] * 9
    for each in agents:
        assert each.ask("echo0", "echo", text="c").result(AGAIN_S) == "c"
    told = f"the exchange '{exchange}' was deleted: this process declares it"
    log.lines.wait_for(lambda found: sum(told in each for each in found) >= 3, AGAIN_S)
    assert not any("is lost" in each for each in log.lines)

    def all_hear() -> bool:
        agents[0].send(message("#ears", "say", content="d"))
        return all(each.messages for each in heard)

    until(all_hear, AGAIN_S)
    new = spaces[2].add(Holder("new"))
    assert agents[0].ask("new", "note", name="e").result(WAIT_S) == "e"
    assert new.begun == ["e"]


def test_amqp_exchange_deleted_in_silence_is_declared_again(
    make_space: MakeSpace, channel: BlockingChannel, exchange: str, log: Any
) -> None:
    one, other = make_space(), make_space()
    me, echo = one.add(Agent("me")), other.add(Recorder("echo"))
    assert me.ask("echo", "response", data="a").result(WAIT_S) is None
    channel.exchange_delete(exchange)
    channel.exchange_declare(exchange, "topic", durable=True)  # as another program would
    log.lines.wait_for(
        lambda found: sum("declares it and its bindings" in each for each in found) == 2, AGAIN_S
    )
    me.send(message("echo", "say", content="b"), delay=0.2)
    assert echo.told(2)[1] == ("say", {"content": "b"})


@pytest.mark.long
@pytest.mark.parametrize("quorum", (False, True), ids=("classic", "quorum"))
def test_amqp_exchange_deleted_under_a_flow_of_requests_loses_none(
    make_space: MakeSpace, channel: BlockingChannel, exchange: str, quorum: bool
) -> None:
    spaces = [make_space(quorum=quorum) for _ in range(3)]
    for each in spaces[:2]:
        each.add(Echo("echo"), shared=True)
    me = spaces[2].add(Agent("me"))
    seen: Kept[Any] = Kept()
    spaces[0].observe(seen.add, everywhere=True)
    asked = []
    for number in range(300):
        asked.append(me.ask("echo", "echo", text=str(number)))
        if number in (50, 150):
            assert asked[0].result(WAIT_S) == "0"
            channel.exchange_delete(exchange)
    assert [each.result(AGAIN_S) for each in asked] == [str(number) for number in range(300)]
    assert seen
