"""Spaces over a broker on event loops that are not asyncio's own."""

from __future__ import annotations

import subprocess

from benchmarks.broker import Broker

from commands import Command

PROGRAM = """
import uvloop
uvloop.install()
from moothall import Agent, AMQPOptions, AMQPSpace
with AMQPSpace(amqp_options=AMQPOptions("127.0.0.1", {port}), exchange="{exchange}") as space:
    space.add(Agent("a"))
    print(*space.add(Agent("me")).ask("a", "help").result(timeout=20))
    print(type(space.loop).__module__)
"""


def test_amqp_space_works_on_uvloop(broker: Broker, exchange: str) -> None:
    code = PROGRAM.format(port=broker.port, exchange=exchange)
    program = Command(code=code, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    told, errors = program.communicate(timeout=30)
    assert (told.split(), errors) == (["uvloop"], "")
