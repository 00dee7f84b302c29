"""A message with a delay waits at the broker, whatever becomes of its sender and the broker."""

from __future__ import annotations

import threading
import time
from uuid import uuid4

import pika
import pytest
from benchmarks.broker import Broker

from commands import Command
from faults.process import wait_for
from moothall import Agent, AMQPOptions, AMQPSpace, action

pytestmark = pytest.mark.xdist_group("faults")

DELAY_S = 6
SENDER = """
import os, sys
from moothall import Agent, AMQPOptions, AMQPSpace
options = AMQPOptions("127.0.0.1", int(sys.argv[1]))
space = AMQPSpace(amqp_options=options, exchange=sys.argv[2])
me = space.add(Agent("sender"))
ring = {"to": "alarm", "action": {"name": "ring", "args": {"what": "in time"}}}
me.send(ring, delay=float(sys.argv[3]))
space.idle()
os.kill(os.getpid(), 9)
"""


class Alarm(Agent):
    def __init__(self) -> None:
        super().__init__("alarm")
        self.rung: dict[str, float] = {}

    @action
    async def ring(self, what: str) -> None:
        self.rung[what] = time.monotonic()


@pytest.mark.long
def test_delayed_message_survives_the_death_of_its_sender_and_of_the_broker(
    fragile: Broker,
) -> None:
    exchange = f"faults.{uuid4().hex}"
    options = AMQPOptions("127.0.0.1", fragile.port)
    with AMQPSpace(amqp_options=options, exchange=exchange) as space:
        space.add(Alarm())  # so that it is known, and only away
    begun = time.monotonic()
    sender = Command(str(fragile.port), exchange, str(DELAY_S), code=SENDER)
    assert sender.wait(30) == -9
    fragile.kill()
    fragile.start()
    with AMQPSpace(amqp_options=options, exchange=exchange) as space:
        alarm = space.add(Alarm())
        wait_for(lambda: "in time" in alarm.rung, "the delayed message")
    assert alarm.rung["in time"] - begun >= DELAY_S


def test_delays_are_declared_again_where_somebody_deleted_them(fragile: Broker) -> None:
    exchange = f"faults.{uuid4().hex}"
    options = AMQPOptions("127.0.0.1", fragile.port)
    message = {"to": "alarm", "action": {"name": "ring", "args": {"what": "first"}}}
    with AMQPSpace(amqp_options=options, exchange=exchange) as space:
        alarm = space.add(Alarm())
        alarm.send(message, delay=0.1)
        wait_for(lambda: "first" in alarm.rung, "the first message")
        with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", fragile.port)) as link:
            channel = link.channel()
            for level in range(28):
                channel.exchange_delete(f"{exchange}.delay.{level}")
                channel.queue_delete(f"{exchange}.delay.{level}")
        message["action"]["args"]["what"] = "second"  # type: ignore[index]
        alarm.send(message, delay=0.1)
        wait_for(lambda: "second" in alarm.rung, "the second message")


@pytest.mark.long
def test_delayed_messages_of_many_delays_are_each_in_time(fragile: Broker) -> None:
    options = AMQPOptions("127.0.0.1", fragile.port)
    with AMQPSpace(amqp_options=options, exchange=f"faults.{uuid4().hex}") as space:
        alarm = space.add(Alarm())
        due = {}
        for n in range(200):
            delay = (37 * n % 200) / 50
            message = {"to": "alarm", "action": {"name": "ring", "args": {"what": str(n)}}}
            due[str(n)] = time.monotonic() + delay
            alarm.send(message, delay=delay)
        wait_for(lambda: len(alarm.rung) == 200, "all messages")
        threading.Event().wait(0.2)
    early = {what: alarm.rung[what] - due[what] for what in due if alarm.rung[what] < due[what]}
    assert (len(alarm.rung), early) == (200, {})
