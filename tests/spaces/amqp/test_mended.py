"""What once went wrong at the edges: late sends, ids of others, queues lost again and again."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from benchmarks.broker import Broker
from benchmarks.proxy import Proxy
from pika.adapters.blocking_connection import BlockingChannel

from conformance.conftest import Kept, Recorder, message
from conformance.gate import Doer, Gate, Holder
from moothall import Agent, AgentNotFound, AMQPOptions, action
from spaces.amqp.conftest import WAIT_S, MakeSpace, until


class Leaver(Agent):
    """Answers at once, and sends something later."""

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.gate = Gate()
        self.left: list[asyncio.Task[None]] = []

    @action
    async def leave(self, to: str) -> str:
        async def later() -> None:
            await self.gate
            self.send(message(to, "say", content="late"))

        self.left.append(asyncio.create_task(later()))
        return "left"


@pytest.mark.parametrize("inbox", (False, True))
def test_amqp_background_task_of_an_ended_action_may_send(
    inbox: bool, make_space: MakeSpace, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    there = make_space(inbox=tmp_path / "inbox.db") if inbox else make_space()
    leaver = there.add(Leaver("leaver"))
    me = make_space().add(Recorder("me"))
    for _ in range(3):
        assert me.ask("leaver", "leave", to="me").result(timeout=WAIT_S) == "left"
    leaver.gate.open()
    assert me.told(3) == [("say", {"content": "late"})] * 3
    assert me.ask("leaver", "leave", to="me").result(timeout=WAIT_S) == "left"
    assert me.told(4)[3] == ("say", {"content": "late"})
    assert [each.getMessage() for each in caplog.records] == []


def test_amqp_remove_of_a_refused_duplicate_keeps_the_first_agent(
    make_space: MakeSpace, log: Any
) -> None:
    there, here = make_space(), make_space()
    wanted = there.add(Holder("wanted"))

    async def add_and_remove(agent: Agent, _: Any) -> None:
        agent.space.add(Agent("wanted"))
        await asyncio.sleep(0)
        try:
            agent.space.remove("wanted")
        except AgentNotFound:
            return  # it had been refused by then

    here.add(Doer("doer", do=add_and_remove))
    me = here.add(Agent("me"))
    for number in range(5):
        me.ask("doer", "do").result(timeout=WAIT_S)
        log.wait_for("could not be added")
        log.lines.clear()
        assert me.ask("wanted", "note", name=str(number)).result(timeout=WAIT_S) == str(number)
    assert wanted.begun == [str(number) for number in range(5)]


def test_amqp_remove_works_after_another_process_took_the_id(
    make_space: MakeSpace, broker: Broker
) -> None:
    events: Kept[str] = Kept()
    with Proxy(broker.port) as proxy:
        here = make_space(
            amqp_options=AMQPOptions("127.0.0.1", proxy.port),
            on_connection=lambda what, _: events.add(what),
        )
        me, mine = here.add(Agent("me")), here.add(Holder("wanted"))
        proxy.refuse()
        proxy.cut()
        events.wait_for(lambda found: "lost" in found)
        there = make_space()

        def taken() -> Any:
            try:
                return there.add(Holder("wanted"))
            except ValueError:
                return None  # the broker has still to see that the other is gone

        other = until(taken)
        proxy.accept()
        events.wait_for(lambda found: found.count("connected") == 2)
        here.remove(mine)
        assert me.ask("wanted", "note", name="a").result(timeout=WAIT_S) == "a"
    assert (mine.begun, other.begun) == ([], ["a"])


def test_amqp_requests_run_once_when_the_queue_is_deleted_repeatedly(
    make_space: MakeSpace, channel: BlockingChannel, exchange: str
) -> None:
    holder = make_space().add(Holder("holder"))
    me = make_space().add(Agent("me"))
    names = [str(number) for number in range(90)]
    for begin in range(0, 90, 30):
        wanted = names[begin : begin + 30]
        asked = [me.ask("holder", "note", name=name) for name in wanted[:15]]
        channel.queue_delete(f"{exchange}.agent.holder")
        asked += [me.ask("holder", "note", name=name) for name in wanted[15:]]
        assert [request.result(timeout=WAIT_S) for request in asked] == wanted
    assert sorted(holder.begun, key=int) == names


def test_amqp_close_sends_messages_held_back_for_a_lost_queue(
    make_space: MakeSpace, channel: BlockingChannel, exchange: str
) -> None:
    holder = make_space().add(Holder("holder"))
    for number in range(5):
        here = make_space()
        me = here.add(Agent(f"me {number}"))
        assert me.ask("holder", "note", name="first").result(timeout=WAIT_S) == "first"
        channel.queue_delete(f"{exchange}.agent.holder")
        me.send(message("holder", "note", name=f"last {number}"))
        here.close()
        until(lambda last=f"last {number}": last in holder.begun)
