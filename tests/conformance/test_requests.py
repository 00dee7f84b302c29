"""Every outcome of a request, and that it has exactly one."""

import asyncio
import math
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from conformance.conftest import WAIT_S, message
from conformance.gate import LATE_S, Doer, Holder
from moothall import ACCESS_DENIED, ACCESS_REQUESTED, Agent, action
from moothall.foundation.errors import (
    ActionError,
    ActionNotFound,
    AgentNotFound,
    AgentStopped,
    DefinitionError,
    InvalidArguments,
    MailboxFull,
    MoothallError,
    NotPermitted,
    RequestCancelled,
    RequestError,
    RequestTimeout,
    SpaceClosed,
)


class Server(Holder):
    @action
    async def add(self, a: int, b: int) -> int:
        return a + b

    @action
    def add_plainly(self, a: int, b: int) -> int:
        return a + b

    @action
    async def fail(self) -> None:
        raise ZeroDivisionError("division by zero")

    @action
    def fail_plainly(self) -> None:
        raise ZeroDivisionError("division by zero")

    @action(access_policy=ACCESS_DENIED)
    async def denied(self) -> None:
        pass

    @action(access_policy=ACCESS_REQUESTED)
    async def asked_for(self) -> None:
        pass


def in_vain(space: Any, me: Agent, server: Server) -> Any:
    return me.ask("server", "fail")


def in_vain_plainly(space: Any, me: Agent, server: Server) -> Any:
    return me.ask("server", "fail_plainly")


def wrongly(space: Any, me: Agent, server: Server) -> Any:
    return me.ask("server", "add", a=1)


def nothing(space: Any, me: Agent, server: Server) -> Any:
    return me.ask("server", "dance")


def denied(space: Any, me: Agent, server: Server) -> Any:
    return me.ask("server", "denied")


def refused(space: Any, me: Agent, server: Server) -> Any:
    return me.ask("server", "asked_for")


def nobody(space: Any, me: Agent, server: Server) -> Any:
    return me.ask("nobody", "add", a=1, b=2)


def too_many(space: Any, me: Agent, server: Server) -> Any:
    me.send(message("server", "hold"))
    server.begun.wait_for(1)
    for _ in range(3):
        me.send(message("server", "hold"))
    return me.ask("server", "add", a=1, b=2)


def late(space: Any, me: Agent, server: Server) -> Any:
    return me.request(message("server", "hold"), timeout=0.05)


def late_plainly(space: Any, me: Agent, server: Server) -> Any:
    return me.request(message("server", "hold_plainly"), timeout=0.05)


def late_in_the_box(space: Any, me: Agent, server: Server) -> Any:
    me.send(message("server", "hold"))
    return me.request(message("server", "add", a=1, b=2), timeout=0.05)


def cancelled(space: Any, me: Agent, server: Server) -> Any:
    request = me.ask("server", "hold")
    server.begun.wait_for(1)
    request.cancel()
    return request


def stopped(space: Any, me: Agent, server: Server) -> Any:
    request = me.ask("server", "hold")
    server.begun.wait_for(1)
    space.remove("server")
    return request


def stopped_in_the_box(space: Any, me: Agent, server: Server) -> Any:
    me.send(message("server", "hold"))
    server.begun.wait_for(1)
    request = me.ask("server", "add", a=1, b=2)
    space.remove("server")
    return request


def closed(space: Any, me: Agent, server: Server) -> Any:
    request = me.ask("server", "hold")
    server.begun.wait_for(1)
    space.close()
    return request


