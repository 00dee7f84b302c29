"""Several processes behind one id: each message goes to one of them, and none is lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from benchmarks.proxy import Proxy

from conformance.conftest import Kept, Recorder, message
from moothall import Agent, AgentNotFound, AMQPOptions, DuplicateAgent, RequestCancelled, action
from spaces.amqp.conftest import WAIT_S, Dead, MakeSpace, StartProcess, until
from spaces.amqp.worker import Notes


class Clerk(Agent):
    """Says which of several of one id it is; `hold` ends when it may."""

    def __init__(self, place: str, **kwargs: Any) -> None:
        super().__init__("clerk", **kwargs)
        self.place = place
        self.begun: Kept[int] = Kept()
        self.cancelled = threading.Event()
        self.may_end = threading.Event()

    @action
    async def where(self, n: int = 0) -> str:
        self.begun.add(n)
        return self.place

    @action
    async def hold(self, n: int = 0) -> str:
        self.begun.add(n)
        try:
            while not self.may_end.is_set():  # noqa: ASYNC110 - a thread of the test sets it
                await asyncio.sleep(0.005)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return self.place


def test_amqp_shared_agent_each_message_is_handled_by_one_of_its_processes(
    make_space: MakeSpace,
) -> None:
    clerks = [make_space().add(Clerk(place), shared=True) for place in "abc"]
    me = make_space().add(Agent("me"))
    asked = [me.ask("clerk", "where", n=n) for n in range(60)]
    places = [each.result(WAIT_S) for each in asked]
    assert set(places) == {"a", "b", "c"}
    assert sorted(n for clerk in clerks for n in clerk.begun) == list(range(60))


def test_amqp_shared_agent_what_waits_goes_to_the_process_that_is_free(
    make_space: MakeSpace,
) -> None:
    busy, free = (make_space().add(Clerk(place), shared=True) for place in ("busy", "free"))
    me = make_space().add(Agent("me"))
    held = [me.ask("clerk", "hold") for _ in range(2)]
    busy.begun.wait_for(1)
    free.begun.wait_for(1)
    waiting = [me.ask("clerk", "where") for _ in range(20)]
    free.may_end.set()
    assert [each.result(WAIT_S) for each in waiting] == ["free"] * 20
    busy.may_end.set()
    assert {each.result(WAIT_S) for each in held} == {"busy", "free"}


def test_amqp_shared_agent_answers_of_a_send_come_as_ever(make_space: MakeSpace) -> None:
    for place in "ab":
        make_space().add(Clerk(place), shared=True)
    me = make_space().add(Recorder("me"))
    for n in range(20):
        me.send({"id": str(n), **message("clerk", "where", n=n)})
    told = me.told(20)
    assert {args["original_message_id"] for _, args in told} == {str(n) for n in range(20)}


def test_amqp_shared_agent_its_id_is_no_other_agents(make_space: MakeSpace) -> None:
    make_space().add(Clerk("a"), shared=True)
    with pytest.raises(DuplicateAgent, match="shared=True"):
        make_space().add(Clerk("alone"))
    make_space().add(Agent("alone"))
    with pytest.raises(DuplicateAgent, match="shared=True"):
        make_space().add(Agent("alone"), shared=True)


def test_amqp_shared_agent_is_there_until_the_last_process_has_left(make_space: MakeSpace) -> None:
    one, two, other = make_space(), make_space(), make_space()
    one.add(Clerk("one"), shared=True)
    two.add(Clerk("two"), shared=True)
    me = other.add(Recorder("me"))
    found = other.statistics(everywhere=True)["agents"]
    assert (found["clerk"]["processes"], found["me"]["processes"]) == (2, 1)
    one.remove("clerk")
    assert {me.ask("clerk", "where").result(WAIT_S) for _ in range(6)} == {"two"}
    assert other.statistics(everywhere=True)["agents"]["clerk"]["processes"] == 1
    two.close()
    with pytest.raises(AgentNotFound, match="no process serves"):
        me.ask("clerk", "where").result(WAIT_S)
    me.send(message("clerk", "where"))  # which waits for the next one
    one.add(Clerk("back"), shared=True)
    assert me.told() == [("response", {"data": "back", "original_message_id": None})]


@pytest.mark.parametrize("drain", (False, True))
def test_amqp_shared_agent_removed_in_one_process_leaves_what_waits_to_the_others(
    drain: bool, make_space: MakeSpace
) -> None:
    space, other = make_space(prefetch=10), make_space()
    leaver = space.add(Clerk("leaver"), shared=True)
    me = other.add(Agent("me"))
    held = me.ask("clerk", "hold")
    leaver.begun.wait_for(1)
    waiting = [me.ask("clerk", "where", n=n) for n in range(30)]
    until(lambda: space.statistics()["agents"]["clerk"]["waiting"] == 9)
    make_space().add(Clerk("other"), shared=True)
    assert waiting[-1].result(WAIT_S) == "other"
    leaver.may_end.set() if drain else None
    space.remove("clerk", drain=drain)
    places = [each.result(WAIT_S) for each in waiting]
    assert places == (["leaver"] * 9 + ["other"] * 21 if drain else ["other"] * 30)
    assert not drain or held.result(WAIT_S) == "leaver"


def test_amqp_shared_agent_a_closing_process_gives_back_what_it_has_not_started(
    make_space: MakeSpace,
) -> None:
    space, other = make_space(prefetch=10, grace=30), make_space()
    leaver = space.add(Clerk("leaver"), shared=True)
    me = other.add(Agent("me"))
    held = me.ask("clerk", "hold")
    leaver.begun.wait_for(1)
    waiting = [me.ask("clerk", "where", n=n) for n in range(9)]
    until(lambda: space.statistics()["agents"]["clerk"]["waiting"] == 9)
    other.add(Clerk("other"), shared=True)
    closing = threading.Thread(target=space.close)
    closing.start()
    assert [each.result(WAIT_S) for each in waiting] == ["other"] * 9
    leaver.may_end.set()
    assert held.result(WAIT_S) == "leaver"
    closing.join(WAIT_S)


def test_amqp_shared_agent_a_cancelled_request_ends_in_the_process_that_handles_it(
    make_space: MakeSpace,
) -> None:
    clerks = [make_space().add(Clerk(place), shared=True) for place in "abc"]
    me = make_space().add(Agent("me"))
    asked = [me.ask("clerk", "hold", n=n) for n in range(3)]
    for clerk in clerks:
        clerk.begun.wait_for(1)
    asked[1].cancel()
    (cancelled,) = [clerk for clerk in clerks if list(clerk.begun) == [1]]
    # Another process may take the cancellation from their queue.
    for clerk in clerks:
        clerk.may_end.set() if clerk is not cancelled else None
    assert cancelled.cancelled.wait(WAIT_S)
    with pytest.raises(RequestCancelled):
        asked[1].result(WAIT_S)


def test_amqp_shared_agent_that_loses_its_connection_runs_its_message_once(
    make_space: MakeSpace, proxy: Proxy, events: Kept[str]
) -> None:
    options = AMQPOptions("127.0.0.1", proxy.port)
    cut = make_space(amqp_options=options, on_connection=lambda what, _: events.add(what))
    clerk = cut.add(Clerk("cut"), shared=True)
    me = make_space().add(Agent("me"))
    held = me.request(message("clerk", "hold"), wait=True)
    clerk.begun.wait_for(1)
    proxy.cut()
    events.wait_for(lambda found: found.count("connected") == 2)
    until(lambda: cut.statistics(everywhere=True)["agents"]["clerk"]["processes"] == 1)
    clerk.may_end.set()
    assert held.result(WAIT_S) == "cut"
    assert me.ask("clerk", "where").result(WAIT_S) == "cut"
    assert list(clerk.begun) == [0, 0]


# -- processes that die ----------------------------------------------------------------------------


@pytest.mark.parametrize("inbox", (False, True))
def test_amqp_shared_agent_what_a_killed_process_had_not_started_is_handled_by_another(
    inbox: bool, make_space: MakeSpace, start: StartProcess, notes: Notes, tmp_path: Path
) -> None:
    options = {"inbox": str(tmp_path / "inbox.db")} if inbox else {}
    first = start(prefetch=10, **options)
    first.add("there", shared=True, holds=True)
    me = make_space().add(Recorder("me"))
    me.send(message("there", "hold_again", text="held"))
    until(lambda: notes.lines() == ["begun held"])
    for n in range(9):
        me.send(message("there", "note", text=str(n)))
    until(lambda: first.do("busy", id="there")["waiting"] == 9)
    second = start()
    second.add("there", shared=True)
    first.kill()
    me.wait_for(10)
    done = [f"done {n}" for n in range(9)]
    assert sorted(notes.lines()) == sorted(["begun held", "begun held", "done held", *done])


def test_amqp_shared_agent_with_inboxes_what_a_killed_process_had_started_is_in_doubt(
    make_space: MakeSpace, start: StartProcess, notes: Notes, dead: Dead, tmp_path: Path
) -> None:
    first = start(inbox=str(tmp_path / "first.db"))
    first.add("there", shared=True, holds=True)
    me = make_space().add(Recorder("me"))
    me.send({"id": "once", **message("there", "hold", text="once")})
    until(lambda: notes.lines() == ["begun once"])
    second = start(inbox=str(tmp_path / "second.db"))
    second.add("there", shared=True)
    first.kill()
    assert me.ask("there", "note", text="next").result(WAIT_S) == "next by there"
    assert notes.lines() == ["begun once", "done next"]  # the other process does not run it
    first = start(inbox=str(tmp_path / "first.db"))
    first.add("there", shared=True)
    ((kind, told),) = me.told()
    assert (kind, told["original_message_id"]) == ("error", "once")
    assert told["error"].startswith('InDoubt: in doubt: "there.hold" was running')
    assert "in doubt" in dead.next()[0].headers["reason"]
    assert notes.lines() == ["begun once", "done next"]


def test_amqp_shared_agent_a_message_that_kills_its_processes_becomes_a_dead_letter(
    make_space: MakeSpace, start: StartProcess, notes: Notes, dead: Dead
) -> None:
    processes = [start(deliveries=3) for _ in range(3)]
    for process in processes:
        process.add("there", shared=True, holds=True)
    me = make_space().add(Recorder("me"))
    me.send({"id": "poison", **message("there", "hold", text="poison")})
    alive = processes[:]
    for deaths in range(1, 4):
        until(lambda deaths=deaths: notes.lines() == ["begun poison"] * deaths)
        (killer,) = [each for each in alive if each.do("busy", id="there")["handling"]]
        alive.remove(killer)
        killer.kill()
    last = start(deliveries=3)
    last.add("there", shared=True)
    ((kind, told),) = me.told()
    assert (kind, told["original_message_id"]) == ("error", "poison")
    assert '"there.hold" was started 3 times, and its process ended' in told["error"]
    assert "was started 3 times" in dead.next()[0].headers["reason"]
    assert notes.lines() == ["begun poison"] * 3


def test_amqp_shared_agent_alone_keeps_the_order_of_messages(
    make_space: MakeSpace, waiting: Callable[[str], int]
) -> None:
    clerk = make_space().add(Clerk("alone"), shared=True)
    me = make_space().add(Recorder("me"))
    for n in range(50):
        me.send(message("clerk", "where", n=n))
    me.wait_for(50)
    assert list(clerk.begun) == list(range(50))
    assert waiting("clerk") == 0
