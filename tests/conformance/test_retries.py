"""Actions that are called again after failures that pass."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from conformance.conftest import WAIT_S, Log, Recorder, message
from moothall import ActionError, Agent, RequestTimeout, Retry, action


class Busy(Exception):
    pass


SOON = Retry(times=3, on=Busy, backoff=0.01)


class Clerk(Agent):
    """Fails as often as it is told, each time anew."""

    def __init__(self) -> None:
        super().__init__("clerk")
        self.calls = 0
        self.befores = 0

    def _fail(self, failures: int, kind: type[Exception] = Busy) -> int:
        self.calls += 1
        if self.calls <= failures:
            raise kind("not now")
        return self.calls

    @action(idempotent=True, retries=SOON)
    async def work(self, failures: int) -> int:
        return self._fail(failures)

    @action(idempotent=True, retries=SOON)
    def work_in_thread(self, failures: int) -> int:
        return self._fail(failures)

    @action(idempotent=True, retries=SOON)
    async def break_down(self) -> int:
        return self._fail(9, ValueError)

    @action(retries=Retry(times=1, on=(Busy, OSError), backoff=0, no_effect=True))
    async def pay(self) -> int:
        return self._fail(1)

    @action(idempotent=True, retries=Retry(on=Busy, backoff=30))
    async def work_much_later(self) -> int:
        return self._fail(1)

    @action(idempotent=True, retries=Retry(on=Busy, backoff=30))
    def work_much_later_in_thread(self) -> int:
        return self._fail(1)

    def before_action(self, message: dict[str, Any]) -> None:
        self.befores += 1


@pytest.mark.parametrize("name", ("work", "work_in_thread"))
def test_retries_call_an_action_again_until_it_ends(space: Any, name: str, log: Log) -> None:
    clerk = space.add(Clerk())
    me = space.add(Agent("me"))
    assert me.ask("clerk", name, failures=2).result(WAIT_S) == 3
    assert clerk.befores == 1  # for the message, not for each call
    log.wait_for(f"call 2 of action {name!r} failed (Busy: not now); calling it again in 0.0 s")


def test_retries_end_with_the_last_failure(space: Any) -> None:
    clerk = space.add(Clerk())
    me = space.add(Recorder("me"))
    with pytest.raises(ActionError, match="Busy: not now"):
        me.ask("clerk", "work", failures=9).result(WAIT_S)
    assert clerk.calls == 4
    me.send({"id": "sent", **message("clerk", "work_in_thread", failures=99)})
    assert me.told() == [("error", {"error": "Busy: not now", "original_message_id": "sent"})]
    assert clerk.calls == 8


def test_retries_leave_other_failures_as_they_are(space: Any) -> None:
    clerk = space.add(Clerk())
    me = space.add(Agent("me"))
    with pytest.raises(ActionError, match="ValueError"):
        me.ask("clerk", "break_down").result(WAIT_S)
    assert clerk.calls == 1


def test_retries_of_an_action_that_is_not_idempotent_need_failures_without_effect(
    space: Any,
) -> None:
    space.add(Clerk())
    assert space.add(Agent("me")).ask("clerk", "pay").result(WAIT_S) == 2


@pytest.mark.parametrize("name", ("work_much_later", "work_much_later_in_thread"))
def test_retries_end_with_the_deadline_of_their_request(space: Any, name: str, log: Log) -> None:
    clerk = space.add(Clerk())
    me = space.add(Agent("me"))
    with pytest.raises(RequestTimeout):
        me.request(message("clerk", name), timeout=0.5).result(WAIT_S)
    pause = log.wait_for("calling it again in").rpartition(" in ")[2].removesuffix(" s")
    assert 22.4 <= float(pause) <= 30  # the first one is `backoff`, less up to a quarter
    assert me.ask("clerk", "work", failures=0).result(WAIT_S) == 2  # its place is free again
    assert clerk.calls == 2


def test_retries_hold_the_place_of_their_message_and_so_the_order(space: Any) -> None:
    done: list[int] = []
    first = threading.Event()

    class Orderly(Agent):
        @action(idempotent=True, retries=SOON)
        async def add(self, n: int) -> None:
            if n == 0 and not first.is_set():
                first.set()
                raise Busy("not now")
            done.append(n)

    space.add(Orderly("orderly"))
    me = space.add(Agent("me"))
    for n in range(3):
        me.send(message("orderly", "add", n=n))
    me.ask("orderly", "help", action_name="add").result(WAIT_S)
    until(lambda: len(done) == 3)
    assert done == [0, 1, 2]


def until(condition: Callable[[], Any], timeout: float = WAIT_S) -> None:
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end
        threading.Event().wait(0.002)