@pytest.mark.parametrize(
    ("reach", "kind", "text"),
    (
        (in_vain, ActionError, "ZeroDivisionError: division by zero"),
        (in_vain_plainly, ActionError, "ZeroDivisionError: division by zero"),
        (wrongly, InvalidArguments, '"server.add" missing argument "b"'),
        (nothing, ActionNotFound, '"dance" not found on "server"'),
        (denied, NotPermitted, '"server.denied" not permitted'),
        (refused, NotPermitted, '"server.asked_for" not permitted'),
        (nobody, AgentNotFound, '"nobody"'),
        (too_many, MailboxFull, '"server" is full'),
        (late, RequestTimeout, "server.hold"),
        (late_plainly, RequestTimeout, "server.hold_plainly"),
        (late_in_the_box, RequestTimeout, "server.add"),
        (cancelled, RequestCancelled, "server.hold"),
        (stopped, AgentStopped, '"server"'),
        (stopped_in_the_box, AgentStopped, '"server"'),
        (closed, SpaceClosed, "closed"),
    ),
    ids=lambda part: part.__name__ if callable(part) and not isinstance(part, type) else "",
)
def test_request_outcome_is_reached_once_and_stays(
    make_space: Any, reach: Callable[..., Any], kind: type[RequestError], text: str
) -> None:
    space = make_space(mailbox=3)
    server = space.add(Server("server"))
    me = space.add(Agent("me"))
    request = reach(space, me, server)
    with pytest.raises(RequestError) as first:
        request.result(timeout=WAIT_S)
    assert type(first.value) in (kind, *kind.__subclasses__())
    assert text in str(first.value)
    assert isinstance(first.value, MoothallError)
    assert request.done()

    async def wait() -> Any:
        return await request

    with pytest.raises(kind) as second:
        asyncio.run(wait())
    with pytest.raises(kind) as third:
        request.result()
    assert str(first.value) == str(second.value) == str(third.value)
    request.cancel()
    server.gate("one").open()
    with pytest.raises(kind) as fourth:
        request.result(timeout=WAIT_S)
    assert str(fourth.value) == str(first.value)


@pytest.mark.parametrize("name", ("add", "add_plainly"))
async def test_request_value_comes_once_and_stays(space: Any, name: str) -> None:
    space.add(Server("server"))
    me = space.add(Agent("me"))
    request = me.ask("server", name, a=2, b=3)
    assert request.result(timeout=WAIT_S) == 5
    assert request.done()
    request.cancel()
    assert (await request) == 5
    assert request.result() == 5
    assert request.result(timeout=0) == 5


@pytest.mark.parametrize(
    ("id", "name", "data"),
    (
        ("server", "give", 1),
        (7, "give", [1, {"a": ["ü"]}]),
        ("server", "größer", [1, {"a": ["ü"]}]),
        ("Käthe", "give", [1, {"a": ["ü"]}]),
        ("客服", "größer", 1),
        ("客服", "größer", "x" * 200_000),
    ),
)
def test_ask_takes_any_id_name_and_arguments(
    space: Any, id: str | int, name: str, data: object
) -> None:
    """To an id or action that is not ASCII, `ask` refused arguments that are not flat."""

    class Giver(Agent):
        @action(name=name)
        async def give(self, data: Any) -> Any:
            return data

    space.add(Giver(id))
    me = space.add(Agent("me"))
    assert me.ask(id, name, data=data).result(timeout=WAIT_S) == data


def test_request_timeout_is_a_timeout_error(space: Any) -> None:
    space.add(Server("server"))
    me = space.add(Agent("me"))
    with pytest.raises(TimeoutError) as late:
        me.request(message("server", "hold"), timeout=0.05).result(timeout=WAIT_S)
    assert isinstance(late.value, RequestTimeout)


def test_request_timeout_is_not_shortened_by_earlier_requests(space: Any) -> None:
    space.add(Server("server"))
    me = space.add(Agent("me"))
    for _ in range(4):
        earlier = me.request(message("server", "hold"), timeout=WAIT_S)
        for _ in range(20):
            me.ask("me", "help").result(timeout=WAIT_S)
        begun = time.monotonic()
        with pytest.raises(RequestTimeout):
            me.request(message("server", "hold"), timeout=0.03).result(timeout=WAIT_S)
        assert time.monotonic() - begun >= 0.03
        earlier.cancel()


