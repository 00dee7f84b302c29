"""A request with `wait=True` waits for an agent that is not there, until its deadline."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from conformance.conftest import WAIT_S, message
from conformance.gate import Doer, Holder
from moothall import Agent, action
from moothall.foundation.errors import AgentNotFound, RequestCancelled, RequestTimeout, SpaceClosed


def test_request_with_wait_is_answered_by_an_agent_added_later(space: Any) -> None:
    me = space.add(Agent("me"))
    request = me.request(message("later", "note", name="a"), wait=True)
    me.ask("me", "help").result(timeout=WAIT_S)
    assert not request.done()
    later = space.add(Holder("later"))
    assert request.result(timeout=WAIT_S) == "a"
    assert later.begun == ["a"]


def test_request_with_wait_is_answered_by_an_agent_added_again(space: Any) -> None:
    me = space.add(Agent("me"))
    space.add(Holder("comes back"))
    assert me.ask("comes back", "note", name="first").result(timeout=WAIT_S) == "first"
    space.remove("comes back")
    request = me.request(message("comes back", "note", name="second"), wait=True)
    with pytest.raises(AgentNotFound):
        me.ask("comes back", "note", name="not waited for").result(timeout=WAIT_S)
    assert not request.done()
    again = space.add(Holder("comes back"))
    assert request.result(timeout=WAIT_S) == "second"
    assert again.begun == ["second"]


def test_request_with_wait_to_a_present_agent_is_answered(space: Any) -> None:
    me = space.add(Agent("me"))
    space.add(Holder("there"))
    request = me.request(message("there", "note", name="a"), wait=True)
    assert request.result(timeout=WAIT_S) == "a"


def test_request_with_wait_past_its_timeout_never_runs(space: Any) -> None:
    me = space.add(Agent("me"))
    request = me.request(message("later", "note", name="late"), timeout=0.3, wait=True)
    with pytest.raises(RequestTimeout, match=r'"later\.note" in 0\.3 s'):
        request.result(timeout=WAIT_S)
    later = space.add(Holder("later"))
    assert me.ask("later", "note", name="new").result(timeout=WAIT_S) == "new"
    assert later.begun == ["new"]


def test_request_with_wait_cancelled_or_dropped_never_runs(space: Any) -> None:
    me = space.add(Agent("me"))
    request = me.request(message("later", "note", name="cancelled"), wait=True)
    request.cancel()
    with pytest.raises(RequestCancelled):
        request.result(timeout=WAIT_S)
    dropped = me.request(message("later", "note", name="dropped"), wait=True)
    del dropped
    kept = me.request(message("later", "note", name="kept"), wait=True)
    later = space.add(Holder("later"))
    assert kept.result(timeout=WAIT_S) == "kept"
    assert later.begun == ["kept"]


def test_request_with_wait_runs_before_requests_made_during_add(space: Any) -> None:
    later = Holder("later")

    class Asker(Agent):
        @action
        async def ask_twice(self) -> list[str]:
            first = self.request(message("later", "note", name="first"), wait=True)
            adding = threading.Thread(target=space.add, args=(later,))
            adding.start()
            while "later" not in space.ids():  # this holds the space's loop
                threading.Event().wait(0.001)
            second = self.request(message("later", "note", name="second"), wait=True)
            return [await first, await second]

    asker = space.add(Asker("asker"))
    assert asker.ask("asker", "ask_twice").result(timeout=WAIT_S) == ["first", "second"]
    assert later.begun == ["first", "second"]


def test_request_with_wait_ends_when_the_space_is_closed(space: Any) -> None:
    me = space.add(Agent("me"))
    request = me.request(message("later", "note", name="a"), timeout=None, wait=True)
    space.close()
    with pytest.raises(SpaceClosed):
        request.result(timeout=WAIT_S)


def test_requests_with_wait_run_in_order(space: Any) -> None:
    me = space.add(Agent("me"))
    names = [str(n) for n in range(50)]
    asked = [me.request(message("later", "note", name=name), wait=True) for name in names]
    later = space.add(Holder("later"))
    assert [request.result(timeout=WAIT_S) for request in asked] == names
    assert later.begun == names


def test_request_with_wait_may_be_awaited_in_an_action(space: Any) -> None:
    async def ask(agent: Agent, _: Any) -> Any:
        return await agent.request(message("later", "note", name="a"), wait=True)

    space.add(Doer("doer", do=ask))
    me = space.add(Agent("me"))
    request = me.ask("doer", "do")
    space.add(Holder("later"))
    assert request.result(timeout=WAIT_S) == "a"


async def test_request_with_wait_may_be_awaited_on_another_loop(space: Any) -> None:
    me = space.add(Agent("me"))
    request = me.request(message("later", "note", name="a"), wait=True)
    await asyncio.to_thread(space.add, Holder("later"))
    assert (await request) == "a"
