"""How a space over a broker ends: what has begun ends, what waits is there for the next."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from benchmarks.broker import Broker
from benchmarks.proxy import Proxy

from conformance.conftest import UNHURRIED, Kept, Recorder, message
from conformance.gate import Doer, Holder
from moothall import Agent, AgentNotFound, AMQPOptions, AMQPSpace, SpaceClosed
from spaces.amqp.conftest import WAIT_S, MakeSpace, StartProcess, until
from spaces.amqp.worker import Notes, Worker


def begin_to_close(space: AMQPSpace, me: Agent) -> threading.Thread:
    """Have a space begin to close, as one of its agents tells another's; the thread waits for it.

    A thread that has been started may still be about to call `close`.
    """

    async def close(agent: Agent, _: Any) -> None:
        agent.space.close()  # on the space's own loop it only begins

    space.add(Doer("closer", do=close))
    me.ask("closer", "do").result(timeout=WAIT_S)
    closing = threading.Thread(target=space.close)
    closing.start()
    return closing


def test_amqp_close_ends_running_handlers_and_leaves_queued_messages(make_space: MakeSpace) -> None:
    there, here = make_space(grace=WAIT_S), make_space()
    holder = there.add(Holder("holder"))
    me = here.add(Recorder("me"))
    held = me.ask("holder", "hold", name="begun")
    holder.begun.wait_for(1)
    waits = me.request(message("holder", "note", name="waits"), wait=True)
    me.send({"id": "sent", **message("holder", "note", name="sent")})
    until(lambda: there.statistics()["agents"]["holder"]["waiting"] == 2)
    closing = begin_to_close(there, me)
    me.ask("me", "help").result(timeout=WAIT_S)
    assert closing.is_alive()
    holder.gate("begun").open()
    assert held.result(timeout=WAIT_S) == "begun"
    closing.join(WAIT_S)
    assert not closing.is_alive()
    assert holder.begun == ["begun"]
    assert not waits.done()
    assert me.messages == []
    again = make_space().add(Holder("holder"))
    assert waits.result(timeout=WAIT_S) == "waits"
    assert me.told(1) == [("response", {"data": "sent", "original_message_id": "sent"})]
    assert again.begun == ["waits", "sent"]


class Laned(Holder):
    """Handles what it holds in one lane, and what it notes in another."""

    def find_lane(self, message: dict[str, Any], handling: Any) -> str:
        return str(message["action"]["name"])


@pytest.mark.parametrize("kind", (Holder, Laned))
def test_amqp_close_lets_running_handlers_ask_agents_of_the_space(
    kind: type[Holder], make_space: MakeSpace
) -> None:
    there, here = make_space(grace=WAIT_S), make_space()
    holder, helper = there.add(kind("holder")), there.add(kind("helper"))

    async def ask(agent: Agent, _: Any) -> Any:
        await holder.gate("closing")
        return [await agent.ask("helper", "note", name=name) for name in ("one", "two")]

    there.add(Doer("between", do=ask))
    me = here.add(Agent("me"))
    held, asked = me.ask("holder", "hold", name="begun"), me.ask("between", "do")
    holder.begun.wait_for(1)
    until(lambda: there.statistics()["agents"]["between"]["handling"])
    closing = begin_to_close(there, me)
    waits = me.request(message("holder", "note", name="waits"), wait=True)
    holder.gate("closing").open()
    assert asked.result(timeout=WAIT_S) == ["one", "two"]
    assert not waits.done()
    holder.gate("begun").open()
    assert held.result(timeout=WAIT_S) == "begun"
    closing.join(WAIT_S)
    assert not closing.is_alive()
    assert (holder.begun, helper.begun) == (["begun"], ["one", "two"])


def test_amqp_close_keeps_the_concurrency_limit_of_lanes(
    make_space: MakeSpace,
) -> None:
    class Noting(Holder):
        def find_lane(self, message: dict[str, Any], handling: Any) -> str:
            return str(message["action"]["args"]["name"])

    there, me = make_space(grace=WAIT_S), make_space().add(Agent("me"))
    laned = there.add(Noting("laned", concurrency=1))
    plain = there.add(Holder("plain"))

    async def ask(agent: Agent, _: Any) -> Any:
        await laned.gate("closing")
        second = agent.ask("laned", "note", name="two")
        # Noted only where what is awaited is begun: the lanes before it were looked at.
        for name in ("once", "again"):
            await agent.ask("plain", "note", name=name)
        assert laned.begun == ["one"]
        laned.gate("one").open()
        return await second

    there.add(Doer("between", do=ask))
    held, asked = me.ask("laned", "hold", name="one"), me.ask("between", "do")
    laned.begun.wait_for(1)
    until(lambda: there.statistics()["agents"]["between"]["handling"])
    closing = begin_to_close(there, me)
    laned.gate("closing").open()
    assert asked.result(timeout=WAIT_S) == "two"
    assert held.result(timeout=WAIT_S) == "one"
    closing.join(WAIT_S)
    assert not closing.is_alive()
    assert (laned.begun, plain.begun) == (["one", "two"], ["once", "again"])


def test_amqp_close_lets_running_handlers_ask_an_agent_being_added(make_space: MakeSpace) -> None:
    there, me = make_space(grace=WAIT_S), make_space().add(Agent("me"))
    begins = Kept[str]()

    class Late(Holder):
        async def after_add(self) -> None:
            begins.add("after_add")
            await self.gate("arrived")

    async def ask(agent: Agent, _: Any) -> Any:
        return await agent.ask("late", "note", name="x")

    there.add(Doer("asker", do=ask))
    late = Late("late")
    adding = threading.Thread(target=there.add, args=(late,))
    adding.start()
    begins.wait_for(1)
    asked = me.ask("asker", "do")
    until(lambda: there.statistics()["agents"]["late"]["waiting"])
    closing = begin_to_close(there, me)
    late.gate("arrived").open()
    assert asked.result(timeout=WAIT_S / 2) == "x"
    closing.join(WAIT_S)
    adding.join(WAIT_S)


def test_amqp_close_cancels_handlers_after_the_grace_time(make_space: MakeSpace) -> None:
    there, here = make_space(grace=0.2), make_space()
    holder = there.add(Holder("holder"))
    me = here.add(Recorder("me"))
    held = me.ask("holder", "hold")
    me.send({"id": "s", **message("holder", "note", name="never begun here")})
    holder.begun.wait_for(1)
    began = time.monotonic()
    there.close()
    assert 0.2 <= time.monotonic() - began < 5
    with pytest.raises(SpaceClosed, match="the space was closed"):
        held.result(timeout=WAIT_S)
    assert holder.ended == ["one cancelled"]
    again = make_space().add(Holder("holder"))
    again.begun.wait_for(1)
    assert again.begun == ["never begun here"], "what was cancelled is not begun again"


def test_amqp_close_cancels_requests_to_other_processes(make_space: MakeSpace) -> None:
    holder = make_space().add(Holder("holder"))
    here = make_space()
    asked = here.add(Agent("me")).ask("holder", "hold")
    holder.begun.wait_for(1)
    here.close()
    with pytest.raises(SpaceClosed):
        asked.result(timeout=WAIT_S)
    assert holder.ended.wait_for(1) == ["one cancelled"]


def test_amqp_close_lets_running_handlers_ask_another_process(make_space: MakeSpace) -> None:
    """A running handler may still ask an agent of another process."""
    there, here = make_space(grace=WAIT_S), make_space()
    other = here.add(Holder("other"))
    there.add(Worker("there", Notes("/dev/null")))
    me = here.add(Agent("me"))
    request = me.ask("there", "ask_on", to="other", name="hold", args={"name": "x"})
    other.begun.wait_for(1)
    closing = begin_to_close(there, me)
    other.gate("x").open()
    assert request.result(timeout=WAIT_S) == "x"
    closing.join(WAIT_S)


def test_before_remove_during_amqp_close_may_still_send(make_space: MakeSpace) -> None:
    me = make_space().add(Recorder("me"))

    class Polite(Agent):
        async def before_remove(self) -> None:
            self.send(message("me", "say", content="goodbye"))

    space = make_space()
    space.add(Polite("polite"))
    space.close()
    assert me.told(1) == [("say", {"content": "goodbye"})]


def test_amqp_remove_during_close_returns_or_raises(make_space: MakeSpace) -> None:
    left: Kept[str] = Kept()
    outcomes: Kept[BaseException | None] = Kept()

    class Leaving(Agent):
        async def before_remove(self) -> None:
            left.add(str(self.id))

    space = make_space()
    agents = [space.add(Leaving(f"leaving {number}")) for number in range(20)]

    def remove(agent: Agent) -> None:
        try:
            space.remove(agent)
            outcomes.add(None)
        except BaseException as error:
            outcomes.add(error)

    for agent in agents:
        threading.Thread(target=remove, args=(agent,), daemon=True).start()
    left.wait_for(10)
    space.close()
    kinds = {type(each) for each in outcomes.wait_for(20)}
    assert kinds <= {type(None), AgentNotFound, SpaceClosed}


def test_amqp_close_publishes_messages_sent_just_before(make_space: MakeSpace) -> None:
    there, here = make_space(), make_space()
    listener = there.add(Recorder("listener"))
    me = here.add(Agent("me"))
    for number in range(2000):
        me.send(message("listener", "say", content=str(number)))
    here.close()
    found = listener.told(2000)
    assert [args["content"] for _, args in found] == [str(number) for number in range(2000)]


def test_amqp_close_of_an_unused_space_needs_no_broker() -> None:
    space = AMQPSpace(amqp_options=AMQPOptions("nowhere.invalid"))
    assert space.ids() == []
    space.close()
    space.close()
    with pytest.raises(SpaceClosed):
        space.add(Agent("a"))
    with AMQPSpace() as other:
        assert "0 agents" in repr(other)
    assert "closed" in repr(other)


def test_close_twice_and_in_many_threads(make_space: MakeSpace) -> None:
    space = make_space()
    me = space.add(Agent("me"))
    threads = [threading.Thread(target=space.close) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    space.close()
    with pytest.raises(SpaceClosed):
        space.add(Agent("other"))
    assert not [t for t in threading.enumerate() if t.name == "moothall-AMQPSpace"]
    assert space.ids() == []
    with pytest.raises(RuntimeError):
        me.send(message("me", "help"))


def test_amqp_close_leaves_only_agent_queues_at_the_broker(
    make_space: MakeSpace, broker: Broker, exchange: str
) -> None:
    space = make_space()
    space.observe(print, everywhere=True)
    for id in ("stays", "goes"):
        space.add(Agent(id))
    space.remove("goes")
    space.close()
    assert sorted(name for name in broker.queues() if name.startswith(exchange)) == [
        f"{exchange}.agent.stays",
        f"{exchange}.dead-letters",
    ]


def test_amqp_close_without_connection_reports_lost_messages(
    make_space: MakeSpace, broker: Broker, log: Any
) -> None:
    events: Kept[str] = Kept()
    with Proxy(broker.port) as proxy:
        space = make_space(
            amqp_options=AMQPOptions("127.0.0.1", proxy.port),
            on_connection=lambda what, text: events.add(what),
        )
        me = space.add(Agent("me"))
        proxy.refuse()
        proxy.cut()
        events.wait_for(lambda found: "lost" in found)
        for _ in range(3):
            me.send(message("me", "help"))
        began = time.monotonic()
        space.close()
        assert time.monotonic() - began < 5
    assert "3 messages" in log.wait_for("had confirmed everything")


def test_amqp_close_ends_an_add_waiting_for_the_connection(
    make_space: MakeSpace, broker: Broker
) -> None:
    events: Kept[str] = Kept()
    raised: Kept[BaseException] = Kept()
    with Proxy(broker.port) as proxy:
        space = make_space(
            amqp_options=AMQPOptions("127.0.0.1", proxy.port),
            on_connection=lambda what, text: events.add(what),
        )
        space.add(Agent("first"))
        proxy.refuse()
        proxy.cut()
        events.wait_for(lambda found: "retrying" in found)
        late = Agent("late")

        def add() -> None:
            try:
                space.add(late)
            except BaseException as error:
                raised.add(error)

        adding = threading.Thread(target=add)
        adding.start()
        until(lambda: "late" in space.ids())
        space.close()
        adding.join(WAIT_S)
    assert [type(error) for error in raised] == [SpaceClosed]
    assert make_space().add(late).ask("late", "help").result(timeout=WAIT_S) == {}


def test_amqp_add_while_the_loop_ends_does_not_hang(broker: Broker, exchange: str) -> None:
    """The adding thread is held up between two steps until the loop has ended its work."""
    go_on, over = threading.Event(), threading.Event()
    raised: Kept[BaseException] = Kept()
    kept: Kept[Any] = Kept()

    class Slow(AMQPSpace):
        def _finish_adding(self, mailbox: Any, *, waits: bool) -> None:
            if mailbox.id == "late":
                assert go_on.wait(WAIT_S)
            super()._finish_adding(mailbox, waits=waits)

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
        finally:  # the last that runs, when every task has ended
            go_on.set()
            await asyncio.to_thread(over.wait, 2)

    def begin(_: Any) -> None:
        generator = numbers()
        with pytest.raises(StopIteration):
            anext(generator).__await__().send(None)
        kept.add(generator)

    def add(agent: Agent) -> None:
        try:
            space.add(agent)
        except BaseException as error:
            raised.add(error)
        if agent.id == "late":
            over.set()

    with Proxy(broker.port) as proxy:
        proxy.stall()
        options = AMQPOptions("127.0.0.1", proxy.port)
        space = Slow(amqp_options=options, exchange=exchange, grace=0)
        space.observe(begin)
        agents = [Agent("first"), Agent("late")]
        adding = [threading.Thread(target=add, args=(each,), daemon=True) for each in agents]
        for thread in adding:
            thread.start()
        until(lambda: len(space.ids()) == 2)
        agents[0].send(message("first", "help"))
        kept.wait_for(1)
        space.close()
        for thread in adding:
            thread.join(WAIT_S)
    assert [type(error) for error in raised] == [SpaceClosed, SpaceClosed]


@pytest.mark.parametrize(
    "how",
    (
        "left open",
        pytest.param("closed", marks=pytest.mark.long),
        "in an action",
        pytest.param("without a broker", marks=pytest.mark.long),
    ),
)
def test_amqp_interpreter_exit_prints_nothing(how: str, broker: Broker, exchange: str) -> None:
    program = f"""{UNHURRIED}
