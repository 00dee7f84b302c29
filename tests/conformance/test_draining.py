"""A space or an agent that handles what waits before it ends, and says what it leaves."""

import threading
from typing import Any

import pytest

from conformance.conftest import WAIT_S, Log, Recorder, message
from conformance.gate import Doer, Holder
from moothall import Agent, action
from moothall.foundation.errors import DuplicateAgent


def test_idle_returns_once_every_message_and_its_consequences_are_handled(space: Any) -> None:
    async def pass_on(agent: Any, value: int) -> None:
        if value:
            agent.send(message(agent.id, "do", value=value - 1))

    doer = space.add(Doer("doer", pass_on))
    recorder = space.add(Recorder("recorder"))
    me = space.add(Agent("me"))
    for _ in range(10):
        me.send(message("doer", "do", value=20))
    doer.send(message("recorder", "say", content="last"))
    space.idle(timeout=WAIT_S)
    assert len(recorder.messages) == 1
    assert space.statistics()["agents"]["doer"] == {"waiting": 0, "handling": [], "asking": 0}


class Sender(Recorder):
    """Sends messages in an action of its own, which hold up their answers."""

    @action
    async def go(self, to: str, count: int) -> None:
        for number in range(count):
            self.send(message(to, "echo", value=number))


def test_idle_waits_for_answers_that_wait_for_room_in_a_mailbox(make_space: Any) -> None:
    space = make_space(mailbox=20)
    space.add(Doer("doer"))
    sender = space.add(Sender("sender"))
    me = space.add(Agent("me"))
    me.ask("sender", "go", to="doer", count=200).result(timeout=WAIT_S)
    space.idle(timeout=WAIT_S)
    assert len(sender.messages) == 200


def test_idle_names_the_agents_that_are_not(space: Any) -> None:
    holder = space.add(Holder("holder"))
    me = space.add(Agent("me"))
    held = [me.ask("holder", "hold", name=name) for name in "ab"]
    holder.begun.wait_for(1)
    with pytest.raises(TimeoutError, match=r"not idle: .*'holder' [12]"):
        space.idle(timeout=0.05)
    for name in "ab":
        holder.gate(name).open()
    assert [each.result(timeout=WAIT_S) for each in held] == ["a", "b"]
    space.idle(timeout=WAIT_S)


def test_drain_handles_what_waits_and_closes_the_space(space: Any) -> None:
    holder = space.add(Holder("holder"))
    me = space.add(Agent("me"))
    for n in range(50):
        me.send(message("holder", "note", name=str(n)))
    assert space.drain(timeout=WAIT_S) == 0
    assert holder.ended == [f"{n} done" for n in range(50)]
    assert space.ids() == []
    assert space.drain() == 0


def test_drain_counts_what_is_left_after_its_time(space: Any) -> None:
    holder = space.add(Holder("holder"))
    me = space.add(Agent("me"))
    for name in ("one", "two", "three"):
        me.send(message("holder", "hold", name=name))
    holder.begun.wait_for(1)
    assert space.drain(timeout=0.05) == 3
    assert holder.begun == ["one"]


def test_remove_with_drain_handles_what_waits(space: Any) -> None:
    holder = space.add(Holder("holder"))
    me = space.add(Recorder("me"))
    for name in ("one", "two"):
        me.send(message("holder", "hold", name=name))
    holder.begun.wait_for(1)
    leaving = threading.Thread(target=space.remove, args=("holder",), kwargs={"drain": True})
    leaving.start()
    for name in ("one", "two"):
        holder.gate(name).open()
    leaving.join(WAIT_S)
    assert holder.ended == ["one done", "two done"]
    assert me.told(2) == [
        ("response", {"data": name, "original_message_id": None}) for name in ("one", "two")
    ]
    assert space.ids() == ["me"]


async def test_add_and_remove_are_awaited_on_a_loop_of_the_callers_own(space: Any) -> None:
    seen: list[Any] = []
    await space.aobserve(lambda each: seen.append(each["action"]["name"]))
    doer = await space.aadd(Doer("doer"))
    with pytest.raises(DuplicateAgent):
        await space.aadd(Doer("doer"))
    me = await space.aadd(Agent("me"))
    assert await me.ask("doer", "echo", value=1) == 1
    await space.aremove(doer, drain=True)
    assert list(space.ids()) == ["me"]
    assert "echo" in seen


async def test_calls_that_wait_are_refused_where_a_loop_is_running(space: Any) -> None:
    space.add(Agent("a"))
    for wait in (space.idle, space.drain, lambda: space.remove("a", drain=True)):
        with pytest.raises(RuntimeError, match="await"):
            wait()
    assert space.ids() == ["a"]


def test_removed_agent_with_waiting_messages_is_logged_with_their_number(
    space: Any, log: Log
) -> None:
    holder = space.add(Holder("holder"))
    me = space.add(Agent("me"))
    for n in range(3):
        me.send(message("holder", "hold", name=str(n)))
    holder.begun.wait_for(1)
    while space.statistics()["agents"]["holder"]["waiting"] < 2:
        pass
    space.remove("holder")
    assert log.wait_for("before it handled") == (
        "WARNING agent 'holder' was removed before it handled 2 messages"
    )


def test_request_that_nobody_waits_for_is_logged_as_dropped(space: Any, log: Log) -> None:
    holder = space.add(Holder("holder"))
    me = space.add(Agent("me"))
    me.ask("holder", "hold")
    line = log.wait_for("dropped its request")
    assert line.startswith("WARNING agent 'me' dropped its request to \"holder.hold\"")
    kept = me.ask("holder", "note", name="kept")
    assert kept.result(timeout=WAIT_S) == "kept"
    del kept
    waited = me.ask("holder", "hold", name="waited for")
    holder.begun.wait_for(lambda begun: "waited for" in begun)
    with pytest.raises(TimeoutError):
        waited.result(timeout=0)
    del waited
    holder.ended.wait_for(lambda ended: "waited for cancelled" in ended)
    assert len([each for each in log.lines if "dropped its request" in each]) == 1
