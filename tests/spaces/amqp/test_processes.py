"""Agents of two spaces of one exchange, and of two processes: everything goes by id."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from conformance.conftest import Kept, Listener, Recorder, message, waits
from conformance.gate import Doer, Holder
from moothall import (
    ActionError,
    Agent,
    AgentNotFound,
    AgentStopped,
    DuplicateAgent,
    OpenAIFunctionAgent,
    ReActAgent,
    RequestCancelled,
    RequestTimeout,
    ScriptedModel,
    SpaceClosed,
    action,
)
from spaces.amqp.conftest import WAIT_S, MakeSpace, StartProcess, until
from spaces.amqp.worker import Notes, Worker


def test_messages_between_processes_go_by_id(make_space: MakeSpace, start: Any) -> None:
    process = start()
    process.add("there")
    space = make_space()
    here = space.add(Recorder("here"))
    assert here.ask("there", "note", text="a").result(timeout=WAIT_S) == "a by there"
    here.send({"id": "one", **message("there", "echo", value={"deep": [1, None, "ü"]})})
    ((name, args),) = here.told(1)
    assert (name, args["data"], args["original_message_id"]) == (
        "response",
        {"deep": [1, None, "ü"]},
        "one",
    )
    here.send({"id": "two", **message("there", "fail")})
    assert here.told(2)[1] == (
        "error",
        {"error": "ValueError: in vain", "original_message_id": "two"},
    )
    said = here.ask("there", "ask_on", to="here", name="help", args={}).result(timeout=WAIT_S)
    assert list(said) == ["say"]
    described = here.ask("there", "help").result(timeout=WAIT_S)
    assert described["note"]["args"]["text"]["type"] == "string"
    assert space.ids() == ["here"]


def test_amqp_all_ids_names_each_agent_of_all_processes_once(make_space: MakeSpace) -> None:
    here, there, without_agents = make_space(), make_space(), make_space()
    here.add(Agent("here"))
    there.add(Agent("there"))
    assert asyncio.run(here.all_ids()) == ["here", "there"]
    assert asyncio.run(without_agents.all_ids()) == ["here", "there"]


@pytest.mark.parametrize("by", ("name", "class"))
def test_amqp_discovered_actions_of_another_process_are_callable_by_the_model(
    make_space: MakeSpace, start: Any, by: str
) -> None:
    process = start()
    process.add("there")
    make_space().add(Recorder("elsewhere"))
    script = ScriptedModel([{"name": "there_note", "args": {"text": "a"}}, "Noted."])
    finder: Agent = ReActAgent("finder", script, discover="*")
    if by == "class":
        finder = OpenAIFunctionAgent("finder", model=script)
    space = make_space()
    space.add(finder)
    me = space.add(Agent("me"))
    assert me.ask("finder", "say", content="Note a.").result(timeout=WAIT_S) == "Noted."
    assert script.received[1][-1]["content"] == "a by there"


def test_amqp_add_refuses_id_of_an_agent_in_another_process(
    make_space: MakeSpace, start: Any
) -> None:
    process = start()
    process.add("one")
    here = make_space()
    me = here.add(Agent("me"))
    for _ in range(3):
        with pytest.raises(DuplicateAgent, match="'one' is in another process") as caught:
            here.add(Worker("one", Notes("/dev/null")))
        assert isinstance(caught.value, ValueError)
    assert here.ids() == ["me"]
    assert me.ask("one", "note", text="a").result(timeout=WAIT_S) == "a by one"
    with pytest.raises(RuntimeError, match="DuplicateAgent"):
        process.add("me")
    assert me.ask("me", "help").result(timeout=WAIT_S) == {}


@pytest.mark.parametrize("how", ("remove", "close", "kill", "end"))
def test_amqp_id_of_a_process_that_left_is_free_at_once(
    how: str, make_space: MakeSpace, start: StartProcess
) -> None:
    process = start()
    process.add("one")
    space = make_space()
    me = space.add(Agent("me"))
    assert me.ask("one", "echo", value=1).result(timeout=WAIT_S) == 1
    if how == "remove":
        process.do("remove", id="one")
    elif how == "close":
        process.do("close")
    elif how == "kill":
        process.kill()
    else:
        process.end()

    def taken() -> bool:
        try:
            space.add(Holder("one"))
        except DuplicateAgent:
            return False
        return True

    until(taken)  # a moment, in which the broker sees that the other is gone
    assert me.ask("one", "note", name="new").result(timeout=WAIT_S) == "new"


def test_amqp_add_of_one_id_in_several_spaces_succeeds_in_one(make_space: MakeSpace) -> None:
    spaces = [make_space() for _ in range(4)]
    for number, space in enumerate(spaces):
        space.add(Agent(f"me {number}"))
    for round in range(10):
        won: Kept[int] = Kept()
        lost: Kept[str] = Kept()
        line = threading.Barrier(len(spaces))

        def claim(number: int, id: str, line: threading.Barrier, won: Any, lost: Any) -> None:
            line.wait(WAIT_S)
            try:
                spaces[number].add(Holder(id))
                won.add(number)
            except DuplicateAgent as error:
                lost.add(str(error))

        threads = [
            threading.Thread(target=claim, args=(n, f"one {round}", line, won, lost))
            for n in range(len(spaces))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_S)
        assert (len(won), len(lost)) == (1, 3)
        asker = Agent(f"asker {round}")
        assert spaces[0].add(asker).ask(f"one {round}", "note", name="a").result(timeout=WAIT_S)


def test_amqp_exchanges_are_isolated(make_space: MakeSpace) -> None:
    here = make_space()
    there = make_space(exchange=f"test.{uuid4().hex}")
    heard: list[Any] = []
    there.observe(heard.append, everywhere=True)
    there.observe(heard.append)
    one, other = here.add(Recorder("one")), there.add(Recorder("two"))
    there.add(Recorder("one"))  # an id is unique in its exchange only
    with pytest.raises(AgentNotFound):
        one.ask("two", "help").result(timeout=WAIT_S)
    one.send(message("two", "say", content="not heard"))
    one.send(message("*", "say", content="not heard"))
    assert one.told(1) == [("say", {"content": "not heard"})]
    assert heard == []
    assert other.messages == []


def test_amqp_action_sending_by_another_exchange_is_answered_by_its_own(
    make_space: MakeSpace,
) -> None:
    here, there = make_space(), make_space(exchange=f"test.{uuid4().hex}")
    out, far = there.add(Recorder("out")), there.add(Recorder("far"))

    class Bridge(Agent):
        @action
        async def forward(self, number: int) -> int:
            out.send(message("far", "say", content=str(number)))
            return number

    here.add(Bridge("bridge"))
    me = make_space().add(Recorder("me"))
    for number in range(20):
        assert me.ask("bridge", "forward", number=number).result(timeout=WAIT_S) == number
        me.send(message("bridge", "forward", number=number))
    assert [m["action"]["args"]["data"] for m in me.wait_for(20)] == list(range(20))
    assert len(far.wait_for(40)) == 40


def test_amqp_broadcast_reaches_each_process_once(make_space: MakeSpace, start: Any) -> None:
    processes = [start(), start()]
    for number, process in enumerate(processes):
        process.tell("add", id=f"worker {number}")
        process.heard()
    space = make_space()
    me = space.add(Recorder("me"))
    quiet = space.add(Recorder("quiet", receive_own_broadcasts=False))
    other = make_space().add(Recorder("other"))
    me.send({"id": "b", **message("*", "echo", value="to all")})
    told = me.wait_for(2)
    assert {each["from"] for each in told} == {"worker 0", "worker 1"}
    me.send(message("*", "say", content="own"))
    quiet.send(message("*", "say", content="not mine"))
    for each in (me, other):
        each.wait_for(lambda found: sum(m["action"]["name"] == "say" for m in found) == 2)
    for each in (me, quiet, other):
        me.ask(each.id, "help").result(timeout=WAIT_S)
        quiet.ask(each.id, "help").result(timeout=WAIT_S)
    assert len(me.messages) == 4  # two answers, its own, the other's
    assert [m["action"]["args"]["content"] for m in quiet.messages] == ["own"]
    assert len(other.messages) == 2


def test_order_holds_for_each_sender(make_space: MakeSpace, start: Any, notes: Notes) -> None:
    process = start()
    process.add("there")
    space = make_space()
    senders = [space.add(Agent(f"s{n}")) for n in range(3)]
    many = 300
    for number in range(many):
        for sender in senders:
            sender.send(message("there", "note", text=f"{sender.id} {number}"))
    for sender in senders:
        sender.ask("there", "echo").result(timeout=WAIT_S)
    lines = notes.lines()
    for sender in senders:
        mine = [line for line in lines if line.startswith(f"done {sender.id} ")]
        assert mine == [f"done {sender.id} {number}" for number in range(many)]


def test_amqp_chain_comes_back_through_another_process(make_space: MakeSpace, start: Any) -> None:
    """A asks B asks A: A waits for B meanwhile, and lets it in."""
    process = start()
    process.add("b")
    space = make_space()
    space.add(Worker("a", Notes("/dev/null")))
    me = space.add(Agent("me"))
    assert me.ask("a", "hop", to=["b", "a"], left=10).result(timeout=WAIT_S) == 10
    # The asking itself is the first of 32.
    assert me.ask("a", "hop", to=["b", "a"], left=31).result(timeout=WAIT_S) == 31
    with pytest.raises(ActionError, match="32 are the limit") as caught:
        me.ask("a", "hop", to=["b", "a"], left=32).result(timeout=WAIT_S)
    assert caught.value.type == "HopLimitExceeded"


def test_amqp_message_outside_the_call_chain_waits_in_the_mailbox(make_space: MakeSpace) -> None:
    here, there = make_space(), make_space()
    order: Kept[str] = Kept()

    async def ask(agent: Agent, value: Any) -> None:
        order.add(f"{agent.id} begins {value}")
        if value == "outer":
            await agent.ask("b", "do", value="inner")
        order.add(f"{agent.id} ends {value}")

    async def back(agent: Agent, value: Any) -> None:
        agent.send(message("a", "do", value="sent"))  # begins a chain of its own
        await agent.ask("a", "do", value=value)

    here.add(Doer("a", do=ask))
    there.add(Doer("b", do=back))
    me = here.add(Agent("me"))
    me.ask("a", "do", value="outer").result(timeout=WAIT_S)
    order.wait_for(6)
    assert order == [
        "a begins outer",
        "a begins inner",
        "a ends inner",
        "a ends outer",
        "a begins sent",
        "a ends sent",
    ]


def test_amqp_request_timeout_cancels_the_action_in_another_process(make_space: MakeSpace) -> None:
    holder = make_space().add(Holder("holder"))
    me = make_space().add(Agent("me"))
    for seconds in (0.25, 1, 4, 16):  # it may be over before the other process has read it
        with pytest.raises(RequestTimeout, match=f"{seconds} s"):
            me.request(message("holder", "hold"), timeout=seconds).result(timeout=2 * WAIT_S)
        if holder.begun:
            break
    assert set(holder.ended.wait_for(1)) == {"one cancelled"}


def test_amqp_cancelled_request_ends_in_another_process(make_space: MakeSpace) -> None:
    """What waits never begins, what is async is cancelled, what is plain runs on."""
    there, here = make_space(), make_space()
    holder = there.add(Holder("holder"))
    me = here.add(Agent("me"))
    running = me.ask("holder", "hold")
    holder.begun.wait_for(1)
    queued = me.ask("holder", "note", name="queued")
    late = me.request(message("holder", "note", name="late"), timeout=0.1)
    queued.cancel()
    with pytest.raises(RequestTimeout):
        late.result(timeout=WAIT_S)
    del running
    assert holder.ended.wait_for(1) == ["one cancelled"]
    assert me.ask("holder", "note", name="next").result(timeout=WAIT_S) == "next"
    assert holder.begun == ["one", "next"]
    with pytest.raises(RequestCancelled):
        queued.result(timeout=WAIT_S)

    plain = me.ask("holder", "hold_plainly", name="plain")
    holder.begun.wait_for(3)
    plain.cancel()
    with pytest.raises(RequestCancelled):
        plain.result(timeout=WAIT_S)
    behind = me.ask("holder", "note", name="behind")
    assert there.statistics()["agents"]["holder"]["handling"] == ["hold_plainly"]
    holder.gate("plain").open()
    assert behind.result(timeout=WAIT_S) == "behind"
    assert "plain done" in holder.ended


def test_amqp_cancelled_action_cancels_requests_it_made(make_space: MakeSpace) -> None:
    one, two, three = make_space(), make_space(), make_space()
    holder = three.add(Holder("holder"))

    async def ask(agent: Agent, _: Any) -> Any:
        return await agent.ask("holder", "hold")

    two.add(Doer("between", do=ask))
    me = one.add(Agent("me"))
    request = me.ask("between", "do")
    holder.begun.wait_for(1)
    request.cancel()
    assert holder.ended.wait_for(1) == ["one cancelled"]


def test_amqp_remove_or_close_ends_requests_to_the_agent(make_space: MakeSpace) -> None:
    there, here = make_space(), make_space()
    holder = there.add(Holder("holder"))
    me = here.add(Agent("me"))
    held, queued = me.ask("holder", "hold"), me.ask("holder", "note", name="queued")
    holder.begun.wait_for(1)
    assert waits(there, "holder", 1)  # sent too late, it would be to nobody
    there.remove("holder")
    for request in (held, queued):
        with pytest.raises(AgentStopped, match='"holder" was removed'):
            request.result(timeout=WAIT_S)
    with pytest.raises(AgentNotFound, match='no agent "holder"'):
        me.ask("holder", "note", name="gone").result(timeout=WAIT_S)
    again = there.add(Holder("holder"))
    held = me.ask("holder", "hold")
    again.begun.wait_for(1)
    there.close()
    with pytest.raises(SpaceClosed):
        held.result(timeout=WAIT_S)


def test_amqp_dropped_requests_leak_nothing_in_either_process(make_space: MakeSpace) -> None:
    there, here = make_space(), make_space()
    holder = there.add(Holder("holder"))
    listener = there.add(Listener("other"))
    me = here.add(Agent("me"))
    for _ in range(2):
        held = me.ask("holder", "hold")
        until(lambda: len(holder.begun) > len(holder.ended))
        for _ in range(500):
            me.ask("holder", "note", name="dropped")
        me.ask("other", "help").result(timeout=WAIT_S)
        until(lambda: there.statistics()["agents"]["holder"]["waiting"] == 0)
        until(lambda: here.statistics()["deadlines"] <= 1)
        until(lambda: there.statistics()["deadlines"] <= 1)
        del held
        until(lambda: there.statistics()["deadlines"] == 0 == here.statistics()["deadlines"])
    for _ in range(500):
        me.ask("holder", "hold")
    assert me.ask("holder", "note", name="after").result(timeout=WAIT_S) == "after"
    until(lambda: here.statistics()["deadlines"] == 0 == there.statistics()["deadlines"])
    idle = {"waiting": 0, "handling": [], "asking": 0}
    until(lambda: there.statistics()["agents"]["holder"] == idle)
    assert "dropped" not in holder.begun
    assert listener.messages == []


def test_amqp_blocking_action_delays_no_other_agent(
    make_space: MakeSpace, start: StartProcess, tmp_path: Path
) -> None:
    process = start()
    process.add("plain")
    process.add("other")
    me = make_space().add(Agent("me"))
    done = tmp_path / "done"
    blocked = me.ask("plain", "block", text="a", path=str(done))
    assert me.ask("other", "echo", value=1).result(timeout=WAIT_S) == 1
    done.touch()
    assert blocked.result(timeout=WAIT_S) == "a"


class Late(Agent):
    """Adds another to the space while it is asked, and asks it."""

    def __init__(self, id: str, space: Any) -> None:
        super().__init__(id)
        self.home = space

    @action
    async def bring(self, id: str) -> str:
        self.home.add(Holder(id))
        found: str = await self.ask(id, "note", name="came")
        if id in self.home.ids():
            self.home.remove(id)
        return found


def test_amqp_agent_added_by_an_action_receives_its_next_message(
    make_space: MakeSpace,
) -> None:
    here = make_space()
    here.add(Late("late", here))
    me = make_space().add(Agent("me"))
    for number in range(20):
        assert me.ask("late", "bring", id=f"new {number}").result(timeout=WAIT_S) == "came"
    assert me.ask("late", "bring", id="new 1").result(timeout=WAIT_S) == "came"


def test_amqp_action_adding_an_id_of_another_process_is_refused(
    make_space: MakeSpace, log: Any
) -> None:
    here, there = make_space(), make_space()
    other = there.add(Holder("taken"))
    late = here.add(Late("late", here))
    assert late.ask("late", "bring", id="mine").result(timeout=WAIT_S) == "came"
    me = there.add(Agent("me"))
    asked = me.ask("late", "bring", id="taken")
    assert asked.result(timeout=WAIT_S) == "came"
    assert "agent 'taken' could not be added" in log.wait_for("could not be added")
    assert other.begun == ["came"]


def test_amqp_request_is_awaitable_on_the_callers_event_loop(make_space: MakeSpace) -> None:
    there, here = make_space(), make_space()
    there.add(Holder("holder"))
    me = here.add(Agent("me"))

    async def ask() -> Any:
        return await asyncio.gather(*(me.ask("holder", "note", name=str(n)) for n in range(20)))

    assert asyncio.run(ask()) == [str(n) for n in range(20)]
