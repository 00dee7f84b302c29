"""What takes minutes: actions longer than the broker waits, and a million messages."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks.broker import Broker

from conformance.conftest import Log, Recorder, message
from conformance.conftest import log as log
from moothall import (
    ACCESS_REQUESTED,
    Agent,
    AMQPOptions,
    AMQPSpace,
    ApprovalRequest,
    CallbackApprover,
    action,
)
from spaces.amqp.worker import Notes

LONG_S = 130  # a minute, and up to another until the broker looks
WAIT_S = 200
TESTS = Path(__file__).resolve().parents[2]


class Slow(Agent):
    """Takes longer than the broker waits for an acknowledgement."""

    def __init__(self, id: str, notes: Notes) -> None:
        super().__init__(id)
        self.notes = notes

    @action
    async def plain(self, text: str, seconds: float) -> str:
        self.notes.add(text)
        await asyncio.sleep(seconds)
        return f"{text} done"

    @action
    def blocking(self, text: str, seconds: float) -> str:
        self.notes.add(text)
        threading.Event().wait(seconds)
        return f"{text} done"

    @action(detached=True)
    async def detached(self, text: str, seconds: float) -> str:
        self.notes.add(text)
        await asyncio.sleep(seconds)
        return f"{text} done"

    @action(access_policy=ACCESS_REQUESTED)
    async def approved(self, text: str) -> str:
        self.notes.add(text)
        return f"{text} done"


@pytest.fixture
def impatient() -> Iterator[Broker]:
    """A broker that takes back, after a minute, what is not acknowledged."""
    settings = {"consumer_timeout": 60_000}
    with Broker(settings=settings) as broker:
        yield broker


@pytest.mark.long
@pytest.mark.timeout(300)
def test_actions_longer_than_the_broker_waits(impatient: Broker, tmp_path: Path, log: Log) -> None:
    """Each runs once and is answered, in spaces with an inbox's file and without."""

    async def think(request: ApprovalRequest) -> bool:
        await asyncio.sleep(LONG_S)
        return True

    options = AMQPOptions("127.0.0.1", impatient.port)
    spaces = []
    expected: dict[str, list[str]] = {}
    asked: list[Any] = []
    notes: dict[str, Notes] = {}
    with AMQPSpace(amqp_options=options) as here:
        me = here.add(Recorder("me"))
        for kind in ("memory", "file"):
            space = AMQPSpace(
                amqp_options=options,
                inbox=tmp_path / "inbox.db" if kind == "file" else None,
                approver=CallbackApprover(think),
                grace=0,
            )
            spaces.append(space)
            for name in ("plain", "blocking", "detached", "approved"):
                id = f"{kind} {name}"
                notes[id] = Notes(tmp_path / id)
                space.add(Slow(id, notes[id]))
                args = {} if name == "approved" else {"seconds": LONG_S}
                asked.append(me.ask(id, name, text="first", **args))
                asked.append(me.ask(id, "plain", text="behind", seconds=0))
                me.send({"id": id, **message(id, "plain", text="sent", seconds=0)})
                expected[id] = ["first", "behind", "sent"]
            expected[f"{kind} approved"] = ["behind", "sent", "first"]
        outcomes = [request.result(timeout=WAIT_S) for request in asked]
        assert outcomes == ["first done", "behind done"] * 8
        told = me.wait_for(8, timeout=WAIT_S)
        assert {m["action"]["args"]["original_message_id"] for m in told} == set(notes)
        # What it took back came again, and was known.
        assert "timed out" in impatient.log(10_000)
        line = log.wait_for("delivers again what had not ended")
        assert 'the oldest is "memory plain.plain": give the space an inbox= and mark it' in line
        me.ask("me", "help").result(timeout=WAIT_S)
        assert {id: each.lines() for id, each in notes.items()} == expected
        for space in spaces:
            space.close()


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("inbox", (False, True))
def test_amqp_million_messages_leave_no_trace_in_memory(
    broker: Broker, exchange: str, inbox: bool, tmp_path: Path
) -> None:
    """Memory at a million is what it was at two hundred thousand, when all bounds are reached.

    The least of many moments is compared, since how much is on its way differs. Were 30 bytes of
    each message left, it would be too much.
    """
    command = (sys.executable, "-m", "spaces.amqp.million", str(broker.port), exchange)
    file = (str(tmp_path / "inbox.db"),) if inbox else ()
    done = subprocess.run((*command, *file), cwd=TESTS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["in_order"]
    assert found["count"] == 1_000_000
    assert found["least"][9] - found["least"][2] < 20 * 2**20