def test_request_done_tells_if_there_is_an_outcome(space: Any) -> None:
    server = space.add(Server("server"))
    me = space.add(Agent("me"))
    request = me.ask("server", "hold")
    server.begun.wait_for(1)
    assert not request.done()
    server.gate("one").open()
    assert request.result(timeout=WAIT_S) == "one"
    assert request.done()


def test_request_result_may_be_called_again_after_its_timeout(space: Any) -> None:
    server = space.add(Server("server"))
    me = space.add(Agent("me"))
    request = me.ask("server", "hold")
    for timeout in (0.01, 0, -1):
        with pytest.raises(TimeoutError) as late:
            request.result(timeout=timeout)
        assert not isinstance(late.value, RequestError)
    assert not request.done()
    server.gate("one").open()
    assert request.result(timeout=WAIT_S) == "one"


def test_request_gives_every_waiter_one_outcome(space: Any) -> None:
    server = space.add(Server("server"))
    me = space.add(Agent("me"))
    request = me.ask("server", "hold")
    server.begun.wait_for(1)
    values: list[Any] = []

    async def wait() -> Any:
        return await asyncio.gather(*(_await(request) for _ in range(3)))

    threads = [
        threading.Thread(target=lambda: values.append(request.result(timeout=WAIT_S)))
        for _ in range(4)
    ]
    threads.append(threading.Thread(target=lambda: values.extend(asyncio.run(wait()))))
    for thread in threads:
        thread.start()
    server.gate("one").open()
    for thread in threads:
        thread.join(WAIT_S)
    assert values == ["one"] * 7


async def _await(request: Any) -> Any:
    return await request


@pytest.mark.parametrize("timeout", (0, -1, 1e-9))
def test_request_timeout_already_past_raises_request_timeout(space: Any, timeout: float) -> None:
    server = space.add(Server("server"))
    me = space.add(Agent("me"))
    with pytest.raises(RequestTimeout):
        me.request(message("server", "hold"), timeout=timeout).result(timeout=WAIT_S)
    assert me.ask("server", "add", a=1, b=1).result(timeout=WAIT_S) == 2
    assert server.ended in ([], ["one cancelled"])


@pytest.mark.parametrize("timeout", (None, math.inf, sys.float_info.max, 10**400, 1e18))
def test_request_timeout_may_be_arbitrarily_long(space: Any, timeout: float | None) -> None:
    server = space.add(Server("server"))
    me = space.add(Agent("me"))
    request = me.request(message("server", "hold"), timeout=timeout)
    with pytest.raises(RequestTimeout):
        me.request(message("server", "hold"), timeout=0.05).result(timeout=WAIT_S)
    server.begun.wait_for(1)
    server.gate("one").open()
    assert request.result(timeout=WAIT_S) == "one"
    assert me.ask("server", "add", a=1, b=1).result(timeout=WAIT_S) == 2


@pytest.mark.parametrize("timeout", ("1", True, math.nan, [], 1j))
def test_request_timeout_refuses_anything_but_a_number(space: Any, timeout: Any) -> None:
    space.add(Server("server"))
    me = space.add(Agent("me"))
    with pytest.raises(DefinitionError, match="timeout"):
        me.request(message("server", "add", a=1, b=2), timeout=timeout)


def outcome(request: Any) -> Any:
    """The value, or the type of what the action raised."""
    try:
        return request.result(timeout=WAIT_S)
    except ActionError as error:
        return error.type


# -- what an action may raise ----------------------------------------------------------------------


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Fatal(BaseException):
    pass


def deeper() -> None:
    deeper()


def too_deep() -> BaseException:
    try:
        deeper()
    except RecursionError as error:
        return error
    raise AssertionError("unreachable")


