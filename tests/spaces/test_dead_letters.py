"""Dead letters of a real broker: looked at, sent again, removed."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from benchmarks.broker import Broker

from moothall import Agent, AMQPOptions, AMQPSpace, action
from moothall.foundation.errors import BrokerError, ConfigError, DuplicateAgent, InDoubt
from moothall.spaces.amqp.dead_letters import DeadLetter, DeadLetters

WAIT_S = 20

# Ends in the middle of the action, as a machine does whose power is cut.
DIES = """
import os, signal, sys
from moothall import AMQPSpace, Agent, action
class Till(Agent):
    @action
    async def pay(self, amount: int) -> int:
        os.kill(os.getpid(), signal.SIGKILL)
space = AMQPSpace(exchange=sys.argv[1], inbox=sys.argv[2])
till = space.add(Till("Till"))
sys.stdin.read()
"""


class Till(Agent):
    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.paid: queue.Queue[tuple[str, int]] = queue.Queue()

    @action
    async def pay(self, amount: int) -> int:
        assert self.current_message is not None
        self.paid.put((self.current_message["from"], amount))
        return amount


class Customer(Agent):
    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.told: queue.Queue[Any] = queue.Queue()

    @action
    async def response(self, data: Any, original_message_id: str | None = None) -> None:
        self.told.put((data, original_message_id))

    @action
    async def error(self, error: str, original_message_id: str | None = None) -> None:
        self.told.put((error, original_message_id))


@pytest.fixture
def options(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> AMQPOptions:
    monkeypatch.setenv("AMQP_PORT", str(broker.port))
    return AMQPOptions(port=broker.port)


@pytest.fixture
def post(options: AMQPOptions, exchange: str) -> Iterator[Callable[..., None]]:
    """Publishes anything at all to an exchange."""
    with pika.BlockingConnection(pika.ConnectionParameters(port=options.port)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()  # what was posted is there

        def post(to: str, key: str, body: bytes, **properties: Any) -> None:
            channel.basic_publish(to, key, body, pika.BasicProperties(**properties))

        yield post


def reject(options: AMQPOptions, queue: str) -> None:
    """Rejects the first message of a queue, as an operator does in the broker's own pages."""
    with pika.BlockingConnection(pika.ConnectionParameters(port=options.port)) as connection:
        channel = connection.channel()
        got, _, _ = channel.basic_get(queue)
        channel.basic_reject(got.delivery_tag, requeue=False)


def pay(amount: int, **more: Any) -> dict[str, Any]:
    return {"to": "Till", "action": {"name": "pay", "args": {"amount": amount}}, **more}


def letters(dead: DeadLetters, count: int) -> list[DeadLetter]:
    """The letters, when there are so many."""
    end = time.monotonic() + WAIT_S
    while True:
        found, more = dead.look()
        assert more == 0
        if len(found) == count:
            return found
        assert time.monotonic() < end, f"there are {found}"
        threading.Event().wait(0.02)


def expired(exchange: str, *messages: dict[str, Any], id: str = "Till") -> None:
    """Has messages wait for an agent that is away, for longer than they are kept."""
    with AMQPSpace(exchange=exchange, keep=1) as space:
        space.add(Till(id))
    with AMQPSpace(exchange=exchange, keep=1) as space:
        customer = space.add(Customer("Customer"))
        for message in messages:
            customer.send(message)


def successor(space: AMQPSpace) -> Till:
    """Another till, when the broker has seen that the process of the one before is dead."""
    end = time.monotonic() + WAIT_S
    while True:
        try:
            till: Till = space.add(Till("Till"))
            return till
        except DuplicateAgent:
            assert time.monotonic() < end
            threading.Event().wait(0.02)


def test_dead_letters_expired_message_is_shown_and_resent(
    options: AMQPOptions, exchange: str
) -> None:
    expired(exchange, pay(1, id="first"), pay(2))
    with DeadLetters(options, exchange) as dead:
        first, second = letters(dead, 2)
        assert (first.agent, first.kind) == ("Till", "send")
        assert first.message == {"id": "first", "from": "Customer", **pay(1)}
        assert "it expired" in first.reason
        assert first.time.startswith("20")
        assert first.key != second.key
        # Looking changes nothing, neither what is there nor its order.
        assert dead.look() == ([first, second], 0)
        assert dead.look(1) == ([first], 1)
        with AMQPSpace(exchange=exchange, keep=1) as space:
            till, customer = space.add(Till("Till")), space.add(Customer("Customer"))
            assert [(each, why) for each, why in dead.resend(first.key)] == [(first, None)]
            assert till.paid.get(timeout=WAIT_S) == ("Customer", 1)
            assert customer.told.get(timeout=WAIT_S) == (1, "first")
            assert dead.look() == ([second], 0)
            assert list(dead.resend()) == [(second, None)]
            assert till.paid.get(timeout=WAIT_S) == ("Customer", 2)
        assert dead.look() == ([], 0)
        assert list(dead.resend()) == []


