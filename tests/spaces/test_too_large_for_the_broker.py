"""A broker that takes smaller messages than an agent may send."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from benchmarks.broker import Broker
from benchmarks.proxy import Proxy

from moothall import Agent, AMQPOptions, AMQPSpace, action
from moothall.foundation.errors import ActionError, MailboxFull

WAIT_S = 20
LARGE = 200_000


@pytest.fixture(scope="module")
def small_broker(broker: Broker) -> Iterator[Broker]:
    """The worker's own, which takes small messages for a while."""
    set_size = "application:set_env(rabbit, max_message_size, {})"
    broker.eval(set_size.format(100_000))
    yield broker
    broker.eval(set_size.format(128 << 20))


class Printer(Agent):
    @action
    async def copy(self, text: str, times: int) -> str:
        return text * times

    @action
    async def say(self, content: str) -> str:
        return content * 5_000_000


class Customer(Agent):
    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.told: queue.Queue[tuple[str, Any]] = queue.Queue()

    @action
    async def error(self, error: str, original_message_id: str | None = None) -> None:
        self.told.put((error, original_message_id))


def test_amqp_message_too_large_raises_and_delays_no_other(small_broker: Broker) -> None:
    options = AMQPOptions(port=small_broker.port)
    with AMQPSpace(amqp_options=options) as here, AMQPSpace(amqp_options=options) as there:
        me = here.add(Customer("me"))
        there.add(Printer("Printer"))

        def copy(length: int, times: int = 1) -> dict[str, Any]:
            args = {"text": "x" * length, "times": times}
            return {"id": "1", "to": "Printer", "action": {"name": "copy", "args": args}}

        for _ in range(2):  # the first is how the space learns of it
            large, small = me.request(copy(LARGE)), me.request(copy(2))
            with pytest.raises(MailboxFull, match="100,000 are the limit"):
                large.result(WAIT_S)
            assert small.result(WAIT_S) == "xx"
            me.send(copy(LARGE))
            error, id = me.told.get(timeout=WAIT_S)
            assert "max_message_size" in error
            assert id == "1"
            # An answer of that size.
            with pytest.raises(ActionError, match="MessageTooLarge: no message of"):
                me.request(copy(10, LARGE)).result(WAIT_S)
            me.send(copy(10, LARGE))
            error, id = me.told.get(timeout=WAIT_S)
            assert "MessageTooLarge" in error
            assert id == "1"


def test_amqp_message_of_largest_size_is_sent_after_the_channel_closed(
    small_broker: Broker,
) -> None:
    """The broker closes the channel over a larger message."""
    options = AMQPOptions(port=small_broker.port)
    with AMQPSpace(amqp_options=options) as here, AMQPSpace(amqp_options=options) as there:
        me = here.add(Customer("me"))
        there.add(Printer("Printer"))

        def copy(length: int) -> dict[str, Any]:
            args = {"text": "x" * length, "times": 0}
            return {"to": "Printer", "action": {"name": "copy", "args": args}}

        rest = len(json.dumps({"from": "me", **copy(0)}, separators=(",", ":")))
        large, largest = me.request(copy(LARGE)), me.request(copy(100_000 - rest))
        with pytest.raises(MailboxFull):
            large.result(WAIT_S)
        assert largest.result(WAIT_S) == ""
        with pytest.raises(MailboxFull, match="of 100,001 bytes"):
            me.request(copy(100_001 - rest)).result(WAIT_S)


def test_amqp_message_too_large_after_json_escapes_raises(broker: Broker) -> None:
    """Data of 16 MiB is sent, and a control character of one byte has six in JSON."""
    text = "\x01" * 5_000_000
    with AMQPSpace(amqp_options=AMQPOptions(port=broker.port)) as space:
        me = space.add(Customer("me"))
        space.add(Printer("Printer"))
        called = {"name": "copy", "args": {"text": text, "times": 1}}
        with pytest.raises(MailboxFull, match="25,165,824 are the limit"):
            me.request({"to": "Printer", "action": called}).result(WAIT_S)
        me.send({"id": "1", "to": "Printer", "action": called})
        assert me.told.get(timeout=WAIT_S)[1] == "1"
        with pytest.raises(ActionError, match="MessageTooLarge: no message of"):
            me.ask("Printer", "copy", text="\x01", times=5_000_000).result(WAIT_S)
        said = {"name": "say", "args": {"content": "\x01"}}
        me.send({"id": "2", "to": "Printer", "action": said})
        assert me.told.get(timeout=WAIT_S)[1] == "2"


@pytest.mark.long
def test_amqp_remove_while_the_broker_ends_the_channel_frees_the_id(small_broker: Broker) -> None:
    """As it does when it gets the first message that is too large."""
    with (
        Proxy(small_broker.port) as proxy,
        AMQPSpace(amqp_options=AMQPOptions(port=proxy.port)) as here,
        AMQPSpace(amqp_options=AMQPOptions(port=small_broker.port)) as there,
    ):
        me, other = here.add(Customer("me")), there.add(Agent("other"))
        here.add(Printer("Printer"))
        proxy.stall()
        copies = [{"text": "x" * length, "times": 1} for length in (LARGE, 2)]
        for args in copies:
            me.send({"id": "1", "to": "Printer", "action": {"name": "copy", "args": args}})
        leaving = threading.Thread(target=here.remove, args=("Printer",))
        leaving.start()
        while "Printer" in here.ids():
            threading.Event().wait(0.001)
        proxy.resume()
        leaving.join(WAIT_S)
        assert not leaving.is_alive()
        there.add(Printer("Printer"))
        assert other.ask("Printer", "copy", text="x", times=3).result(WAIT_S) == "xxx"