RAISED: dict[str, Callable[[], BaseException]] = {
    "StopIteration": lambda: StopIteration("x"),
    "StopAsyncIteration": lambda: StopAsyncIteration("x"),
    "KeyboardInterrupt": KeyboardInterrupt,
    "SystemExit": lambda: SystemExit(3),
    "GeneratorExit": GeneratorExit,
    "CancelledError": asyncio.CancelledError,
    "RecursionError": too_deep,
    "Silent": Silent,
    "Fatal": lambda: Fatal("x"),
    "ExceptionGroup": lambda: ExceptionGroup("many", [ValueError("a")]),
    "TimeoutError": TimeoutError,
    "MemoryError": MemoryError,
    "UnicodeEncodeError": lambda: UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates"),
    "RequestTimeout": lambda: RequestTimeout("not of this request"),
    "RequestCancelled": lambda: RequestCancelled("not of this request"),
    "SpaceClosed": lambda: SpaceClosed("not this space"),
}


class Thrower(Agent):
    @action
    async def at_once(self, kind: str) -> None:
        raise RAISED[kind]()

    @action
    async def later(self, kind: str) -> None:
        await asyncio.sleep(0)
        raise RAISED[kind]()

    @action
    def plainly(self, kind: str) -> None:
        raise RAISED[kind]()

    @action
    async def fine(self) -> str:
        return "fine"

    @action
    def fine_plainly(self) -> str:
        return "fine"


@pytest.mark.parametrize("kind", RAISED)
def test_action_exception_of_any_kind_is_the_outcome_and_the_agent_continues(
    space: Any, kind: str
) -> None:
    space.add(Thrower("thrower"))
    space.add(Doer("other"))
    me = space.add(Agent("me"))
    for when in ("at_once", "later", "plainly") * 2:
        with pytest.raises(ActionError) as raised:
            me.ask("thrower", when, kind=kind).result(timeout=WAIT_S)
        # An async function cannot raise a StopIteration: the language makes it a RuntimeError.
        allowed = (kind, "RuntimeError") if kind.startswith("Stop") else (kind,)
        assert raised.value.type in allowed
        assert me.ask("thrower", "fine").result(timeout=WAIT_S) == "fine"
        assert me.ask("thrower", "fine_plainly").result(timeout=WAIT_S) == "fine"
        assert me.ask("other", "echo", value=1).result(timeout=WAIT_S) == 1
    assert space.statistics()["agents"]["thrower"] == {"waiting": 0, "handling": [], "asking": 0}


@pytest.mark.parametrize("kind", RAISED)
def test_before_action_exception_of_any_kind_is_the_outcome(space: Any, kind: str) -> None:
    class Async(Thrower):
        async def before_action(self, message: dict[str, Any]) -> None:
            if message["action"]["name"] == "at_once":
                raise RAISED[kind]()

    class Plain(Thrower):
        def before_action(self, message: dict[str, Any]) -> None:
            if message["action"]["name"] == "at_once":
                raise RAISED[kind]()

    me = space.add(Agent("me"))
    for thrower in (Async("async"), Plain("plain")):
        space.add(thrower)
        with pytest.raises(ActionError) as raised:
            me.ask(thrower.id, "at_once", kind="Fatal").result(timeout=WAIT_S)
        allowed = (kind, "RuntimeError") if kind.startswith("Stop") else (kind,)
        assert raised.value.type in allowed
        assert me.ask(thrower.id, "fine").result(timeout=WAIT_S) == "fine"


