"""Agents that leave while something else goes wrong: their requests end, their ids are free."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pika
import pytest
from benchmarks.broker import Broker
from benchmarks.proxy import Proxy
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from civitas import (
    Agent,
    AgentNotFound,
    AgentStopped,
    AMQPOptions,
    AMQPSpace,
    RequestError,
)
from conformance.conftest import Kept, message
from conformance.gate import Doer, Holder
from spaces.amqp.conftest import WAIT_S, MakeSpace, until

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


def disconnect(proxy: Proxy, events: Kept[str]) -> None:
    proxy.refuse()
    proxy.cut()
    events.wait_for(lambda found: "lost" in found)


def ask(me: Agent, count: int, **options: Any) -> list[Any]:
    return [
        me.request(message("holder", "hold", name=str(n)), timeout=None, **options)
        for n in range(count)
    ]


def all_end(requests: list[Any]) -> None:
    for request in requests:
        with pytest.raises((AgentStopped, AgentNotFound), match="holder"):
            request.result(timeout=WAIT_S)


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


def test_an_action_replaces_an_agent_and_speaks_to_the_new_one(
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
    assert me.ask("doer", "do").result(timeout=WAIT_S) == "done"
    made[-1].begun.wait_for(1)
    assert made[-1].begun[-1] == "hello"
    assert me.ask("holder", "note", name="more").result(timeout=WAIT_S) == "more"


def test_agents_leave_whose_queues_were_just_deleted(
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
def test_an_agent_leaves_while_requests_to_it_wait_at_the_broker(
    deleted: bool,
    make_space: MakeSpace,
    there: AMQPSpace,
    proxy: Proxy,
    me: Agent,
    channel: BlockingChannel,
    exchange: str,
    waiting: Waiting,
) -> None:
    """Each ends, also if the queue that they were in was deleted before its agent knows."""
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


@pytest.mark.parametrize("leaves", (True, False))
def test_a_queue_is_deleted_between_two_connections(
    leaves: bool,
    there: AMQPSpace,
    proxy: Proxy,
    events: Kept[str],
    me: Agent,
    channel: BlockingChannel,
    exchange: str,
    waiting: Waiting,
) -> None:
    holder = there.add(Holder("holder"))
    assert me.ask("holder", "note", name="first").result(timeout=WAIT_S) == "first"
    first = ask(me, 1, wait=True)
    holder.begun.wait_for(2)
    disconnect(proxy, events)
    before = until(lambda: waiting("holder"))  # what was not acknowledged is there again
    asked = [
        me.request(message("holder", "note", name=str(n)), timeout=None, wait=True)
        for n in range(5)
    ]
    until(lambda: waiting("holder") == before + 5)
    if leaves:
        there.remove("holder")
    channel.queue_delete(f"{exchange}.agent.holder")
    proxy.accept()
    if leaves:
        all_end(first)
        holder = there.add(Holder("holder"))  # whom those that wait were waiting for
    else:
        holder.gate("0").open()
    assert [request.result(timeout=WAIT_S) for request in asked] == [str(n) for n in range(5)]
    assert sorted(holder.begun[-5:]) == [str(n) for n in range(5)]


def test_a_queue_is_deleted_between_two_connections_and_made_again_by_a_sender(
    there: AMQPSpace,
    proxy: Proxy,
    events: Kept[str],
    me: Agent,
    channel: BlockingChannel,
    exchange: str,
    waiting: Waiting,
) -> None:
    """Its agent finds it there when it comes back, and is sent the requests that were in it."""
    queue = f"{exchange}.agent.holder"
    holder = there.add(Holder("holder"))
    assert me.ask("holder", "note", name="first").result(timeout=WAIT_S) == "first"
    (held,) = ask(me, 1, wait=True)
    holder.begun.wait_for(2)
    disconnect(proxy, events)
    before = until(lambda: waiting("holder"))
    holder.gate("0").open()
    asked = [
        me.request(message("holder", "note", name=f"asked {n}"), timeout=None, wait=True)
        for n in range(5)
    ]
    until(lambda: waiting("holder") == before + 5)
    channel.queue_delete(queue)
    asked.append(me.request(message("holder", "note", name="late"), timeout=None, wait=True))
    until(lambda: is_declared(channel, queue) and waiting("holder") >= 1)
    proxy.accept()
    names = [*(f"asked {n}" for n in range(5)), "late"]
    assert [request.result(timeout=WAIT_S) for request in asked] == names
    assert sorted(holder.begun[2:]) == names
    assert held.result(timeout=WAIT_S) == "0"


def is_declared(channel: BlockingChannel, queue: str) -> bool:
    another = channel.connection.channel()
    try:
        another.queue_declare(queue, passive=True)
    except ChannelClosedByBroker:
        return False
    another.close()
    return True


def test_one_that_left_without_a_connection_comes_again_and_leaves_at_once(
    make_space: MakeSpace,
    there: AMQPSpace,
    proxy: Proxy,
    events: Kept[str],
    me: Agent,
    waiting: Waiting,
) -> None:
    there.add(Holder("holder"))
    disconnect(proxy, events)
    asked = ask(me, 5, wait=True)
    until(lambda: waiting("holder") == 5)
    there.remove("holder")
    again = threading.Thread(target=there.add, args=(Holder("holder"),))
    again.start()
    until(lambda: "holder" in there.ids())
    proxy.accept()
    there.remove("holder")
    again.join(WAIT_S)
    all_end(asked)
    is_free(make_space, me)


def test_the_connection_is_cut_while_an_agent_leaves(
    make_space: MakeSpace, there: AMQPSpace, proxy: Proxy, me: Agent
) -> None:
    holder = there.add(Holder("holder"))
    asked = ask(me, 1)
    holder.begun.wait_for(1)
    proxy.stall()
    asked += ask(me, 180)
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


def test_the_claim_of_the_old_connection_is_outlived(
    make_space: MakeSpace, broker: Broker, me: Agent, exchange: str, waiting: Waiting
) -> None:
    """The broker does not know yet that the connection is dead, on which an agent has left."""
    parameters = pika.ConnectionParameters("127.0.0.1", broker.port)
    events: Kept[str] = Kept()
    with Proxy(broker.port) as proxy:
        there = make_space(
            amqp_options=AMQPOptions("127.0.0.1", proxy.port, heartbeat=2),
            on_connection=lambda what, _: events.add(what),
        )
        there.add(Holder("holder"))
        disconnect(proxy, events)
        asked = ask(me, 3, wait=True)
        until(lambda: waiting("holder") == 3)
        there.remove("holder")
        with pika.BlockingConnection(parameters) as old:  # it stands for our old self

            def claimed() -> bool:
                try:
                    old.channel().queue_declare(f"{exchange}.claim.holder", exclusive=True)
                except pika.exceptions.ChannelClosedByBroker:
                    return False
                return True

            until(claimed)
            proxy.accept()
            events.wait_for(lambda found: found.count("connected") == 2)
            assert not any(request.done() for request in asked)
        all_end(asked)
    is_free(make_space, me)