def test_dead_letter_names_its_receiver_of_any_id(options: AMQPOptions, exchange: str) -> None:
    till = "Ann's till. №1 %"
    expired(exchange, pay(1) | {"to": till}, id=till)
    with DeadLetters(options, exchange) as dead:
        (letter,) = letters(dead, 1)
    assert letter.agent == till


def test_dead_letters_message_in_doubt_runs_when_resent(
    options: AMQPOptions, exchange: str, tmp_path: Path
) -> None:
    inbox = tmp_path / "inbox"
    arguments = [sys.executable, "-c", DIES, exchange, str(inbox)]
    with AMQPSpace(exchange=exchange) as space:
        customer = space.add(Customer("Customer"))
        with subprocess.Popen(arguments, stdin=subprocess.PIPE) as dies:
            asked = customer.request(pay(7, id="seven"), timeout=None, wait=True)
            assert dies.wait(WAIT_S) == -9
        with (
            AMQPSpace(exchange=exchange, inbox=inbox) as other,
            DeadLetters(options, exchange) as d,
        ):
            till = successor(other)
            with pytest.raises(InDoubt):
                asked.result(WAIT_S)
            (letter,) = letters(d, 1)
            assert letter.agent == "Till"
            assert letter.kind == "request"
            assert letter.reason.startswith('in doubt: "Till.pay" was running')
            assert list(d.resend(letter.key)) == [(letter, None)]
            assert till.paid.get(timeout=WAIT_S) == ("Customer", 7)
            # Whoever asked had its outcome; this one comes as a message.
            assert customer.told.get(timeout=WAIT_S) == (7, "seven")
            assert d.look() == ([], 0)


def test_dead_letters_rejected_message_without_type_is_shown_and_resent(
    options: AMQPOptions, exchange: str, post: Callable[..., None]
) -> None:
    with AMQPSpace(exchange=exchange) as space:
        space.add(Till("Till"))
    post(exchange, "agent.Till", json.dumps({"from": "Customer", **pay(3)}).encode())
    reject(options, f"{exchange}.agent.Till")
    with AMQPSpace(exchange=exchange) as space, DeadLetters(options, exchange) as dead:
        (letter,) = letters(dead, 1)
        assert letter.reason == "the broker put it here (rejected)"
        till = space.add(Till("Till"))
        assert list(dead.resend()) == [(letter, None)]
        assert till.paid.get(timeout=WAIT_S) == ("Customer", 3)


def test_dead_letters_unsendable_letter_stays_and_says_why(
    options: AMQPOptions, exchange: str, post: Callable[..., None]
) -> None:
    with AMQPSpace(exchange=exchange) as space, DeadLetters(options, exchange) as dead:
        space.add(Till("Till"))
        post(exchange, "agent.Till", b"no JSON \x1b[2J")
        post(exchange, "agent.Till", b"no JSON \x1b[2J")
        poison = letters(dead, 2)
        assert poison[0].key != poison[1].key
        assert [(each.agent, each.message) for each in poison] == [("Till", None)] * 2
        assert "it is not JSON" in poison[0].reason
        message = {"from": "Customer", **pay(1)}
        nobody = {**message, "to": "Nobody"}
        post(f"{exchange}.dead", "", json.dumps(nobody).encode(), type="send", message_id="1")
        post(f"{exchange}.dead", "", json.dumps(message).encode(), type="cancel", message_id="2")
        post(f"{exchange}.dead", "", b"[7]", type="send", headers={"agent": 7, "reason": 8})
        post(f"{exchange}.dead", "", b'{"to": "\\ud800"}', headers={"x-death": ["?"]})
        other = {"agent": "Till"}
        post(f"{exchange}.dead", "", json.dumps(nobody).encode(), type="send", headers=other)
        there = letters(dead, 7)
        whys = [str(why) for _, why in dead.resend()]
        assert len(whys) == 7
        for why, part in zip(
            whys,
            (
                "it is not a message: it is not JSON",
                "it is not a message: it is not JSON",
                'no agent "Nobody" has a queue',
                "a message of the type 'cancel'",
                "it is not a message: it is not a JSON object",
                "its receiver is unknown",
                "it is to 'Nobody', but was in the queue of 'Till'",
            ),
            strict=True,
        ):
            assert part in why
        assert letters(dead, 7) == there


