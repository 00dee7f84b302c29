"""What an observer of a space sees of messages between processes."""

from __future__ import annotations

import queue
from typing import Any
from uuid import uuid4

from benchmarks.broker import Broker

from moothall import Agent, AMQPOptions, AMQPSpace, action

WAIT_S = 20


class Echo(Agent):
    @action
    async def echo(self, text: str) -> str:
        return text


def test_observer_sees_an_answer_from_another_process_once(broker: Broker) -> None:
    options, exchange = AMQPOptions(port=broker.port), f"test.{uuid4().hex}"
    with (
        AMQPSpace(amqp_options=options, exchange=exchange) as here,
        AMQPSpace(amqp_options=options, exchange=exchange) as there,
    ):
        seen: dict[str, queue.Queue[dict[str, Any]]] = {
            "here": queue.Queue(),
            "there": queue.Queue(),
        }
        me = here.add(Agent("me"))
        there.add(Echo("Echo"))
        here.observe(seen["here"].put)
        there.observe(seen["there"].put)
        for to in ("Echo", "*"):
            me.send({"id": "1", "to": to, "action": {"name": "echo", "args": {"text": "hi"}}})
            for each in seen.values():
                first, second = each.get(timeout=WAIT_S), each.get(timeout=WAIT_S)
                assert (first["from"], first["to"]) == ("me", to)
                assert (second["from"], second["to"]) == ("Echo", "me")
                assert second["action"]["args"] == {"data": "hi", "original_message_id": "1"}
        assert me.ask("Echo", "echo", text="last").result(WAIT_S) == "last"
        for each in seen.values():
            assert [each.get(timeout=WAIT_S)["from"] for _ in range(2)] == ["me", "Echo"]
            assert each.empty()
