"""Agents of several processes that wait for each other: a warning names them."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from moothall import Agent, action
from spaces.amqp.conftest import WAIT_S, Log, MakeSpace


class Peer(Agent):
    """Asks another at the same moment as that one asks it."""

    def __init__(self, id: str, together: threading.Barrier) -> None:
        super().__init__(id)
        self.together = together

    @action
    def plan(self, to: str, what: str = "opinion") -> Any:
        self.together.wait(WAIT_S)
        return self.ask(to, what, timeout=2 * WAIT_S).result()

    @action
    async def opinion(self) -> str:
        return self.id

    @action
    async def forward(self) -> Any:
        return await self.ask("C", "opinion", timeout=2 * WAIT_S)


@pytest.mark.parametrize("shared", (False, True))
def test_amqp_agents_of_two_processes_that_wait_for_each_other_are_named(
    make_space: MakeSpace, log: Log, shared: bool
) -> None:
    together = threading.Barrier(2)
    for id in "AB":
        make_space().add(Peer(id, together), shared=shared)
    me = make_space().add(Agent("me"))
    asked = [me.ask(id, "plan", to=to) for id, to in ("AB", "BA")]
    line = log.wait_for("agents of several processes wait for each other")
    assert '"A.plan" waits for "B.opinion"' in line
    assert '"B.plan" waits for "A.opinion"' in line
    for each in asked:
        each.cancel()


def test_amqp_wait_through_a_third_process_is_named_and_a_slow_one_is_not(
    make_space: MakeSpace, log: Log
) -> None:
    together, never = threading.Barrier(2), threading.Barrier(2)
    for id in "ABC":
        make_space().add(Peer(id, together))
    slow = make_space().add(Peer("slow", never))
    make_space().add(Peer("patient", threading.Barrier(1)))
    me = make_space().add(Agent("me"))
    asked = [
        me.ask("patient", "plan", to="slow", what="plan"),
        me.ask("A", "plan", to="B", what="forward"),
        me.ask("C", "plan", to="A"),
    ]
    line = log.wait_for("agents of several processes wait for each other")
    for pair in (("A.plan", "B.forward"), ("B.forward", "C.opinion"), ("C.plan", "A.opinion")):
        assert '"{}" waits for "{}"'.format(*pair) in line
    assert "patient" not in line
    for each in asked:
        each.cancel()
    slow.together.abort()