@pytest.mark.parametrize("kind", RAISED)
def test_after_action_exception_of_any_kind_leaves_one_outcome(space: Any, kind: str) -> None:
    class Async(Thrower):
        async def after_action(self, message: dict[str, Any], *_: Any) -> None:
            raise RAISED[kind]()

    class Plain(Thrower):
        def after_action(self, message: dict[str, Any], *_: Any) -> None:
            raise RAISED[kind]()

    space.add(Doer("other"))
    me = space.add(Agent("me"))
    for thrower in (Async("async"), Plain("plain")):
        space.add(thrower)
        for name in ("fine", "fine_plainly"):
            request = me.ask(thrower.id, name)
            assert outcome(request) in ("fine", kind, "RuntimeError")
            assert request.done()
        assert me.ask("other", "echo", value=1).result(timeout=WAIT_S) == 1
        assert space.statistics()["agents"][thrower.id]["handling"] == []


@pytest.mark.parametrize("kind", RAISED)
def test_request_permission_exception_of_any_kind_refuses(space: Any, kind: str) -> None:
    class Async(Server):
        async def request_permission(self, proposed_message: dict[str, Any]) -> bool:
            raise RAISED[kind]()

    class Plain(Server):
        def request_permission(self, proposed_message: dict[str, Any]) -> bool:
            raise RAISED[kind]()

    me = space.add(Agent("me"))
    for server in (Async("async"), Plain("plain")):
        space.add(server)
        with pytest.raises(NotPermitted):
            me.ask(server.id, "asked_for").result(timeout=WAIT_S)
        assert me.ask(server.id, "add", a=1, b=2).result(timeout=WAIT_S) == 3
        assert space.statistics()["agents"][server.id]["asking"] == 0


# -- what an action may return ---------------------------------------------------------------------


class EvilDict(dict[str, Any]):
    def items(self) -> Any:
        raise RuntimeError("no items")

    def __iter__(self) -> Any:
        raise RuntimeError("no keys")


class EvilText(str):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    def __repr__(self) -> str:
        raise RuntimeError("no text")


class EvilThing:
    def __getattribute__(self, name: str) -> Any:
        raise KeyboardInterrupt(name)


NO_VALUES: dict[str, Callable[[], Any]] = {
    "object": object,
    "thing": EvilThing,
    "things": lambda: [1, EvilThing()],
    "dict": lambda: {"a": EvilDict(a=1)},
}


@pytest.mark.parametrize("what", (*NO_VALUES, "text"))
def test_action_result_that_is_not_json_is_an_error_or_converted(space: Any, what: str) -> None:
    made = {**NO_VALUES, "text": lambda: EvilText("x")}

    async def give(agent: Agent, value: Any) -> Any:
        return made[value]()

    space.add(Doer("doer", give, lambda agent, value: made[value]()))
    me = space.add(Agent("me"))
    for name in ("do", "do_plainly"):
        request = me.ask("doer", name, value=what)
        if what in ("text", "dict"):  # plain data in the clothes of a class: either will do
            assert outcome(request) in ("x", {"a": {"a": 1}}, "TypeError", "RuntimeError")
        else:
            with pytest.raises(ActionError):
                request.result(timeout=WAIT_S)
        assert me.ask("doer", "echo", value=1).result(timeout=WAIT_S) == 1
    assert space.statistics()["agents"]["doer"]["handling"] == []


def test_action_result_is_copied_for_every_request(space: Any) -> None:
    kept: list[Any] = [1, {"a": [2]}]

    async def give(agent: Agent, value: Any) -> Any:
        return kept

    space.add(Doer("doer", give))
    me = space.add(Agent("me"))
    first = me.ask("doer", "do").result(timeout=WAIT_S)
    first[1]["a"].append(3)
    assert me.ask("doer", "do").result(timeout=WAIT_S) == [1, {"a": [2]}]
    assert kept == [1, {"a": [2]}]


# -- asyncio's own ways to wait --------------------------------------------------------------------