def test_dead_letters_resend_without_queue_keeps_letter_despite_observer(
    options: AMQPOptions, exchange: str, post: Callable[..., None]
) -> None:
    with AMQPSpace(exchange=exchange) as space, DeadLetters(options, exchange) as dead:
        space.observe(lambda message: None, everywhere=True)
        letter = json.dumps({"from": "Customer", **pay(1)}).encode()
        post(f"{exchange}.dead", "", letter, type="send", message_id="1")
        there = letters(dead, 1)
        assert list(dead.resend()) == [(there[0], 'no agent "Till" has a queue')]
        assert letters(dead, 1) == there
        till = space.add(Till("Till"))
        assert list(dead.resend()) == [(there[0], None)]
        assert till.paid.get(timeout=WAIT_S) == ("Customer", 1)


def test_dead_letter_to_a_full_mailbox_stays(
    options: AMQPOptions, exchange: str, post: Callable[..., None]
) -> None:
    with AMQPSpace(exchange=exchange, mailbox=1) as space:
        space.add(Till("Till"))
    headers = {"agent": "Till", "reason": "in doubt", "time": "2026-01-01T00:00:00Z"}
    for number in range(2):
        body = json.dumps({"from": "Customer", **pay(number)}).encode()
        id = str(number)
        post(f"{exchange}.dead", "", body, type="request", message_id=id, headers=headers)
    with DeadLetters(options, exchange) as dead:
        first, second = letters(dead, 2)
        assert list(dead.resend()) == [(first, None), (second, 'the mailbox of "Till" is full')]
        assert letters(dead, 1) == [second]


def test_dead_letters_resend_runs_duplicate_letter_once(
    options: AMQPOptions, exchange: str, post: Callable[..., None]
) -> None:
    with AMQPSpace(exchange=exchange) as space, DeadLetters(options, exchange) as dead:
        till = space.add(Till("Till"))
        body = json.dumps({"from": "Customer", **pay(1)}).encode()
        headers = {"agent": "Till", "reason": "in doubt", "time": "2026-01-01T00:00:00Z"}
        for _ in range(3):
            post(f"{exchange}.dead", "", body, type="send", message_id="m", headers=headers)
        letter = letters(dead, 3)[0]
        assert list(dead.resend(letter.key)) == [(letter, None)] * 3
        assert till.paid.get(timeout=WAIT_S) == ("Customer", 1)
        assert dead.look() == ([], 0)
        # As when whoever sent it again had died before the letter was removed.
        post(f"{exchange}.dead", "", body, type="send", message_id="m", headers=headers)
        letters(dead, 1)
        assert list(dead.resend()) == [(letter, None)]
        space.add(Customer("Customer")).ask("Till", "pay", amount=2).result(WAIT_S)
        assert till.paid.get(timeout=WAIT_S) == ("Customer", 2)
        assert till.paid.empty()


def test_dead_letters_broker_error_is_one_line_with_remedy(
    options: AMQPOptions, exchange: str
) -> None:
    def fault(options: AMQPOptions) -> str:
        with pytest.raises(BrokerError) as caught, DeadLetters(options, exchange) as dead:
            dead.look()
        text = str(caught.value)
        assert "\n" not in text
        return text

    port = options.port
    assert f"there is no exchange '{exchange}' at localhost:{port}" in fault(options)
    assert "AMQP_PASSWORD" in fault(AMQPOptions(port=port, password="wrong"))
    assert "AMQP_VHOST" in fault(AMQPOptions(port=port, virtual_host="nowhere"))
    assert "(Connection refused): start RabbitMQ" in fault(AMQPOptions(port=9))
    assert "without use_ssl=True" in fault(AMQPOptions(port=port, use_ssl=True))
    with pytest.raises(ConfigError):
        DeadLetters(options, "amq.direct")