import time
from moothall import *
class Busy(Agent):
    @action
    def block(self): time.sleep(60)
    @action
    async def ask_on(self): await self.ask("busy", "block")
port = {1 if how == "without a broker" else broker.port}
space = AMQPSpace(amqp_options=AMQPOptions("127.0.0.1", port), exchange={exchange!r}, grace=0)
try:
    busy, other = space.add(Busy("busy")), space.add(Busy("other"))
    print(busy.ask("other", "help").result(timeout=10) != None)
    if {how!r} == "in an action":
        asked = other.ask("other", "ask_on")
        while not space.statistics()["agents"]["busy"]["handling"]: pass
    if {how!r} == "closed":
        space.close()
except BrokerError:
    print(True)
"""
    done = subprocess.run(
        (sys.executable, "-X", "dev", "-W", "error", "-c", program),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


def test_amqp_interpreter_exit_leaves_queued_messages_to_the_next_process(
    make_space: MakeSpace, start: StartProcess, notes: Notes, waiting: Callable[[str], int]
) -> None:
    process = start()
    process.add("there", holds=True)
    me = make_space().add(Agent("me"))
    held = me.request(message("there", "hold_again", text="held"), wait=True)
    until(lambda: notes.lines() == ["begun held"])
    behind = me.request(message("there", "note", text="behind"), wait=True)
    until(lambda: process.do("busy", id="there")["waiting"] == 1)
    assert process.end() == ""
    start().add("there")
    assert held.result(timeout=WAIT_S) == "held by there"
    assert behind.result(timeout=WAIT_S) == "behind by there"


def test_amqp_quorum_queues_deliver_and_keep_messages_through_close(
    make_space: MakeSpace, broker: Broker, exchange: str
) -> None:
    there, here = make_space(quorum=True), make_space(quorum=True)
    holder = there.add(Holder("there"))
    me = here.add(Recorder("me"))
    assert me.ask("there", "note", name="asked").result(timeout=30) == "asked"
    me.send({"id": "s", **message("there", "note", name="sent")})
    assert me.told(1) == [("response", {"data": "sent", "original_message_id": "s"})]
    kinds = broker.queues("type")
    for queue in ("agent.there", "dead-letters"):
        assert kinds[f"{exchange}.{queue}"] in ("quorum", "rabbit_quorum_queue")
    there.close()
    me.send(message("there", "note", name="waits"))
    request = me.request(message("there", "note", name="waited for"), wait=True)
    again = make_space(quorum=True).add(Holder("there"))
    assert request.result(timeout=30) == "waited for"
    assert (holder.begun, again.begun) == (["asked", "sent"], ["waits", "waited for"])
    here.remove("me")


def test_amqp_agent_without_replication_joins_those_with_it(make_space: MakeSpace) -> None:
    """Whoever made a queue has said what it is; it is used as it is."""
    first = make_space(quorum=True, keep=100)
    first.add(Holder("there"))
    first.close()
    me = make_space().add(Agent("me"))
    make_space(quorum=False, keep=200, mailbox=5).add(Holder("there"))
    assert me.ask("there", "note", name="a").result(timeout=30) == "a"


def test_amqp_inbox_can_be_used_again_after_a_close(make_space: MakeSpace, tmp_path: Path) -> None:
    path = tmp_path / "inbox.db"
    for number in range(3):
        space = make_space(inbox=path)
        me = space.add(Worker("me", Notes("/dev/null")))
        assert me.ask("me", "echo", value=number).result(timeout=WAIT_S) == number
        space.close()


def test_amqp_remove_ends_an_add_waiting_for_the_connection(
    make_space: MakeSpace, broker: Broker
) -> None:
    events: Kept[str] = Kept()
    with Proxy(broker.port) as proxy:
        space = make_space(
            amqp_options=AMQPOptions("127.0.0.1", proxy.port),
            on_connection=lambda what, text: events.add(what),
        )
        me = space.add(Agent("me"))
        proxy.refuse()
        proxy.cut()
        events.wait_for(lambda found: "retrying" in found)
        added: Kept[Agent] = Kept()
        adding = threading.Thread(target=lambda: added.add(space.add(Agent("late"))))
        adding.start()
        until(lambda: "late" in space.ids())
        space.remove("late")
        added.wait_for(1)
        adding.join(WAIT_S)
        assert space.ids() == ["me"]
        proxy.accept()
        events.wait_for(lambda found: "connected" in found[1:])
        with pytest.raises(AgentNotFound):
            me.ask("late", "help").result(timeout=WAIT_S)
