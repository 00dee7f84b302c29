"""Messages that older versions have left in an agent's queue."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from older_programs import Clerk
from spaces.amqp.conftest import MakeSpace, until

FORMATS = Path(__file__).parents[2] / "formats"


@pytest.mark.parametrize("version", ("1", "2"))
def test_amqp_messages_that_older_versions_left_in_a_queue_are_delivered(
    make_space: MakeSpace, channel: BlockingChannel, exchange: str, version: str
) -> None:
    recorded: dict[str, Any] = json.loads((FORMATS / f"queue-{version}.json").read_text())
    arguments = recorded["arguments"] | {"x-dead-letter-exchange": f"{exchange}.dead"}
    queue, asked = f"{exchange}.agent.clerk", recorded["messages"][-1]
    make_space().observe(lambda _: None, everywhere=True)  # which declares the exchange
    answers = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(answers, exchange, asked["properties"]["reply_to"])
    channel.queue_declare(queue, durable=True, arguments=arguments)
    channel.queue_bind(queue, exchange, "agent.clerk")
    for each in recorded["messages"]:
        properties = pika.BasicProperties(**each["properties"])
        channel.basic_publish("", queue, each["body"].encode(), properties)
    clerk = make_space().add(Clerk())
    _, answered, body = until(
        lambda: found if (found := channel.basic_get(answers, auto_ack=True))[0] else None
    )
    assert clerk.heard == [("me", "first"), ("me", "Größe 🙂")]
    assert answered.correlation_id == asked["properties"]["message_id"]
    args = {"data": 3, "original_message_id": "q1"}
    assert json.loads(body)["action"] == {"name": "response", "args": args}
    assert channel.queue_declare(queue, passive=True).method.message_count == 0
