"""Programs without moothall take part: by bare AMQP, and by MQTT through RabbitMQ's plugin."""

from __future__ import annotations

import json
import queue
from collections.abc import Iterator
from typing import Any

import pika
import pytest
from benchmarks.broker import Broker
from benchmarks.ports import free_port
from pika.adapters.blocking_connection import BlockingChannel

from conformance.conftest import Recorder
from moothall import Agent, AMQPOptions, AMQPSpace, action
from spaces.amqp.conftest import WAIT_S, MakeSpace


class Calculator(Recorder):
    @action
    async def add(self, a: int, b: int) -> int:
        return a + b


@pytest.fixture
def channel(broker: Broker) -> Iterator[BlockingChannel]:
    """A channel of a program that knows nothing of moothall."""
    link = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.port))
    yield link.channel()
    link.close()


def body(to: str, name: str, **args: Any) -> bytes:
    return json.dumps(
        {"from": "stranger", "to": to, "action": {"name": name, "args": args}}
    ).encode()


def test_amqp_stranger_sends_without_properties_and_gets_the_answer_in_a_queue_of_its_own(
    make_space: MakeSpace, exchange: str, channel: BlockingChannel
) -> None:
    make_space().add(Calculator("Calculator"), groups=("sums",))
    mine = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(mine, exchange, "agent.stranger")
    for key, to in (("agent.Calculator", "Calculator"), ("group.sums", "#sums"), ("all", "*")):
        channel.basic_publish(exchange, key, body(to, "add", a=1, b=2))
        _, properties, answer = next(
            channel.consume(mine, auto_ack=True, inactivity_timeout=WAIT_S)
        )
        assert properties.type == "answer"
        assert json.loads(answer)["action"] == {
            "name": "response",
            "args": {"data": 3, "original_message_id": None},
        }


def test_amqp_stranger_asks_and_is_asked(
    make_space: MakeSpace, exchange: str, channel: BlockingChannel
) -> None:
    space = make_space()
    space.add(Calculator("Calculator"))
    me = space.add(Agent("me"))
    mine = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(mine, exchange, "reply.stranger")
    for args, outcome in (({"a": 1, "b": 2}, None), ({"a": 1}, "InvalidArguments")):
        asked = pika.BasicProperties(
            type="request", message_id=f"stranger.{len(args)}", reply_to="reply.stranger"
        )
        channel.basic_publish(
            exchange, "agent.Calculator", body("Calculator", "add", **args), asked
        )
        _, got, _ = next(channel.consume(mine, auto_ack=True, inactivity_timeout=WAIT_S))
        assert (got.type, got.correlation_id) == ("reply", asked.message_id)
        assert (got.headers or {}).get("outcome") == outcome
    channel.cancel()
    channel.queue_declare(f"{exchange}.claim.stranger", exclusive=True)
    channel.queue_declare(f"{exchange}.agent.stranger", durable=True, auto_delete=True)
    channel.queue_bind(f"{exchange}.agent.stranger", exchange, "agent.stranger")
    request = {"to": "stranger", "action": {"name": "greet", "args": {"name": "Ann"}}}
    pending = me.request(request, timeout=WAIT_S, wait=True)
    consumed = channel.consume(f"{exchange}.agent.stranger", inactivity_timeout=WAIT_S)
    method, properties, sent = next(consumed)
    greeted = {"data": f"Hi {json.loads(sent)['action']['args']['name']}"}
    answer = {"name": "response", "args": {**greeted, "original_message_id": None}}
    channel.basic_publish(
        exchange,
        properties.reply_to,
        json.dumps({"from": "stranger", "to": "me", "action": answer}),
        pika.BasicProperties(
            type="reply", message_id="stranger.3", correlation_id=properties.message_id
        ),
    )
    channel.basic_ack(method.delivery_tag)
    assert pending.result() == "Hi Ann"


@pytest.mark.long  # a broker with the plugin takes four times as long to start
def test_mqtt_client_sends_and_gets_the_answer_on_its_topic() -> None:
    from paho.mqtt import client as mqtt

    port, came = free_port(), queue.Queue[Any]()
    settings = {"mqtt.listeners.tcp.1": f"127.0.0.1:{port}", "mqtt.exchange": "moothall"}
    with (
        Broker(settings=settings, plugins=("rabbitmq_mqtt",)) as broker,
        AMQPSpace(amqp_options=AMQPOptions("127.0.0.1", broker.port), grace=0) as space,
    ):
        space.add(Calculator("Calculator"))
        client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id="stranger")
        client.username_pw_set(broker.user, broker.password)
        client.on_subscribe = lambda *_: came.put("subscribed")
        client.on_message = lambda _, __, message: came.put(json.loads(message.payload))
        client.connect("127.0.0.1", port)
        client.loop_start()
        client.subscribe("agent/stranger", qos=1)
        assert came.get(timeout=WAIT_S) == "subscribed"
        client.publish("agent/Calculator", body("Calculator", "add", a=1, b=2), qos=1)
        answer = came.get(timeout=WAIT_S)
        assert answer["from"] == "Calculator"
        assert answer["action"]["args"]["data"] == 3
        client.disconnect()
        client.loop_stop()
