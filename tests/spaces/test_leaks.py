"""What is done with leaves nothing behind: counted, over ten thousand of it."""

import asyncio
import gc
import inspect
import threading
from collections import Counter
from collections.abc import Iterator
from contextvars import ContextVar
from types import CoroutineType
from typing import Any

import pytest

from moothall import Agent, NativeSpace, action
from moothall.foundation.errors import AgentStopped, RequestError

MANY = 10_000
# A space keeps up to 64 idle tasks for reuse; how many it came to need depends on the machine.
POOL = 64
WAIT_S = 50  # less than the test's own timeout


class Server(Agent):
    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.begun = threading.Event()
        self.gate: asyncio.Event | None = None

    @action
    async def hold(self) -> None:
        self.gate = asyncio.Event()
        self.begun.set()
        await self.gate.wait()

    @action
    async def release(self) -> None:
        assert self.gate is not None
        self.gate.set()

    @action
    async def wait(self) -> None:
        await asyncio.Event().wait()

    @action
    async def echo(self, value: Any = None) -> Any:
        return value

    @action
    async def echo_later(self, value: Any = None) -> Any:
        await asyncio.sleep(0)
        return value

    @action
    async def fail(self) -> None:
        raise ValueError("in vain")


@pytest.fixture
def space() -> Iterator[NativeSpace]:
    with NativeSpace(mailbox=2 * MANY) as space:
        yield space


def message(to: str, name: str, **args: Any) -> dict[str, Any]:
    return {"to": to, "action": {"name": name, "args": args}}


def objects() -> Counter[str]:
    """How many objects there are of each type of the package, and of asyncio's."""
    gc.collect()
    found: Counter[str] = Counter()
    for each in gc.get_objects():
        kind = type(each)
        if str(kind.__module__).partition(".")[0] in ("moothall", "_asyncio", "_contextvars"):
            found[f"{kind.__module__}.{kind.__qualname__}"] += 1
    return found


def calm(space: NativeSpace, *agents: Agent) -> Counter[str]:
    """The counts once all that was entered has been done."""
    for one in agents:
        for _ in range(3):
            one.ask(one.id, "help").result(timeout=WAIT_S)
    statistics = space.statistics()
    assert statistics["deadlines"] == 0
    for each in statistics["agents"].values():
        assert each == {"waiting": 0, "handling": [], "asking": 0}
    return objects()


def grown(before: Counter[str], after: Counter[str], by: int = 0) -> dict[str, int]:
    """The types of which there are more than before."""
    return {name: n for name, n in (after - before).items() if n > by}


def test_dropped_waiting_requests_leak_nothing(space: NativeSpace) -> None:
    server = space.add(Server("server"))
    gatekeeper = space.add(Server("gatekeeper"))
    me = space.add(Agent("me"))
    me.ask("server", "echo_later").result(timeout=WAIT_S)
    before = calm(space, me, server, gatekeeper)

    held = me.ask("server", "hold")
    assert server.begun.wait(WAIT_S)
    asked = [me.ask("server", "echo", value=n) for n in range(MANY)]
    me.ask("me", "help").result(timeout=WAIT_S)
    assert space.statistics()["deadlines"] >= MANY
    assert space.statistics()["agents"]["server"]["waiting"] == MANY
    del asked
    me.ask("me", "help").result(timeout=WAIT_S)
    statistics = space.statistics()
    assert statistics["deadlines"] <= 1
    assert statistics["agents"]["server"]["waiting"] == 0
    # While the server is still held: what was dropped is gone already, but for a few.
    assert grown(before, objects(), by=100) == {}
    held.cancel()
    with pytest.raises(RequestError):
        held.result(timeout=WAIT_S)
    del held
    assert grown(before, calm(space, me, server, gatekeeper), by=POOL) == {}


def test_dropped_running_requests_leak_nothing(space: NativeSpace) -> None:
    servers = [space.add(Server(f"server {i}")) for i in range(10)]
    me = space.add(Agent("me"))

    def drop(many: int) -> None:
        for n in range(many):
            me.ask(f"server {n % 10}", "wait")

    drop(1000)
    before = calm(space, me, *servers)
    drop(MANY)
    assert grown(before, calm(space, me, *servers), by=POOL) == {}


def test_dropped_requests_to_an_absent_agent_leak_nothing(space: NativeSpace) -> None:
    me = space.add(Agent("me"))
    before = calm(space, me)
    for n in range(MANY):
        me.request(message(f"absent {n % 10}", "echo"), wait=True)
    assert grown(before, calm(space, me), by=POOL) == {}


@pytest.mark.parametrize(
    "name",
    (
        "echo_later",
        "fail",
        *(pytest.param(name, marks=pytest.mark.long) for name in ("echo", "nothing")),
    ),
)
def test_ten_thousand_answered_requests(space: NativeSpace, name: str) -> None:
    server = space.add(Server("server"))
    me = space.add(Agent("me"))

    def ask(many: int) -> None:
        asked = [me.ask("server", name) for _ in range(many)]
        for request in asked:
            try:
                request.result(timeout=WAIT_S)
            except RequestError:
                continue

    ask(100)
    before = calm(space, me, server)
    ask(MANY)
    assert grown(before, calm(space, me, server), by=POOL) == {}


def test_timed_out_requests_leak_nothing(space: NativeSpace) -> None:
    server = space.add(Server("server"))
    me = space.add(Agent("me"))

    def ask(many: int) -> None:
        asked = [me.request(message("server", "wait"), timeout=0.05) for _ in range(many)]
        for request in asked:
            with pytest.raises(TimeoutError):
                request.result(timeout=WAIT_S)

    ask(100)
    before = calm(space, me, server)
    ask(MANY)
    assert grown(before, calm(space, me, server), by=POOL) == {}


