"""What a space does by itself when the broker or the network fails it, one failure at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pika
import pytest
from benchmarks.broker import Broker
from benchmarks.proxy import Proxy

from faults.process import wait_for
from moothall import Agent, AMQPOptions, AMQPSpace, BrokerError, action
from moothall.spaces.amqp.amqp_options import Names

pytestmark = pytest.mark.xdist_group("faults")

WAIT_S = 20

# What a client says while it sets a connection up, as AMQP writes it.
METHODS = {
    "connection.start-ok": b"\x00\x0a\x00\x0b",
    "connection.open": b"\x00\x0a\x00\x28",
    "channel.open": b"\x00\x14\x00\x0a",
    "exchange.declare": b"\x00\x28\x00\x0a",
    "queue.declare": b"\x00\x32\x00\x0a",
    "queue.bind": b"\x00\x32\x00\x14",
    "basic.consume": b"\x00\x3c\x00\x14",
    "confirm.select": b"\x00\x55\x00\x0a",
    "the claim of an id": b".claim.",
}


class Echo(Agent):
    @action
    async def echo(self, text: str) -> str:
        """Say it again."""
        return text


class Side:
    """A space with an agent that asks itself, and what happened to its connection."""

    def __init__(self, port: int, exchange: str, id: str = "echo") -> None:
        self.events: list[str] = []
        self.space = AMQPSpace(
            amqp_options=AMQPOptions("127.0.0.1", port, heartbeat=2),
            exchange=exchange,
            grace=0,
            on_connection=lambda what, _: self.events.append(what),
        )
        self.agent: Any = None
        self._id = id

    def come(self) -> None:
        self.agent = self.space.add(Echo(self._id))

    def ask(self, text: str = "there?") -> Any:
        message = {"to": self._id, "action": {"name": "echo", "args": {"text": text}}}
        return self.agent.request(message, timeout=WAIT_S, wait=True).result(WAIT_S)

    def wait_for(self, what: str, times: int = 1) -> None:
        wait_for(lambda: self.events.count(what) >= times, f"{what} in {self.events}", WAIT_S)


@pytest.fixture
def names() -> Names:
    return Names(f"faults.{uuid4().hex}")


@pytest.fixture
def side(names: Names) -> Iterator[Callable[[int], Side]]:
    made: list[Side] = []

    def make(port: int) -> Side:
        made.append(Side(port, names.exchange))
        return made[-1]

    yield make
    for each in made:
        each.space.close()


@pytest.fixture
def channel(fragile: Broker) -> Iterator[Any]:
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", fragile.port)) as link:
        yield link.channel()


@pytest.mark.parametrize("method", METHODS)
def test_connection_lost_while_it_is_set_up_is_made_again(
    method: str, proxy: Proxy, side: Callable[[int], Side]
) -> None:
    one = side(proxy.port)
    one.come()
    proxy.cut_at(METHODS[method])
    proxy.cut()
    one.wait_for("connected", 2)
    assert one.ask() == "there?"


def test_exchange_that_was_deleted_is_made_again(
    fragile: Broker, side: Callable[[int], Side], names: Names, channel: Any
) -> None:
    one = side(fragile.port)
    one.come()
    channel.exchange_delete(names.exchange)
    assert one.ask() == "there?"


def test_agent_id_that_comes_back_over_a_shaky_network_is_consumed_once(
    proxy: Proxy, fragile: Broker, side: Callable[[int], Side], names: Names, channel: Any
) -> None:
    one, other = side(proxy.port), side(fragile.port)
    one.come()
    proxy.refuse()
    proxy.cut()
    one.wait_for("lost")
    other.come()
    proxy.accept()
    for times in range(2, 7):
        one.wait_for("connected", times)
        if times < 6:
            proxy.cut()
    other.space.close()
    assert one.ask() == "there?"
    queue = names.queue("agent", "echo")
    assert channel.queue_declare(queue, passive=True).method.consumer_count == 1


def test_broker_short_of_memory_says_so_until_that_is_over(
    fragile: Broker, side: Callable[[int], Side]
) -> None:
    one = side(fragile.port)
    one.come()
    fragile.eval("vm_memory_monitor:set_vm_memory_high_watermark(0)")
    try:
        asked = one.agent.ask("echo", "echo", text="late")
        one.wait_for("blocked")
    finally:
        fragile.eval("vm_memory_monitor:set_vm_memory_high_watermark(0.4)")
    one.wait_for("unblocked")
    assert asked.result(WAIT_S) == "late"


@pytest.mark.long
def test_network_that_takes_a_connection_but_passes_nothing_on_is_an_error(
    proxy: Proxy, side: Callable[[int], Side]
) -> None:
    proxy.stall()
    with pytest.raises(BrokerError, match="does not answer in 10 s"):
        side(proxy.port).come()
