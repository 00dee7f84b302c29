"""Agents that leave while something else goes wrong: their requests end, their ids are free."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from benchmarks.proxy import Proxy
from pika.adapters.blocking_connection import BlockingChannel

from conformance.conftest import Kept, message
from conformance.gate import Doer, Holder
from moothall import (
    Agent,
    AgentNotFound,
    AgentStopped,
    AMQPOptions,
    AMQPSpace,
    RequestError,
)
from spaces.amqp.conftest import WAIT_S, Log, MakeSpace, until

Waiting = Callable[[str], int]


@pytest.fixture
def there(make_space: MakeSpace, proxy: Proxy, events: Kept[str]) -> AMQPSpace:
    """A space over that network."""
    return make_space(
        amqp_options=AMQPOptions("127.0.0.1", proxy.port),
        mailbox=50,
        on_connection=lambda what, _: events.add(what),
    )


@pytest.fixture
def me(make_space: MakeSpace) -> Agent:
    """An agent of another process, whose connection is always there."""
    return make_space().add(Agent("me"))


def ask(me: Agent, count: int, timeout: float | None = None) -> list[Any]:
    return [
        me.request(message("holder", "hold", name=str(n)), timeout=timeout) for n in range(count)
    ]


def is_free(make_space: MakeSpace, me: Agent) -> None:
    """Another process may have the id, and is asked."""
    elsewhere = make_space()

    def added() -> Any:
        try:
            # What was not acknowledged when a connection was cut comes to this one, and is held.
            return elsewhere.add(Holder("holder", concurrency=500))
        except ValueError:
            return None  # its broker is about to hear that the other has left

    until(added)
    assert me.ask("holder", "note", name="new").result(timeout=WAIT_S) == "new"


def test_amqp_action_replaces_an_agent_and_reaches_the_new_agent(
    make_space: MakeSpace, me: Agent
) -> None:
    space = make_space()
    made: list[Holder] = [space.add(Holder("holder"))]

    async def replace(agent: Agent, _: Any) -> str:
        for number in range(6_000):  # more than are under way to the broker at a time
            agent.send(message("holder", "note", name=str(number)))
        space.remove("holder")
        made.append(Holder("holder"))
        space.add(made[-1])
        agent.send(message("holder", "note", name="hello"))
        return "done"

    space.add(Doer("doer", do=replace))
    assert me.ask("doer", "do").result(timeout=4 * WAIT_S) == "done"
    made[-1].begun.wait_for(1)
    assert made[-1].begun[-1] == "hello"
    assert me.ask("holder", "note", name="more").result(timeout=WAIT_S) == "more"


def test_amqp_remove_with_a_deleted_queue_ends_requests(
    make_space: MakeSpace, channel: BlockingChannel, exchange: str, caplog: Any
) -> None:
    space = make_space()
    ids = ("a", "b", "c")
    for id in ids:
        space.add(Holder(id))
    me = space.add(Agent("me"))
    asked = [me.ask(id, "hold") for id in ids]
    for id in ids:
        channel.queue_delete(f"{exchange}.agent.{id}")
    leaving = [threading.Thread(target=space.remove, args=(id,)) for id in ids]
    for thread in leaving:
        thread.start()
    for thread in leaving:
        thread.join(WAIT_S)
    assert not any(thread.is_alive() for thread in leaving)
    for request in asked:
        with pytest.raises((AgentStopped, AgentNotFound)):
            request.result(timeout=WAIT_S)
    for id in ids:
        space.add(Holder(id))
        assert me.ask(id, "note", name="new").result(timeout=WAIT_S) == "new"
    assert "never retrieved" not in caplog.text


@pytest.mark.parametrize("deleted", (True, False))
def test_amqp_remove_ends_requests_queued_at_the_broker(
    deleted: bool,
    make_space: MakeSpace,
    there: AMQPSpace,
    proxy: Proxy,
    me: Agent,
    channel: BlockingChannel,
    exchange: str,
    waiting: Waiting,
) -> None:
    """Each request ends, also if the queue was deleted before the agent knows."""
    there.add(Holder("holder"))
    asked = ask(me, 1)
    proxy.stall()
    asked += ask(me, 180)
    until(lambda: waiting("holder") > 10)  # the others are on their way
    if deleted:
        channel.queue_delete(f"{exchange}.agent.holder")
    leaving = threading.Thread(target=there.remove, args=("holder",))
    leaving.start()
    proxy.resume()
    leaving.join(WAIT_S)
    assert not leaving.is_alive()
    for request in asked:
        with pytest.raises(RequestError):
            request.result(timeout=WAIT_S)
    is_free(make_space, me)


def test_amqp_id_is_free_as_soon_as_remove_returns(make_space: MakeSpace, log: Log) -> None:
    for space in [make_space(), make_space()] * 5:
        space.add(Agent("agent"))
        space.remove("agent")
    assert not any("lost with its queue" in line for line in log.lines)


def test_amqp_remove_while_the_connection_is_cut_ends_requests_and_frees_the_id(
    make_space: MakeSpace, there: AMQPSpace, proxy: Proxy, me: Agent
) -> None:
    """Its queue may stay; what waits there ends at its deadline."""
    holder = there.add(Holder("holder"))
    asked = ask(me, 1, timeout=3)
    holder.begun.wait_for(1)
    proxy.stall()
    asked += ask(me, 180, timeout=3)
    leaving = threading.Thread(target=there.remove, args=("holder",))
    leaving.start()
    proxy.cut()
    proxy.resume()
    leaving.join(WAIT_S)
    assert not leaving.is_alive()
    for request in asked:
        with pytest.raises(RequestError):
            request.result(timeout=WAIT_S)
    is_free(make_space, me)