def test_gather_over_requests(space: Any) -> None:
    space.add(Server("server"))

    async def sum_up(agent: Agent, value: Any) -> Any:
        asked = [agent.ask("server", "add", a=i, b=i) for i in range(20)]
        values = await asyncio.gather(*asked)
        mixed = await asyncio.gather(
            agent.ask("server", "add_plainly", a=1, b=1),
            agent.ask("server", "fail"),
            agent.ask("nobody", "add"),
            return_exceptions=True,
        )
        return [values, [type(each).__name__ for each in mixed]]

    space.add(Doer("doer", sum_up))
    me = space.add(Agent("me"))
    values, kinds = me.ask("doer", "do").result(timeout=WAIT_S)
    assert values == [2 * i for i in range(20)]
    assert kinds == ["int", "ActionError", "AgentNotFound"]


def test_task_group_over_requests(space: Any) -> None:
    server = space.add(Server("server", concurrency=3))

    async def group(agent: Agent, value: Any) -> Any:
        async with asyncio.TaskGroup() as tasks:
            asked = [
                tasks.create_task(_await(agent.ask("server", "add", a=i, b=1))) for i in range(5)
            ]
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_await(agent.ask("server", "hold")))
                tasks.create_task(_await(agent.ask("server", "fail")))
        except* ActionError:
            failed = True
        return [[each.result() for each in asked], failed]

    space.add(Doer("doer", group))
    me = space.add(Agent("me"))
    assert me.ask("doer", "do").result(timeout=WAIT_S) == [[1, 2, 3, 4, 5], True]
    # The failure of the one cancels the other, and so the action that it asked for.
    server.ended.wait_for(lambda ended: not server.begun or ended == ["one cancelled"])


def test_request_in_wait_for_is_cancelled_at_the_timeout(space: Any) -> None:
    server = space.add(Server("server"))

    async def wait(agent: Agent, value: Any) -> Any:
        try:
            await asyncio.wait_for(agent.ask("server", "hold"), LATE_S)
        except TimeoutError as error:
            return isinstance(error, RequestError)
        return "it ended"

    space.add(Doer("doer", wait))
    me = space.add(Agent("me"))
    assert me.ask("doer", "do").result(timeout=WAIT_S) is False
    assert server.ended.wait_for(1) == ["one cancelled"]


def test_request_shielded_outlives_a_cancelled_waiter(space: Any) -> None:
    server = space.add(Server("server"))
    kept: list[Any] = []

    async def wait(agent: Agent, value: Any) -> Any:
        kept.append(asyncio.ensure_future(agent.ask("server", "hold")))
        return await asyncio.shield(kept[0])

    space.add(Doer("doer", wait))
    me = space.add(Agent("me"))
    request = me.ask("doer", "do")
    server.begun.wait_for(1)
    request.cancel()
    with pytest.raises(RequestCancelled):
        request.result(timeout=WAIT_S)
    server.gate("one").open()
    assert server.ended.wait_for(1) == ["one done"]


def test_request_may_be_awaited_by_several_tasks(space: Any) -> None:
    server = space.add(Server("server"))

    async def wait(agent: Agent, value: Any) -> Any:
        request = agent.ask("server", "hold")
        tasks = [asyncio.create_task(_await(request)) for _ in range(3)]
        await asyncio.sleep(0)
        server.gate("one").open()
        return await asyncio.gather(*tasks)

    space.add(Doer("doer", wait))
    me = space.add(Agent("me"))
    assert me.ask("doer", "do").result(timeout=WAIT_S) == ["one"] * 3


def test_ask_ends_at_its_timeout(space: Any) -> None:
    holder = space.add(Holder("holder"))
    me = space.add(Agent("me"))
    with pytest.raises(RequestTimeout, match=r'no answer from "holder.hold" in 0.3 s'):
        me.ask("holder", "hold", name="one", timeout=0.3).result(timeout=WAIT_S)
    assert me.ask("holder", "note", name="two", timeout=None).result(timeout=WAIT_S) == "two"
    assert holder.ended[0] == "one cancelled"
    with pytest.raises(DefinitionError, match="timeout= must be a number of seconds"):
        me.ask("holder", "note", name="three", timeout="5")
