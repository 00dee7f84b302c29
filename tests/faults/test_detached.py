"""A process that dies in a detached action, whose message is in the inbox but not acknowledged."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import uuid4

import pika
import pytest
from benchmarks.broker import Broker

from faults.process import Process
from faults.worker import ID
from moothall import Agent, AMQPOptions, AMQPSpace, InDoubt, action
from moothall.spaces.amqp.amqp_options import Names

pytestmark = pytest.mark.xdist_group("faults")

WAIT_S = 20


class Slow(Agent):
    runs = 0

    @action
    async def work(self) -> int:
        """Take longer than the broker waits."""
        self.runs += 1
        await asyncio.sleep(1.5)
        return self.runs


def test_detached_call_of_a_killed_process_is_in_doubt_once(
    fragile: Broker, tmp_path: Path
) -> None:
    names = Names(f"faults.{uuid4().hex}")
    settings = {
        "hostname": f"127.0.0.1:{fragile.port}",
        "quorum": False,
        "heartbeat": 60,
        "exchange": names.exchange,
        "inbox": str(tmp_path / "inbox.db"),
        "record": str(tmp_path / "record"),
    }
    worker = Process(settings, tmp_path / "log")
    options = AMQPOptions("127.0.0.1", fragile.port)
    try:
        with AMQPSpace(amqp_options=options, exchange=names.exchange) as space:
            me = space.add(Agent("me"))
            dying = me.request({"to": ID, "action": {"name": "die"}}, wait=True)
            worker.wait()
            worker.start()
            with pytest.raises(InDoubt):
                dying.result(WAIT_S)
            for key in range(20):
                assert me.ask(ID, "work", key=key).result(WAIT_S) == -key
        worker.close()
    finally:
        worker.kill()
    assert "Traceback" not in worker.log
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", fragile.port)) as link:
        queue = link.channel().queue_declare(names.queue("agent", ID), passive=True)
        assert queue.method.message_count == 0


@pytest.mark.parametrize("inbox", (pytest.param(False, marks=pytest.mark.long), True))
def test_message_that_the_broker_takes_back_is_named_with_what_helps(
    fragile: Broker, tmp_path: Path, caplog: pytest.LogCaptureFixture, inbox: bool
) -> None:
    waits = "application:set_env(rabbit, {}, {}), application:set_env(rabbit, {}, {})"
    limits = ("consumer_timeout", 700, "channel_tick_interval", 200)
    fragile.eval(waits.format(*limits))
    options = AMQPOptions("127.0.0.1", fragile.port)
    try:
        with AMQPSpace(
            amqp_options=options,
            exchange=f"faults.{uuid4().hex}",
            inbox=tmp_path / "inbox.db" if inbox else None,
        ) as space:
            slow = space.add(Slow("slow"))
            assert slow.ask("slow", "work").result(WAIT_S) == 1
    finally:
        fragile.eval(waits.format(limits[0], 1_800_000, limits[2], 60_000))
    line = next(each for each in caplog.messages if "delivers again what had not ended" in each)
    needs = "" if inbox else "give the space an inbox= and "
    remedy = f"{needs}mark it @action(detached=True) if it runs so long"
    assert line.endswith(f'the oldest is "slow.work": {remedy}')
    assert slow.runs == 1
