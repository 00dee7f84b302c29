"""The order of what is sent, over a connection that is slow or lost."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from benchmarks.proxy import Proxy
from pika.adapters.blocking_connection import BlockingChannel

from conformance.conftest import Kept, Log, Recorder, message
from conformance.gate import Doer, Gate
from moothall import Agent, AMQPOptions, MailboxFull
from spaces.amqp.conftest import WAIT_S, MakeSpace, until

MANY = 5_500
"""More than are under way to the broker at a time."""

CONFIRM = b"\x00\x3c\x00\x50"
"""As AMQP writes it: the broker has a message, or has returned it."""


def contents(there: Recorder, count: int) -> list[str]:
    """Wait until so many have come, however long that takes as long as more come; gives them."""
    for so_far in range(100, count, 100):
        there.wait_for(so_far)
    return [args["content"] for _, args in there.told(count)[:count]]


@pytest.mark.timeout(240)
@pytest.mark.parametrize("cut", (False, True))
def test_amqp_send_keeps_the_order_of_one_agent(
    cut: bool, make_space: MakeSpace, proxy: Proxy
) -> None:
    """No message overtakes one that waits for the broker or is published again."""
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
    assert contents(there, MANY) == [str(number) for number in range(MANY)]
    answer = there.told(MANY + 1)[-1]
    assert answer == ("response", {"data": "answer", "original_message_id": "one"})


def test_amqp_send_of_a_thread_waits_while_the_broker_is_behind(
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
    assert contents(there, 2_000) == [str(number) for number in range(2_000)]
    sender.join()


def test_amqp_send_without_connection_queues_and_does_not_block(
    make_space: MakeSpace, proxy: Proxy, events: Kept[str]
) -> None:
    """The messages wait for the next connection."""
    there = make_space(mailbox=10_000).add(Recorder("there"))
    space = make_space(
        amqp_options=AMQPOptions("127.0.0.1", proxy.port),
        on_connection=lambda what, _: events.add(what),
    )
    me = space.add(Agent("me"))
    numbers = [str(number) for number in range(1_100)]

    def main() -> None:
        for number in numbers:
            me.send(message("there", "say", content=number))

    proxy.refuse()
    proxy.cut()
    events.wait_for(lambda found: "lost" in found)
    sender = threading.Thread(target=main)
    sender.start()
    sender.join(WAIT_S)
    came_back = not sender.is_alive()
    proxy.accept()
    assert contents(there, len(numbers)) == numbers
    assert came_back


@pytest.mark.long
def test_amqp_messages_wait_for_the_broker_up_to_a_hundred_thousand(
    make_space: MakeSpace, proxy: Proxy, events: Kept[str], log: Log
) -> None:
    space = make_space(
        amqp_options=AMQPOptions("127.0.0.1", proxy.port),
        on_connection=lambda what, _: events.add(what),
    )
    gate = Gate()
    said = message("there", "say", content="x")

    async def flood(agent: Agent, _: Any) -> None:
        await gate
        for _ in range(100_000):
            agent.send(said)
        with pytest.raises(MailboxFull, match="100000 messages wait for the broker"):
            await agent.request(said)

    flooded = space.add(Doer("me", do=flood)).ask("me", "do")
    until(lambda: space.statistics()["agents"]["me"]["handling"])
    proxy.refuse()
    proxy.cut()
    events.wait_for(lambda found: "lost" in found)
    gate.open()
    until(lambda: not space.statistics()["agents"]["me"]["handling"])
    assert not flooded.done()  # its answer is one more, and is not refused
    space.close()
    # Beside them the answer, and the request, if the cut came before its confirmation.
    log.wait_for("everything: 10000")


def test_amqp_returned_message_is_published_once_after_reconnecting(
    make_space: MakeSpace,
    proxy: Proxy,
    events: Kept[str],
    channel: BlockingChannel,
    exchange: str,
) -> None:
    """The receiver was added after the broker returned the message for want of a queue."""
    space = make_space(
        amqp_options=AMQPOptions("127.0.0.1", proxy.port),
        on_connection=lambda what, _: events.add(what),
    )
    me = space.add(Agent("me"))
    proxy.refuse()
    proxy.cut_at_answer(CONFIRM)
    me.send(message("there", "say", content="sent"))
    events.wait_for(lambda found: "lost" in found)
    there = make_space().add(Recorder("there"))
    copies = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(copies, exchange, "agent.there")
    proxy.accept()
    assert there.told(1) == [("say", {"content": "sent"})]
    me.ask("there", "say", content="asked").result(timeout=WAIT_S)
    assert channel.queue_declare(copies, passive=True).method.message_count == 2


def test_amqp_send_to_a_missing_queue_keeps_order(
    make_space: MakeSpace, proxy: Proxy, channel: BlockingChannel, exchange: str
) -> None:
    """Returned messages come before those not yet published."""
    space = make_space(amqp_options=AMQPOptions("127.0.0.1", proxy.port))
    there, mine = space.add(Recorder("there")), make_space()
    me, other = mine.add(Agent("me")), mine.add(Recorder("other"))
    proxy.stall()
    channel.queue_delete(f"{exchange}.agent.there")
    numbers = [str(number) for number in range(1_000)]
    for number in numbers:
        me.send(message("there", "say", content=number))
    me.send(message("other", "say", content="all are under way"))
    other.wait_for(1)  # the broker has gone through them all
    proxy.resume()
    while not there.messages:  # nor does what is sent while the queue is declared again
        numbers.append(str(len(numbers)))
        me.send(message("there", "say", content=numbers[-1]))
        threading.Event().wait(0.001)
    assert contents(there, len(numbers)) == numbers
