"""The order of what is sent, over a connection that is slow or lost."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from benchmarks.proxy import Proxy
from pika.adapters.blocking_connection import BlockingChannel

from civitas import Agent, AMQPOptions
from conformance.conftest import Kept, Recorder, message
from conformance.gate import Doer, Gate
from spaces.amqp.conftest import MakeSpace

MANY = 5_500
"""More than are under way to the broker at a time."""


@pytest.mark.parametrize("cut", (False, True))
def test_what_an_agent_sends_comes_in_order(cut: bool, make_space: MakeSpace, proxy: Proxy) -> None:
    """Nothing overtakes what waits for the broker, nor what is sent again."""
    there = make_space(mailbox=10_000).add(Recorder("there"))
    make_space().add(Recorder("other"))
    gates = {"one": Gate(), "many": Gate()}
    done: Kept[str] = Kept()

    async def send(agent: Any, what: str) -> str | None:
        done.add(f"{what} begun")
        await gates[what]
        if what == "one":
            agent.send(message("other", "say", content="x"))
            done.add("one")
            return "answer"  # which goes when the broker has what was sent
        for number in range(MANY):
            agent.send(message("there", "say", content=str(number)))
        done.add("many")
        return None

    space = make_space(amqp_options=AMQPOptions("127.0.0.1", proxy.port))
    space.add(Doer("doer", do=send, concurrency=2))
    for what in ("one", "many"):
        there.send({"id": what, **message("doer", "do", value=what)})
    done.wait_for(2)
    proxy.stall()
    for count, what in enumerate(("one", "many"), 3):
        gates[what].open()
        done.wait_for(count)
    if cut:
        proxy.cut()
    proxy.resume()
    there.wait_for(MANY + 1, timeout=30)
    told = there.told(MANY + 1)
    assert [args["content"] for _, args in told[:-1]] == [str(number) for number in range(MANY)]
    assert told[-1] == ("response", {"data": "answer", "original_message_id": "one"})


def test_a_thread_waits_in_send_while_the_broker_is_behind(
    make_space: MakeSpace, proxy: Proxy
) -> None:
    """So that what the other agents of its space send does not wait behind all of that."""
    there = make_space(mailbox=10_000).add(Recorder("there"))
    me = make_space(amqp_options=AMQPOptions("127.0.0.1", proxy.port)).add(Agent("me"))

    def main() -> None:
        for number in range(2_000):
            me.send(message("there", "say", content=str(number)))

    proxy.stall()
    sender = threading.Thread(target=main)
    sender.start()
    sender.join(1)
    assert sender.is_alive()
    proxy.resume()
    there.wait_for(2_000, timeout=30)
    assert [args["content"] for _, args in there.told(2_000)] == [str(n) for n in range(2_000)]
    sender.join()


def test_what_is_sent_while_a_queue_is_gone_comes_in_order(
    make_space: MakeSpace, proxy: Proxy, channel: BlockingChannel, exchange: str
) -> None:
    """What the broker has returned is before what was not published since."""
    space = make_space(amqp_options=AMQPOptions("127.0.0.1", proxy.port))
    there, me = space.add(Recorder("there")), make_space().add(Agent("me"))
    proxy.stall()
    channel.queue_delete(f"{exchange}.agent.there")
    numbers = [str(number) for number in range(1_000)]
    for number in numbers:
        me.send(message("there", "say", content=number))
    proxy.resume()
    assert [args["content"] for _, args in there.told(len(numbers))] == numbers
