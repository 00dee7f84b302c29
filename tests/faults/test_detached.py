"""A process that dies in a detached action, whose message is in the inbox but not acknowledged."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pika
import pytest
from benchmarks.broker import Broker

from faults.process import Process
from faults.worker import ID
from moothall import Agent, AMQPOptions, AMQPSpace, InDoubt
from moothall.spaces.amqp.amqp_options import Names

pytestmark = pytest.mark.xdist_group("faults")

WAIT_S = 20


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
