"""What is on its way while a queue is lost, an agent leaves or a request is given up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from benchmarks.proxy import Proxy
from pika.adapters.blocking_connection import BlockingChannel

from conformance.conftest import Kept, message
from conformance.gate import Gate, Holder
from moothall import (
    ACCESS_REQUESTED,
    Agent,
    AgentNotFound,
    AgentStopped,
    AMQPOptions,
    AMQPSpace,
    ApprovalRequest,
    RequestCancelled,
    action,
)
from spaces.amqp.conftest import WAIT_S, MakeSpace, until

Waiting = Callable[[str], int]
MEGABYTE = 2**20


@pytest.fixture
def slow(make_space: MakeSpace, proxy: Proxy, events: Kept[str]) -> AMQPSpace:
    """A space over that network, whose agents have not much room."""
    return make_space(
        amqp_options=AMQPOptions("127.0.0.1", proxy.port),
        mailbox=400,
        on_connection=lambda what, _: events.add(what),
    )


def test_amqp_queue_deletion_noticed_late_runs_each_request_once(
    make_space: MakeSpace,
    slow: AMQPSpace,
    proxy: Proxy,
    channel: BlockingChannel,
    exchange: str,
    waiting: Waiting,
) -> None:
    holder = slow.add(Holder("holder"))
    me = make_space().add(Agent("me"))

    def ask(first: int, end: int) -> list[Any]:
        # Of a size of which no read brings more than there is room for.
        return [me.ask("holder", "note", name=f"{n:02000}") for n in range(first, end)]

    asked = ask(0, 1)
    assert int(asked[0].result(timeout=WAIT_S)) == 0
    proxy.stall()
    # Some are on their way, and some wait in the queue; others come when it is gone.
    asked += ask(1, 550)
    until(lambda: waiting("holder") > 10)
    channel.queue_delete(f"{exchange}.agent.holder")
    asked += ask(550, 600)
    proxy.resume()
    assert [int(request.result(timeout=WAIT_S)) for request in asked] == list(range(600))
    assert sorted(map(int, holder.begun)) == list(range(600))


def test_amqp_remove_ends_every_request_with_large_messages_in_transit(
    make_space: MakeSpace, waiting: Waiting
) -> None:
    there = make_space()
    me = make_space().add(Agent("me"))
    for _ in range(10):
        holder = there.add(Holder("holder"))
        asked = [me.ask("holder", "hold", name="first")]
        holder.begun.wait_for(1)
        asked += [me.ask("holder", "note", name="x" * MEGABYTE) for _ in range(20)]
        until(lambda: waiting("holder") == 0)
        there.remove("holder")
        for request in asked:
            with pytest.raises((AgentStopped, AgentNotFound), match="holder"):
                request.result(timeout=WAIT_S)
        assert holder.begun == ["first"]


def test_amqp_remove_without_connection_keeps_messages_for_the_next_agent(
    make_space: MakeSpace,
    slow: AMQPSpace,
    proxy: Proxy,
    events: Kept[str],
    waiting: Waiting,
) -> None:
    holder = slow.add(Holder("holder"))
    me = make_space().add(Agent("me"))
    held = me.request(message("holder", "hold"), wait=True)
    holder.begun.wait_for(1)
    proxy.refuse()
    proxy.cut()
    events.wait_for(lambda found: "lost" in found)
    waits = me.request(message("holder", "note", name="waits"), wait=True)
    slow.remove("holder")
    until(lambda: waiting("holder") == 2)
    proxy.accept()
    with pytest.raises(AgentStopped, match="holder"):
        held.result(timeout=WAIT_S)
    assert not waits.done()
    again = slow.add(Holder("holder"))
    assert waits.result(timeout=WAIT_S) == "waits"
    assert (holder.begun, again.begun) == (["one"], ["waits"])


def test_amqp_add_begins_after_two_seconds_of_slow_delivery(
    make_space: MakeSpace, slow: AMQPSpace, proxy: Proxy, waiting: Waiting
) -> None:
    before, me = make_space(), make_space().add(Agent("me"))
    before.add(Careful())
    me.ask("careful", "note", path="before").result(timeout=WAIT_S)
    before.close()
    texts = [str(number) for number in range(20)]
    for text in texts:
        me.send(message("careful", "note", path=text + " " * MEGABYTE))
    until(lambda: waiting("careful") == len(texts))
    careful = slow.add(Careful())
    until(lambda: proxy.received > MEGABYTE)
    proxy.stall()
    assert careful.done.wait_for(1)[0].strip() == "0"
    assert len(careful.done) < len(texts)
    proxy.resume()
    assert [path.strip() for path in careful.done.wait_for(len(texts))] == texts


class Approver:
    """Lets through what a test says, when it says it."""

    def __init__(self) -> None:
        self.asked: Kept[str] = Kept()
        self.gate = Gate()

    async def approve(self, request: ApprovalRequest) -> bool:
        self.asked.add(request.action)
        await self.gate
        return True


class Careful(Agent):
    """Asks before it acts."""

    def __init__(self) -> None:
        super().__init__("careful")
        self.done: Kept[str] = Kept()

    @action(access_policy=ACCESS_REQUESTED)
    async def erase(self, path: str) -> None:
        self.done.add(path)

    @action
    async def note(self, path: str) -> None:
        self.done.add(path)


def test_amqp_cancelled_request_of_the_same_process_never_begins(
    make_space: MakeSpace, proxy: Proxy
) -> None:
    approver = Approver()
    space = make_space(amqp_options=AMQPOptions("127.0.0.1", proxy.port), approver=approver)
    careful, me = space.add(Careful()), space.add(Agent("me"))
    request = me.ask("careful", "erase", path="late")
    approver.asked.wait_for(1)
    proxy.stall()
    request.cancel()
    with pytest.raises(RequestCancelled):
        request.result(timeout=WAIT_S)
    approver.gate.open()
    proxy.resume()
    me.ask("careful", "note", path="after").result(timeout=WAIT_S)
    assert list(careful.done) == ["after"]
