"""What a space in one process says of the messages that it leaves, and of answers that are lost."""

from __future__ import annotations

import threading

from conformance.conftest import WAIT_S, Listener, Log, message
from conformance.conftest import log as log
from conformance.gate import Holder
from moothall import Agent, NativeSpace, action
from moothall.foundation.errors import AgentStopped, RequestError


def test_native_close_logs_how_many_messages_no_agent_handled(log: Log) -> None:
    with NativeSpace() as space:
        holders = [space.add(Holder(id)) for id in "ab"]
        me = space.add(Agent("me"))
        for id, count in (("a", 3), ("b", 2)):
            for _ in range(count):
                me.send(message(id, "hold"))
        for holder in holders:
            holder.begun.wait_for(1)
        me.ask("me", "help").result()
    (line,) = [each for each in log.lines if "closed before" in each]
    assert line == "WARNING the space was closed before its agents handled 3 messages: 'a' 2, 'b' 1"


def test_native_lost_answers_are_counted_in_one_line(log: Log) -> None:
    class Closed(Listener):
        @action
        async def response(self, data: int, extra: int) -> None:
            """Take no answer, since none has `extra`."""

    with NativeSpace() as space:
        space.add(Holder("holder"))
        closed = space.add(Closed("closed"))
        for n in range(50):
            closed.send(message("holder", "note", name=str(n)))
        log.wait_for("49 more answers to agent 'closed' were lost within a second")
        assert len([each for each in log.lines if "answer to agent 'closed'" in each]) == 1
        closed.send(message("holder", "note", name="later"))  # in a second of its own
        lost = "an answer to agent 'closed' was lost"
        log.lines.wait_for(lambda lines: sum(lost in each for each in lines) == 2)


def test_native_agent_removed_with_drain_takes_nothing_new_and_ends_its_call_chains() -> None:
    class Asker(Holder):
        @action
        async def ask_itself(self) -> str:
            await self.hold("asker")
            return await self.ask(self.id, "note", name="its own")

    with NativeSpace() as space:
        asker = space.add(Asker("asker"))
        me = space.add(Agent("me"))
        asked = me.ask("asker", "ask_itself")
        asker.begun.wait_for(1)
        leaving = threading.Thread(target=space.remove, args=(asker,), kwargs={"drain": True})
        leaving.start()
        while not isinstance(outcome(me), AgentStopped):
            pass
        asker.gate("asker").open()
        assert asked.result(timeout=WAIT_S) == "its own"
        leaving.join(WAIT_S)
        assert space.ids() == ["me"]


def outcome(me: Agent) -> Exception | None:
    """How a short request to the agent that leaves ends."""
    try:
        me.request(message("asker", "note", name="new"), timeout=0.1).result(timeout=WAIT_S)
    except RequestError as error:
        return error
    return None