def test_ten_thousand_sends_and_answers(space: NativeSpace) -> None:
    server = space.add(Server("server"))
    me = space.add(Agent("me"))

    def send(many: int) -> None:
        for n in range(many):
            me.send(message("server", "echo", value=n))
            me.send(message("nobody", "echo", value=n))
        me.ask("server", "echo").result(timeout=WAIT_S)

    send(100)
    before = calm(space, me, server)
    send(MANY)
    assert grown(before, calm(space, me, server), by=POOL) == {}


def test_removed_agents_leak_nothing(space: NativeSpace) -> None:
    me = space.add(Agent("me"))

    def come_and_go(many: int) -> None:
        for n in range(many):
            server = space.add(Server(f"server {n}"))
            assert me.ask(server.id, "echo", value=n).result(timeout=WAIT_S) == n
            request = me.ask(server.id, "wait")
            space.remove(server)
            with pytest.raises(AgentStopped):
                request.result(timeout=WAIT_S)

    come_and_go(20)
    before = calm(space, me)
    come_and_go(1000)
    assert grown(before, calm(space, me), by=POOL) == {}
    assert sum(type(each) is Server for each in gc.get_objects()) == 0


def test_request_result_polling_leaks_nothing(space: NativeSpace) -> None:
    server = space.add(Server("server"))
    me = space.add(Agent("me"))
    held = me.ask("server", "hold")
    assert server.begun.wait(WAIT_S)

    def poll(many: int) -> int:
        for _ in range(many):
            with pytest.raises(TimeoutError):
                held.result(timeout=0)
        gc.collect()
        return sum(type(each) is threading.Event for each in gc.get_objects())

    before = poll(10)
    assert poll(1000) <= before + 10
    held.cancel()


def test_message_arguments_are_released_after_the_answer(space: NativeSpace) -> None:
    server = space.add(Server("server"))
    me = space.add(Agent("me"))
    for name in ("echo", "echo_later"):
        for _ in range(20):
            me.ask("server", name, value={"mark": ["carried"]}).result(timeout=WAIT_S)
    calm(space, me, server)
    assert sum(type(each) is list and each == ["carried"] for each in gc.get_objects()) == 0


def test_closed_spaces_leak_nothing(space: NativeSpace) -> None:
    def open_and_close(many: int) -> None:
        for _ in range(many):
            with NativeSpace() as other:
                other.add(Server("server"))
                me = other.add(Agent("me"))
                assert me.ask("server", "echo_later", value=1).result(timeout=WAIT_S) == 1
                asked = me.ask("server", "wait")
            assert asked.done()

    open_and_close(2)
    before, threads = objects(), threading.active_count()
    open_and_close(6)
    assert grown(before, objects(), by=POOL) == {}
    assert threading.active_count() <= threads


def test_task_pool_shrinks_to_the_tasks_needed_at_a_time(space: NativeSpace) -> None:
    servers = [space.add(Server(f"server {i}")) for i in range(500)]
    me = space.add(Agent("me"))
    before = objects()["_asyncio.Task"]
    waiting = [me.ask(server.id, "wait") for server in servers]
    for _ in range(3):
        me.ask("me", "help").result(timeout=WAIT_S)
    del waiting
    calm(space, me, *servers)
    assert objects()["_asyncio.Task"] < before + 100


def test_task_pool_drops_tasks_with_leftover_context_variables(
    space: NativeSpace, caplog: pytest.LogCaptureFixture
) -> None:
    kept: ContextVar[int] = ContextVar("kept")

    class Keeper(Agent):
        @action
        async def keep(self, n: int) -> int:
            kept.set(n)
            return n

    keeper, me = space.add(Keeper("keeper")), space.add(Agent("me"))
    before = objects()["_asyncio.Task"]
    for n in range(300):
        me.ask("keeper", "help").result(timeout=WAIT_S)  # this one's task stands ready for the next
        assert me.ask("keeper", "keep", n=n).result(timeout=WAIT_S) == n
    calm(space, me, keeper)
    assert objects()["_asyncio.Task"] < before + 100
    assert caplog.text == ""  # asyncio tells of a task that is collected while it waits


def test_native_space_close_while_handlers_begin_leaves_no_coroutine() -> None:
    def open_and_close(many: int) -> None:
        space = NativeSpace()
        servers = [space.add(Server(f"server {i}")) for i in range(many)]
        me = space.add(Agent("me"))
        asked = [me.ask(server.id, "echo_later") for server in servers]
        space.close()
        assert all(request.done() for request in asked)

    for many in (1, 2, 3, 5, 8, 13) * 10:
        open_and_close(many)
    gc.collect()  # one that nothing holds any more complains now, and pytest listens
    left = [each for each in gc.get_objects() if type(each) is CoroutineType]
    assert [each for each in left if inspect.getcoroutinestate(each) == inspect.CORO_CREATED] == []


def test_native_statistics_count_no_request_without_a_deadline(space: NativeSpace) -> None:
    class Asker(Server):
        @action
        async def look(self, limit: float | None) -> int:
            asked = self.ask("server", "echo_later", timeout=limit)
            deadlines = int(space.statistics()["deadlines"])
            await asked
            return deadlines

    space.add(Server("server"))
    asker = space.add(Asker("asker"))
    for limit, count in ((None, 0), (10, 1)):
        found = asker.ask("asker", "look", timeout=None, limit=limit)
        assert found.result(timeout=WAIT_S) == count
